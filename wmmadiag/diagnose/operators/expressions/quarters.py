"""Which quarter of a warp says which of four matrices is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.pairs.split import splits
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_SPLITS = {"/": ("8", "16"), "%": ("8", "16"), ">>": ("3", "4"), "&": ("7", "8", "15", "16")}
"""How eight lanes, or sixteen, are told from the others."""
_TURNED = {
    "({0} & 7 | ({0} & 8) << 1 | ({0} & 16) >> 1)": "the second and the third quarter of the warp exchanged",
    "({0} ^ 8)": "each quarter of the warp as its neighbour",
    "({0} ^ 16)": "the halves of the warp exchanged",
}
"""PTX ISA, ldmatrix: lanes 8 * i to 8 * i + 7 have the addresses of the rows of matrix i."""

_SIXTEEN = frozenset({("&", "15"), ("%", "16")})
_OTHER = _SIXTEEN | {(">>", "4"), ("/", "16")}
_SECOND = frozenset({((">>", "3"), ("&", "1")), (("/", "8"), ("%", "2"))})


@operator
def quarters(program: Program) -> Iterator[Draft]:
    """Another quarter of the warp in an argument that is made of a lane's number split by 8 or 16, or in two variables
    that are declared so one behind the other."""
    for one in program.expressions:
        if one.role != "argument" and not (one.type.address and _highest(one)):
            continue
        if one.parent is not None and one.parent.kind != "call":
            continue
        for name in sorted(_split_names(one)):
            yield from _turned([one], name)
    for name, beside in _declared_together(program):
        yield from _turned(beside, name)


def _turned(some: Sequence[Expression], name: str) -> Iterator[Draft]:
    found = [part for one in some for part in one.under() if part.kind == "name" and part.text == name]
    for text, note in _TURNED.items():
        yield several([(part, Text(text.format(name))) for part in found], f"{note}: {name}")


def _declared_together(program: Program) -> Iterator[tuple[str, list[Expression]]]:
    """Values that are declared together, or one behind the other, and made of the same lane's number: a row and a
    column."""
    for first in program.statements:
        own = [value for _, value in first.initial_values()]
        follows = first.block[first.index + 1 : first.index + 2]
        behind = [value for one in follows for _, value in one.initial_values()]
        for together in ([own] if len(own) > 1 else []) + ([[*own, *behind]] if own and behind else []):
            for name in sorted(set.intersection(*(_split_names(value) for value in together))):
                yield name, together


def _split_names(one: Expression) -> set[str]:
    return {part.operands[0].text for part in one.under() if _splits(part)}


@operator
def eights(program: Program) -> Iterator[Draft]:
    """The other bit of a lane's number that tells eight rows or columns from the next: `(lane & 7) + (lane >> 4) * 8`
    for `lane & 15`; `lane >> 3 & 1` for `lane >> 4`, and back; and both of a pair at once."""
    for pair in splits(program.expressions):
        if all(one.operands[0].kind == "name" and _by(one) in _OTHER for one in pair):
            note = f"eight rows and eight columns exchanged: {pair[0].operands[0].text}"
            yield several([(one, _the_other(one)) for one in pair], note)
    for one in program.expressions:
        if one.kind != "binary" or one.operands[0].kind != "name" or one.fixed or one.varying is False:
            continue
        around = one.parent
        if around is not None and (_by(one), _by(around)) in _SECOND:
            yield replaced(around, binary(text_of(one.operands[0]), ">>", Text("4")))
        if _by(one) in _OTHER:
            yield replaced(one, _the_other(one))


def _the_other(one: Expression) -> Text:
    return _other(text_of(one.operands[0]), rows=_by(one) in _SIXTEEN)


def _by(one: Expression) -> tuple[str, str]:
    return (one.operator, one.operands[1].text) if one.kind == "binary" else ("", "")


def _other(lane: Text, *, rows: bool) -> Text:
    if rows:
        eighth = binary(binary(lane, ">>", Text("4")), "*", Text("8"))
        return binary(binary(lane, "&", Text("7")), "+", eighth)
    return binary(binary(lane, ">>", Text("3")), "&", Text("1"))


def _splits(one: Expression) -> bool:
    if one.kind != "binary" or one.operator not in _SPLITS or one.operands[0].kind != "name":
        return False
    return one.operands[1].text in _SPLITS[one.operator]


def _highest(one: Expression) -> bool:
    return one.parent is None or one.parent.kind == "call"
