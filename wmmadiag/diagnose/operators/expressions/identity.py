"""What leaves an accumulated value as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, several
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_GREATEST = "INFINITY", "3.402823466e+38f"
_IDENTITIES = {
    "+=": ("0.0f",), "-=": ("0.0f",), "*=": ("1.0f",),
    **dict.fromkeys(("max", "fmaxf", "fmax", ">", ">="), tuple(f"-{text}" for text in _GREATEST)),
    **dict.fromkeys(("min", "fminf", "fmin", "<", "<="), _GREATEST),
}  # fmt: skip
"""By the operator, the function, or the comparison after which another value is taken."""
_NAMED = frozenset({"name", "member", "subscript"})


@operator
def identity(program: Program) -> Iterator[Draft]:
    """What changes no sum, product, greatest or least of real numbers, for the constant that it begins with, and for
    all of an array's; of greatest and least also for a constant that a condition chooses."""
    begun = begun_with(program)
    chosen = dict.fromkeys(texts[0] for texts in begun.values() if texts[0].endswith(_GREATEST[0]))
    for one in program.expressions:
        if one.varying is not False or one.type.kind != "float" or one.fixed:
            continue
        around = one.parent
        if around is not None and around.kind == "list":
            alike = around.operands if all(part.text == one.text for part in around.operands) else []
            for text in begun.get(_begun(around), ()) if alike and one is alike[0] and _constant(one) else ():
                if text != one.text:
                    yield several([(part, _signed(text)) for part in alike])
        elif _constant(one):
            of_two = around is not None and around.kind == "conditional" and one.number and one.kind != "name"
            for text in chosen if of_two else begun.get(_begun(one), ()):
                if text != one.text:
                    yield replaced(one, _signed(text))


def _constant(one: Expression) -> bool:
    return one.kind in ("literal", "unary", "name")


def _signed(text: str) -> Text:
    return Text(text, precedence.UNARY if text.startswith("-") else precedence.PRIMARY)


def begun_with(program: Program) -> Mapping[str, Sequence[str]]:
    """What each variable or array may begin with, by how it is accumulated, in a function that it is given to too."""
    found: dict[str, dict[str, None]] = {}
    for one in program.all_expressions():
        for name, how in _accumulated(one):
            found.setdefault(name, {}).update(dict.fromkeys(_IDENTITIES[how]))
    for one in program.all_expressions():
        listed = program.functions.get(one.operator, ()) if one.kind == "call" else ()
        for parameter, given in zip(listed[0].parameters if listed else (), one.operands, strict=False):
            if parameter.reference and parameter.name in found and given.base("subscript").text != parameter.name:
                found.setdefault(given.base("subscript").text, {}).update(found[parameter.name])
    return {name: tuple(texts) for name, texts in found.items()}


def extremes_begun_with(program: Program) -> Mapping[str, Sequence[str]]:
    """The constants other than nought that a program sets each variable or array to in which it keeps a greatest or a
    least: what that still is where nothing has been compared with it."""
    begun = {name for name, texts in begun_with(program).items() if texts[0].endswith(_GREATEST[0])}
    found: dict[str, dict[str, None]] = {}
    for one in program.all_expressions():
        whole = one.parent if one.parent is not None and one.parent.kind == "list" else one
        name = _begun(whole) if one.type.kind == "float" and one.varying is False and _constant(one) else ""
        if name in begun and one.text.strip("-0.f"):
            found.setdefault(name, {})[one.text] = None
    return {name: tuple(texts) for name, texts in found.items()}


def _accumulated(one: Expression) -> Iterator[tuple[str, str]]:
    """The variable or array that a statement accumulates in, and how: `x += …`, `x = max(x, …)`, `if (… > x) x = …`."""
    if one.kind != "assignment" or not one.operands or one.operands[0].kind not in _NAMED:
        return
    target, name = one.operands[0], one.operands[0].base("subscript").text
    if one.operator in _IDENTITIES:
        yield name, one.operator
    for part in one.operands[1].under():
        if (
            part.kind == "call"
            and part.operator in _IDENTITIES
            and any(arg.text == target.text for arg in part.operands)
        ):
            yield name, part.operator
    around = one.statement.parent
    while around is not None and around.kind == "block":
        around = around.parent
    condition = around.condition if around is not None and around.kind == "if" else None
    for part in condition.under() if condition is not None else ():
        if part.kind == "binary" and part.operator in _IDENTITIES and part.operands[1].text == target.text:
            yield name, part.operator


def _begun(one: Expression) -> str:
    """The variable or array that is set to an expression; "" where none is."""
    if one.parent is None:
        declared = one.statement.declares
        return declared[0].name if one.statement.kind == "declaration" and len(declared) == 1 else ""
    sets = one.parent.kind == "assignment" and one.parent.operator == "=" and one.number == 1
    return one.parent.operands[0].base("subscript").text if sets else ""
