"""How arrays are addressed: the axes that indices and pointers are sums over, with the size that each is multiplied by.

What a pointer is moved by and what it is indexed with are one address; so is what a function is told of a row's length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Text, binary, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program

Stride = frozenset[tuple[str, int]]
"""A product of sizes: each as written, and how often it is a factor. Empty: one element."""
_LEADING = {"load_matrix_sync": 2, "store_matrix_sync": 2}
"""Which argument says how many elements lie between rows."""


@dataclass(frozen=True, slots=True)
class AxisPart:
    """What is counted along one axis, of one sum."""

    index: tuple[Expression, ...]  # the factors that are no sizes
    sizes: tuple[Expression, ...]  # those that are
    by: str = ""  # the variable that is the product of those that have names

    def stride(self, numbers: bool) -> Stride:
        """The product of its sizes; `numbers`: with those that have no name."""
        return frozenset(Counter(one.text for one in self.sizes if numbers or one.kind != "literal").items())

    def along(self, numbers: bool) -> Text:
        """What is counted, times what is no part of the stride."""
        rest = [one for one in self.sizes if one.kind == "literal" and (self.by or not numbers)]
        return product([text_of(one) for one in (*self.index, *rest)])


@dataclass(frozen=True, slots=True)
class AddressSum:
    """One expression of an address: a sum over axes, or a stride alone."""

    expression: Expression
    parts: tuple[AxisPart, ...]  # of a stride alone, one without an index
    pointer: str = ""  # what the sum is added to, where the expression has it
    cast: str = ""  # the type as which it is computed, as written
    named: str = ""  # of a stride alone, the variable that it is the value of

    @property
    def alone(self) -> bool:
        """Whether it is a stride alone."""
        return not self.parts[0].index


@dataclass(slots=True)
class Addressed:
    """An array, and all expressions of its addresses in one function."""

    name: str
    slots: list[AddressSum] = field(default_factory=list)
    whole: bool = True  # whether all of them are sums of this kind


def product(factors: Sequence[Text]) -> Text:
    """Factors multiplied."""
    made = factors[0]
    for one in factors[1:]:
        made = binary(made, "*", one)
    return made


def addressed(program: Program) -> Iterator[Addressed]:
    """The arrays that each function addresses by sums over axes."""
    strides = _strides_alone(program)
    for body in program.bodies:
        if body.function is None:
            continue
        roots: dict[str, str] = {}
        found: dict[str, Addressed] = {}
        for statement in body.statements:
            for one in statement.own_parts():
                _read(one, roots, found, strides)
        yield from (held for held in found.values() if held.whole and held.slots)


def _strides_alone(program: Program) -> dict[str, AddressSum]:
    """Variables that are products of sizes."""
    found = {}
    for statement in program.statements:
        for variable, value in statement.initial_values():
            if not value.type.whole or value.varying is not False or value.fixed or statement.unit.macro:
                continue
            parts = _parts(value) or []
            if len(parts) == 1 and any(one.kind != "literal" for one in parts[0].sizes) and not parts[0].index:
                found[variable.name] = AddressSum(value, tuple(parts), named=variable.name)
    return found


def _read(one: Expression, roots: dict[str, str], found: dict[str, Addressed], strides: dict[str, AddressSum]) -> None:
    if one.kind == "subscript" and len(one.operands) == 2 and one.operands[0].kind == "name":
        base, wholes = one.operands[0], [one.operands[1]]
        pointer = ""
    elif one.kind == "binary" and one.type.address and sums.top(one):
        listed = sums.terms(one)
        bases = [term.expression for term in listed if term.expression.type.address]
        if len(bases) != 1 or bases[0].kind not in ("name", "member") or any(term.negative for term in listed):
            return
        base, pointer = bases[0], bases[0].text
        wholes = [term.expression for term in listed if term.expression is not base]
    elif one.kind == "assignment" and one.operator == "+=" and one.operands[0].type.kind == "pointer":
        base, wholes, pointer = one.operands[0], [one.operands[1]], ""
    else:
        return
    if base.type.kind != "pointer":
        return
    root = roots.get(base.text, base.text)
    held = found.setdefault(root, Addressed(root))
    around = one.parent
    if around is not None and around.kind == "unary" and around.operator == "&":
        around = around.parent
    if around is None and one.statement.kind == "declaration" and len(one.statement.declares) == 1:
        roots[one.statement.declares[0].name] = root
    parts: list[AxisPart] = []
    for whole in wholes:
        some = _parts(whole)
        if some is None:
            held.whole = False
            return
        parts += some
    if any(not part.index for part in parts):  # moved by a size
        held.whole = False
        return
    parts = [_resolved(part, strides) for part in parts]
    for name in dict.fromkeys(size.text for whole in wholes for size in whole.under() if size.text in strides):
        if not any(slot.named == name for slot in held.slots):
            held.slots.append(strides[name])
    whole = wholes[0] if not pointer else one
    held.slots.append(AddressSum(whole, tuple(parts), pointer, _cast(wholes)))
    if around is not None and around.kind == "call" and around.operator in _LEADING:
        pitch = around.operands[_LEADING[around.operator] :][:1]
        known = _parts(pitch[0]) if pitch else None
        if known is not None and len(known) == 1 and not known[0].index and pitch[0].text not in strides:
            held.slots.append(AddressSum(pitch[0], tuple(known)))


def _resolved(part: AxisPart, strides: dict[str, AddressSum]) -> AxisPart:
    """A part with the sizes that a variable stands for in its place."""
    sizes: list[Expression] = []
    for one in part.sizes:
        sizes += strides[one.text].parts[0].sizes if one.text in strides else (one,)
    named = [one.text for one in part.sizes if one.kind != "literal"]
    by = named[0] if len(named) == 1 and named[0] in strides else ""
    return AxisPart(part.index, tuple(sizes), by)


def _parts(one: Expression) -> list[AxisPart] | None:
    """A sum of products; None where something is subtracted, or has several factors that are no sizes."""
    made = []
    for factors in products(one) or ():
        index = tuple(part for part in factors if part.varying is not False)
        if len(index) > 1:
            return None
        if all(part.kind == "literal" for part in factors):  # some elements further along a row
            made.append(AxisPart(tuple(factors), ()))
        else:
            made.append(AxisPart(index, tuple(part for part in factors if part.varying is False)))
    return made or None


def products(one: Expression) -> list[list[Expression]] | None:
    one = sums.uncast(one)
    if one.kind != "binary" or one.operator not in ("+", "-", "*") or (one.operator == "+" and one.varying is False):
        return [[one]]
    first, second = (products(part) for part in one.operands)
    if first is None or second is None or one.operator == "-":
        return None
    if one.operator == "+":
        return first + second
    return [[*left, *right] for left in first for right in second]


def _cast(wholes: Sequence[Expression]) -> str:
    parts = (one for whole in wholes for one in whole.under())
    return next((one.operator for one in parts if one.kind == "cast" and one.type.whole), "")


def cast_to(kind: str, one: Text) -> Text:
    """A number as another type."""
    return Text(f"({kind}){wrapped(one, precedence.UNARY)}", precedence.UNARY) if kind else one
