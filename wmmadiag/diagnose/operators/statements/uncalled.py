"""A function that nothing calls is called: it was written for something."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from wmmadiag.csource import precedence
from wmmadiag.csource.declarations import Function
from wmmadiag.csource.types import Type
from wmmadiag.diagnose.operators.making import Draft, Text, inserted_after, inserted_before, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.ordering import in_assembly
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_FUNCTIONS = 8
_MOST_FOR_ONE, _MOST_CALLS = 2, 4
"""Names that are tried for a parameter, and calls at one place."""
_VALUES = frozenset({"value", "initial value", "term", "factor", "coordinate", "index", "offset", "condition"})


@operator
def uncalled(program: Program) -> Iterator[Draft]:
    """`f(a, b);` at any place where all that it takes has a name, for a function that nothing calls; `x = f(a, b)` for
    `x = e` and `f(a, b)` for a value that names `a` or `b`, where it returns something; `while (!f(a, b)) {}`, where it
    says whether what is waited for has come."""
    reached = {body.name for body in program.bodies}
    idle = [listed[0] for name, listed in program.functions.items() if name not in reached]
    idle = [one for one in idle if one.parameters and _of_device(one) and not one.name.startswith(("operator", "~"))]
    for one in idle if len(idle) <= _MOST_FUNCTIONS else ():  # what more are is a library
        kind = program.reader.returns[one.name]
        wanted = [program.reader.types.variable(parameter) for parameter in one.parameters]
        if kind.kind == "void":
            yield from _called(program, one, wanted)
        elif kind.kind in ("bool", "integer") and _awaits(one):
            yield from _called(program, one, wanted, "while (!{}) {{}}")
        elif kind.kind != "unknown" and len(wanted) > 1:  # of one argument: `application`
            yield from _in_place(program, one, wanted, kind)


def _of_device(one: Function) -> bool:
    """Whether kernels can call it: what is not marked runs on the host, and launches them."""
    return not one.kernel and (one.device or "constexpr" in one.words)


def _awaits(one: Function) -> bool:
    text = one.body.text if one.body is not None else None
    return text is not None and in_assembly(text.decode("utf-8", "replace")) == "wait"


def _called(program: Program, function: Function, wanted: Sequence[Type], form: str = "{};") -> Iterator[Draft]:
    role = "call" if form == "{};" else "wait"
    for statement in program.statements:
        if not statement.braced or statement.kind in ("return", "jump"):
            continue
        whole = next(statement.whole_expressions(), None)
        if whole is None:
            continue
        scope = program.names_at(statement.unit, statement.end)
        for given in _given(program, whole, function, wanted):
            text = form.format(f"{function.name}({', '.join(given)})")
            if all(name.partition(".")[0].partition("[")[0] in scope for name in given):
                yield inserted_after(statement, text, f"{text} after {statement.text[:48]}", role)
            if not statement.index:
                yield inserted_before(statement, text, f"{text} before {statement.text[:48]}", role)


def _in_place(program: Program, function: Function, wanted: Sequence[Type], kind: Type) -> Iterator[Draft]:
    for one in program.expressions:
        target = one.parent.operands[0] if one.parent is not None and one.parent.kind == "assignment" else None
        of_target = target is not None and one.number == 1 and target.type.same(kind)
        value = one.type.same(kind) and one.role in _VALUES and not one.assigned and one.kind != "literal"
        if one.fixed or not (of_target or value):
            continue
        for given in _given(program, one, function, wanted):
            if of_target or any(name in one.names or name == one.text for name in given):
                yield replaced(one, Text(f"{function.name}({', '.join(given)})", precedence.POSTFIX))


def _given(program: Program, at: Expression, function: Function, wanted: Sequence[Type]) -> Iterator[tuple[str, ...]]:
    """What a function may be given at a place: what is called as its parameters are, then what has their types."""
    atoms = [atom for atom in pools(program).at(at) if atom.root == atom.text]
    listed = []
    for parameter, kind in zip(function.parameters, wanted, strict=True):
        # What stands in the place already is likeliest, and what was declared last.
        fitting = [atom.text for atom in atoms[::-1] if kind.takes(atom.type) or kind.kind == "named"]
        fitting.sort(key=lambda text: (text != parameter.name, text not in at.names))
        listed.append(fitting[:1] if fitting[:1] == [parameter.name] else fitting[:_MOST_FOR_ONE])
    found = (given for given in itertools.product(*listed) if len(set(given)) == len(given))
    yield from itertools.islice(found, _MOST_CALLS)
