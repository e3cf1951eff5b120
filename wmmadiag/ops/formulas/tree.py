"""What a formula consists of: a tree, and what is asked of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

from wmmadiag.ops.formulas.words import OF_ROWS


class FormulaError(ValueError):
    """It is no formula, or none that can be evaluated so."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Word:
    """A tensor, a number, or an index."""

    id: str


@dataclass(frozen=True, slots=True)
class Indexed:
    """Elements of a tensor; None for a whole axis."""

    base: str
    items: tuple[Expr | None, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """One of `FUNCTIONS`, or a cast."""

    name: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Infix:
    """`op`: + - * / @ % and comparisons; "." for an inner product, "side" for factors written side by side."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Negated:
    """-x."""

    of: Expr


@dataclass(frozen=True, slots=True)
class Summed:
    """A sum, mean, maximum, minimum or softmax over indices."""

    kind: str
    labels: tuple[str, ...]
    where: Expr | None
    body: Expr


@dataclass(frozen=True, slots=True)
class Turned:
    """A matrix transposed."""

    of: Expr


@dataclass(frozen=True, slots=True)
class Power:
    """x^n."""

    of: Expr
    exponent: Expr


@dataclass(frozen=True, slots=True)
class Norm:
    """|x|: of a number its magnitude, of a vector its length."""

    of: Expr


@dataclass(frozen=True, slots=True)
class Inner:
    """<x, y>."""

    left: Expr
    right: Expr


Expr: TypeAlias = "Literal | Word | Indexed | Applied | Infix | Negated | Summed | Turned | Power | Norm | Inner"


@dataclass(frozen=True, slots=True)
class Equation:
    """`target[items] = value`.

    Attributes:
        target: what it says, "" for the only output there is.
        items: of it; None for all of it.
        added: whether it is added to what was there.
        power: of the target that is said: 2 for `d(i, j)^2 = …`.
        where: the indices for which it holds.
        text: as it stands there.
    """

    target: str
    items: tuple[Expr | None, ...] | None
    value: Expr
    added: bool = False
    power: int = 1
    where: Expr | None = None
    text: str = ""


def replaced(tree: Expr, by: Mapping[str, Expr]) -> Expr:
    """A tree with other expressions for names."""
    if isinstance(tree, Word):
        return by.get(tree.id, tree)
    changed: dict[str, Any] = {}
    for one in fields(tree):
        value = getattr(tree, one.name)
        if isinstance(value, tuple):
            changed[one.name] = tuple(
                part if part is None or isinstance(part, str) else replaced(part, by) for part in value
            )
        elif value is not None and not isinstance(value, str | float):
            changed[one.name] = replaced(value, by)
    return replace(tree, **changed)


def with_own_indices(statements: Sequence[Equation]) -> list[Equation]:
    """Statements, in which what one says of plain indices has these wherever another one of them, whose target has
    them all, names its element without any: `acc[m, n] = …` and `out[m, n] = acc + bias[n]`."""
    said: dict[str, Indexed] = {}
    found = []
    for one in statements:
        plain = [item for item in one.items or () if isinstance(item, Word)]
        names = {item.id for item in plain}
        by = {name: of for name, of in said.items() if all(isinstance(i, Word) and i.id in names for i in of.items)}
        found.append(replace(one, value=_of_elements(one.value, by)) if by else one)
        if plain and len(plain) == len(one.items or ()):
            said.setdefault(one.target, Indexed(one.target, tuple(plain)))
    return found


def _of_elements(tree: Expr, by: Mapping[str, Indexed]) -> Expr:
    """A tree with elements for names, but where a row or a matrix is meant."""
    match tree:
        case Word():
            return by.get(tree.id, tree)
        case Negated(of):
            return Negated(_of_elements(of, by))
        case Infix(op, left, right) if op != "@":
            return replace(tree, left=_of_elements(left, by), right=_of_elements(right, by))
        case Power():
            return replace(tree, of=_of_elements(tree.of, by))
        case Applied() if tree.name not in OF_ROWS and (len(tree.arguments) > 1 or tree.name not in ("max", "min")):
            return replace(tree, arguments=tuple(_of_elements(part, by) for part in tree.arguments))
        case _:
            return tree


def index_text(tree: Expr, names: Mapping[str, str]) -> str:
    """An index as a card's expression, with other texts for names.

    Raises:
        FormulaError: it is made of more than whole numbers.
    """
    match tree:
        case Literal(value) if value == int(value):
            return str(int(value))
        case Word(name):
            return names.get(name, name)
        case Negated(of):
            return f"-({index_text(of, names)})"
        case Infix(op, left, right) if op in "+-*/%" or op == "side":
            sign = {"side": "*", "/": "//"}.get(op, op)
            return f"({index_text(left, names)}) {sign} ({index_text(right, names)})"
        case _:
            raise FormulaError("an index is made of more than whole numbers")


def nodes(tree: object) -> Iterator[object]:
    """A tree and all that it consists of."""
    yield tree
    if is_dataclass(tree):
        for one in fields(tree):
            value = getattr(tree, one.name)
            for part in value if isinstance(value, tuple) else (value,):
                if is_dataclass(part):
                    yield from nodes(part)


def names_of(tree: object) -> set[str]:
    """All names in a tree, indices among them."""
    found = {one.id for one in nodes(tree) if isinstance(one, Word)}
    found |= {one.base for one in nodes(tree) if isinstance(one, Indexed)}
    return found | summed_in(tree)


def summed_in(tree: object) -> set[str]:
    """The indices that sums in a tree go over."""
    return {label for one in nodes(tree) if isinstance(one, Summed) for label in one.labels}
