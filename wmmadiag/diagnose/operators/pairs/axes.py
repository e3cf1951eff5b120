"""The axes of an array in another order: what moves a pointer and what indexes it are one mistake."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, in_place_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.strides import Addressed, AddressSum, Stride, addressed, cast_to, product

_MOST_AXES, _MOST_EXTENTS = 5, 3

_Order = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Array:
    """An array whose strides divide each other: its axes, the outermost first."""

    held: Addressed
    strides: tuple[Stride, ...]  # of each axis
    numbers: bool  # whether numbers are sizes, too
    sizes: Mapping[str, Expression]  # an expression of each size
    order: Sequence[str]  # sizes in the order in which they stand

    def turned(self, order: _Order, outermost: str) -> dict[Stride, Stride] | None:
        """What each stride becomes where the axes have another order; `outermost`: the extent of the first axis."""
        extents = [Counter({outermost: 1}) if outermost else None]
        for outer, inner in itertools.pairwise(self.strides):
            extents.append(Counter(dict(outer)) - Counter(dict(inner)))
        made: dict[Stride, Stride] = {}
        stride = Counter(dict(self.strides[-1]))
        for axis in reversed(order):
            made[self.strides[axis]] = frozenset(stride.items())
            extent = extents[axis]
            if extent is None and axis != order[0]:
                return None
            stride = stride + (extent or Counter())
        return made


@operator
def axes(program: Program) -> Iterator[Draft]:
    """`p + (b * h + j) * s * d` and `p[i * d + k]` for `p + (b * s * h + j) * d` and `p[i * h * d + k]`, and the like:
    the axes of an array in another order, in what moves its pointer, in its indices, and in the sizes that say how far
    rows lie apart; of arrays that share these together, and of all arrays with as many axes."""
    arrays = [one for one in map(_array, addressed(program)) if one is not None]
    for one in arrays:
        for order in _orders(len(one.strides)):
            for outermost in ("",) if order[0] == 0 else _extents(program, one):
                together = list(_draft(program, _sharing(one, arrays), order, outermost))
                yield from together or _draft(program, [_written_out(one)], order, outermost)
    for count in sorted({len(one.strides) for one in arrays}):
        alike = [one for one in arrays if len(one.strides) == count]
        for order in _orders(count) if len(alike) > 1 else ():
            if order[0] == 0:
                yield from _draft(program, alike, order, "")


def _orders(count: int) -> Iterator[_Order]:
    """Other orders of so many axes: two neighbours exchanged, and then any others of a few."""
    own = tuple(range(count))
    near = [(*own[:at], own[at + 1], own[at], *own[at + 2 :]) for at in range(count - 1)]
    yield from reversed(near)
    if count <= 4:
        yield from (one for one in itertools.permutations(own) if one != own and one not in near and one[0] == 0)


def _array(held: Addressed) -> _Array | None:
    for numbers in (True, False):
        parts = [part for slot in held.slots for part in slot.parts]
        strides = sorted({part.stride(numbers) for part in parts}, key=lambda one: -sum(times for _, times in one))
        divide = all(
            not Counter(dict(inner)) - Counter(dict(outer)) for outer, inner in itertools.pairwise(strides)
        )  # fmt: skip
        if divide and 1 < len(strides) <= _MOST_AXES:
            sizes = {size.text: size for part in parts for size in part.sizes}
            return _Array(held, tuple(strides), numbers, sizes, list(sizes))
    return None


def _sharing(one: _Array, arrays: Sequence[_Array]) -> list[_Array]:
    """An array with those that share a variable for a stride with it, however many axes these have."""
    own = {slot.named for slot in one.held.slots if slot.named}
    return [one, *(other for other in arrays if other is not one and own & {slot.named for slot in other.held.slots})]


def _written_out(one: _Array) -> _Array:
    """An array with sizes in place of the variables that stand for their products, which have other uses."""
    slots = [
        replace(slot, parts=tuple(replace(part, by="") for part in slot.parts))
        for slot in one.held.slots if not slot.named
    ]  # fmt: skip
    return replace(one, held=replace(one.held, slots=slots))


def _extents(program: Program, one: _Array) -> list[str]:
    """What the first axis may have: what its index is compared with, then other sizes of the kernel."""
    slot = next(slot for slot in one.held.slots if not slot.alone)
    firsts = {
        name for each in one.held.slots for part in each.parts if part.stride(one.numbers) == one.strides[0]
        for index in part.index for name in index.names
    }  # fmt: skip
    bounds = [
        part.operands[1].text for part in program.all_expressions()
        if part.kind == "binary" and part.operator == "<" and part.operands[1].atom and firsts & part.operands[0].names
        and part.operands[1].varying is False and part.operands[1].kind != "literal"
    ]  # fmt: skip
    pool = pools(program)
    given = [
        atom.text for atom in pool.at(slot.expression)
        if atom.type.whole and atom.varying is False and not atom.constant and atom.text not in one.sizes
        and pool.roles.get(atom.text, frozenset()) & {"bound", "loop bound", "pitch", "extent"}
    ]  # fmt: skip
    return list(dict.fromkeys((*bounds, *given)))[:_MOST_EXTENTS]


def _draft(program: Program, arrays: Sequence[_Array], order: _Order, outermost: str) -> Iterator[Draft]:
    done: dict[int, tuple[Expression, Text]] = {}
    for one in arrays:
        if len(one.strides) != len(order):
            return
        strides = one.turned(order, outermost)
        if strides is None:
            return
        for slot in one.held.slots:
            made = _written(slot, one, strides)
            if made is None or not _visible(program, slot, one, strides):
                return
            if made.text:
                before = done.setdefault(id(slot.expression), (slot.expression, made))
                if before[1] != made:
                    return
    if not done:
        return
    changed = sorted(done.values(), key=lambda pair: pair[0].start)
    edits = tuple(in_place_of(*pair) for pair in changed)
    fixed = any(one.fixed or one.unit.anywhere for one, _ in changed)
    names = " and ".join(dict.fromkeys(one.held.name for one in arrays))
    note = f"axes of {names} in another order: {'; '.join(text.text for _, text in changed)}"
    yield Draft(edits, "static" if fixed else "expression", changed[0][0].role, note[:160])


def _visible(program: Program, slot: AddressSum, one: _Array, strides: Mapping[Stride, Stride]) -> bool:
    pool = pools(program)
    wanted = {name for part in slot.parts for name, _ in strides[part.stride(one.numbers)]}
    return all(pool.visible(one.sizes[name], slot.expression) for name in wanted if name in one.sizes)


def _written(slot: AddressSum, one: _Array, strides: Mapping[Stride, Stride]) -> Text | None:
    """A slot with other strides; empty where it has the same ones; None where a stride alone would be no size."""
    own = [(part, part.stride(one.numbers)) for part in slot.parts]
    if all(part.by or strides[stride] == stride for part, stride in own):
        return Text("")
    if slot.alone:
        part, stride = own[0]
        factors = _factors(strides[stride], one)
        rest = [Text(size.text) for size in part.sizes if not one.numbers and size.kind == "literal"]
        return product([*rest, *factors]) if factors or rest else None
    by: dict[tuple[Stride, str], list[Text]] = {}
    for part, stride in own:
        by.setdefault((strides[stride], part.by), []).append(part.along(one.numbers))
    made: Text | None = Text(slot.pointer) if slot.pointer else None
    cast = slot.cast
    for (stride, name), along in sorted(by.items(), key=lambda item: -sum(times for _, times in item[0][0])):
        index = along[0]
        for text in along[1:]:
            index = binary(index, "+", text)
        factors = [Text(name)] if name else _factors(stride, one)
        index = cast_to(cast if factors else "", index)
        cast = "" if factors else cast
        term = product([index, *factors])
        made = term if made is None else binary(made, "+", term)
    return made


def _factors(stride: Stride, one: _Array) -> list[Text]:
    known = {name: number for number, name in enumerate(one.order)}
    names = sorted(dict(stride).items(), key=lambda item: known.get(item[0], -1))
    return [Text(name, precedence.POSTFIX) for name, times in names for _ in range(times)]
