"""Sizes at which a kernel is held against a formula: small ones, no two of them alike where host code takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.guess import folded
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.stated.extents import Shapes

_LARGE = (128, 192, 64, 256, 320, 384, 96, 160)
_FEW = (2, 3, 2, 3)
_WHOLE = (2, 1, 3)
_REALS = (0.5, 0.03125, 0.75, 0.0078125)
_OTHERS = (*_LARGE, 32, 16, 8, 4, 2, 1, 0)  # that are tried where host code refuses a size
_TURNS = 4
_COUNTS = re.compile(
    r"(?i)(?:.*_)?(?:batch\w*|heads?|(?:num|n|nr)_?\w*heads?|head_?(?:num|count)|(?:num|n|nr)_?channels?)"
)
_STRIDE = re.compile(r"(?i)(?:batch_?)?strides?_?(?P<a>\w+)|(?P<b>\w+?)_?(?:batch_?)?strides?|ld_?(?P<c>\w+)")


@dataclass(frozen=True, slots=True)
class SymbolRoles:
    """What host symbols are to a kernel's arrays.

    Attributes:
        large: extents that kernels take tiles along. few: those of batches, heads and the like.
        whole, reals: other numbers.
        strides: numbers that say how far apart rows or matrices lie, as expressions over others.
    """

    large: Sequence[str]
    few: Sequence[str]
    whole: Sequence[str]
    reals: Sequence[str]
    strides: Mapping[str, str]


def roles_of(
    kernel: SourceKernel, shapes: Shapes, symbols: Mapping[str, str], needed: Sequence[str], reals: Sequence[str]
) -> SymbolRoles:
    """What the host symbols are that a card needs.

    Args:
        symbols: what names of extents are over host symbols.
        reals: those that are real numbers.
    """

    def of(texts: Sequence[str]) -> list[str]:
        inside = [name for text in texts for part in names_in(text) for name in names_in(symbols.get(part, part))]
        return [one for one in dict.fromkeys(inside) if one in needed]

    inner = of([text for dims in shapes.values() for text in (dims[-2:] if len(dims) > 1 else dims)])
    outer = of([text for dims in shapes.values() for text in dims[:-2]])
    names = kernel.machine.names if kernel.machine is not None else {}
    few = [one for one in dict.fromkeys([*inner, *outer])
           if one not in inner or any(_COUNTS.fullmatch(name) for name in (one, *names.get(one, ())))]  # fmt: skip
    left = [one for one in needed if one not in inner and one not in outer]
    strides = {one: text for one in left if (text := _stride(one, kernel, shapes))}
    left = [one for one in left if one not in strides]
    return SymbolRoles(
        [one for one in inner if one not in few],
        few,
        [one for one in left if one not in reals],
        [one for one in left if one in reals],
        strides,
    )


def _stride(symbol: str, kernel: SourceKernel, shapes: Shapes) -> str:
    """What a number is that is called as the distance of an array's rows or matrices; "" for none."""
    found = _STRIDE.fullmatch(symbol)
    if found is None:
        return ""
    name = found["a"] or found["b"] or found["c"]
    array = next((one for one in kernel.parameters if one.pointer and folded(one.own_name) == folded(name)), None)
    dims = shapes.get(array.name, ()) if array is not None else ()
    if len(dims) < 2:
        return ""
    return dims[-1] if found["c"] or len(dims) == 2 else " * ".join(f"({one})" for one in dims[1:])


def size_sets(
    roles: SymbolRoles, held: Mapping[str, Number], facts: Sequence[tuple[Term, bool]], given: Mapping[str, Number]
) -> Iterator[dict[str, Number | str]]:
    """Values of all symbols, several sets; strides are expressions over the others.

    Args:
        held: what host code gives symbols. facts: what it asks for before it launches. given: by the user.
    """
    for turn in range(_TURNS):
        order = _LARGE[turn:] + _LARGE[:turn]
        values: dict[str, Number] = {name: order[at % len(order)] for at, name in enumerate(roles.large)}
        for names, several in ((roles.few, _FEW), (roles.whole, _WHOLE), (roles.reals, _REALS)):
            values |= {name: several[(at + turn) % len(several)] for at, name in enumerate(names)}
        extents = {*roles.large, *roles.few}
        kept = {name: value for name, value in held.items() if name not in extents or value <= _FEW[0]}
        smaller = {
            name: min(values[name], value) for name, value in held.items() if name in extents and name not in kept
        }
        values |= {**kept, **smaller, **given}
        free = [one for one in (*roles.whole, *roles.few, *roles.large) if one not in given and one not in kept]
        yield {**fitted(values, facts, free), **roles.strides}


def fitted(values: dict[str, Number], facts: Sequence[tuple[Term, bool]], free: Sequence[str]) -> dict[str, Number]:
    """The values with those changed that host code refuses, as far as one change or an equality makes it take them.

    Args:
        free: what may be changed, what matters least first.
    """
    for fact, holds in facts:
        if fact.op == "==" and holds:
            _equal(fact, values, free)
    for fact, holds in (*facts, *facts):
        if _is(fact, values) in (holds, None):
            continue
        for name in [one for one in free if one in terms.symbols(fact)]:
            other = next((one for one in _OTHERS if _is(fact, {**values, name: one}) == holds), None)
            if other is not None:
                values[name] = other
                break
    return values


def _equal(fact: Term, values: dict[str, Number], free: Sequence[str]) -> None:
    """Give one side of an equality the value of the other."""
    sides = [one for one in fact.args if isinstance(one, Term)]
    sides.sort(key=lambda one: free.index(one.args[0]) if one.op == "symbol" and one.args[0] in free else len(free))
    if len(sides) == 2 and sides[0].op == "symbol" and sides[0].args[0] in free:
        value = terms.value(sides[1], values)
        if value is not None:
            values[sides[0].args[0]] = value


def _is(fact: Term, values: Mapping[str, Number]) -> bool | None:
    found = terms.value(fact, values)
    return None if found is None else bool(found)
