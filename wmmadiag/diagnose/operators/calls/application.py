"""A function applied, or no longer."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ALWAYS = ("sqrtf",)
_ROLES = frozenset({"value", "denominator"})
_PARTS = frozenset({"term", "factor"})
_MAGNITUDES, _EXTREMES = (
    frozenset({"abs", "fabs", "fabsf"}),
    frozenset({"max", "min", "fmax", "fmin", "fmaxf", "fminf"}),
)


@operator
def application(program: Program) -> Iterator[Draft]:
    """`f(x)` for a real `x`, with a function from reals to reals that the program calls, or has and never calls, or a
    root."""
    uncalled = dict.fromkeys(_uncalled(program))
    functions = {**uncalled, **dict.fromkeys(_ALWAYS)}
    for one in program.all_expressions():
        unary = one.kind == "call" and one.receiver is None and len(one.operands) == 1
        if unary and one.type.kind == "float" and one.operands[0].type.kind == "float":
            functions.setdefault(one.operator)
    for one in program.expressions:
        if one.type.kind != "float" or one.kind in ("literal", "list", "assignment"):
            continue
        if one.assigned or one.fixed:
            continue
        whole = one.role in _ROLES or _converted(one)
        for name in functions if whole else uncalled if one.role in _PARTS else ():
            if not _calls(one, name):
                yield replaced(one, Text(f"{name}({one.text})", precedence.POSTFIX), f"{name} of {one.text}")


@operator
def magnitude(program: Program) -> Iterator[Draft]:
    """`abs(a - b)` for a difference, and `fabsf(x)` for a real number of which a greatest or a least is sought."""
    for one in program.expressions:
        around = one.parent
        known = one.operator in _MAGNITUDES or (around is not None and around.operator in _MAGNITUDES)
        if one.assigned or one.fixed or known:
            continue
        inner = one.operands[0] if one.kind == "cast" and len(one.operands) == 1 else one
        difference = inner.kind == "binary" and inner.operator == "-" and not inner.type.address
        extreme = around is not None and around.kind == "call" and around.operator in _EXTREMES
        if one.type.kind == "float" and one.kind not in ("literal", "list", "assignment") and (difference or extreme):
            yield replaced(one, Text(f"fabsf({one.text})", precedence.POSTFIX), f"magnitude of {one.text}")
        elif one.type.kind == "integer" and difference and one is inner:
            yield replaced(one, Text(f"abs({one.text})", precedence.POSTFIX), f"magnitude of {one.text}")


def _uncalled(program: Program) -> Iterator[str]:
    """The functions from reals to reals that nothing of the program calls: what was written to be called."""
    reached = {body.name for body in program.bodies}
    types = program.reader.types
    for name, listed in program.functions.items():
        kinds = [types.variable(one).kind for one in listed[0].parameters]
        if name not in reached and kinds == ["float"] and program.reader.returns[name].kind == "float":
            yield name


def _calls(one: Expression, name: str) -> bool:
    """Whether it is called already, or is what another function is given; to convert something is none."""
    around = one.parent
    return one.operator == name or (around is not None and around.kind == "call" and not _converted(one))


def _converted(one: Expression) -> bool:
    """Whether it is made a number of another type."""
    around = one.parent
    return around is not None and around.kind == "call" and len(around.operands) == 1 and around.type.kind == "half"
