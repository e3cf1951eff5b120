"""Whether the members that a class's declaration shows are all that it has: every other byte must be padding.

Padding is what the Itanium C++ ABI (2.4) puts before a member so that it is aligned, and at the end. A member that a
macro or another branch of an `#if` declares shows as bytes that no alignment explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.compile.ask.records import DeclaredClass, DeclaredMember

if TYPE_CHECKING:
    from wmmadiag.compile.ask.layout import ClassLayout, Field

_LARGEST_ALIGNMENT = 1024


@dataclass(frozen=True, slots=True)
class _BitSpan:
    """What takes part in the order of a class: bits from `start` to `end`, or to `short` where its own tail is reused.

    `align` in bits; `free`: its declaration asks for more.
    """

    start: int
    end: int
    short: int
    align: int
    free: bool = False


def unexplained(of: DeclaredClass, fields: Mapping[int, Field], size: int, align: int) -> str:
    """What no member of a class explains, in words; "" for nothing.

    Args:
        of: the class as declared.
        fields: `id` of each declared member that exists → its place.
        size, align: of the class, bytes.
    """
    units = list(_units(of.members, fields))
    ends = {0}
    padded = False
    for unit in units:
        starts = {0} if of.kind == "union" else {at for end in ends for at in _starts(unit, end)}
        if unit.start not in starts:
            return _bytes(max((one for one in ends if one <= unit.start), default=0), unit.start)
        padded = padded or unit.start not in ends
        more = {unit.end, unit.short}
        ends = {*ends, *more} if of.kind == "union" or unit.start == unit.end else more
    if of.kind == "union":
        ends = {max(ends)}
    whole = 8 * size
    if not any(_up(max(end, 1), 8 * align) == whole for end in ends):
        return _bytes(max(ends), whole)
    if of.unread and (padded or max(ends) != whole):
        return f"`{of.unread[0]}` among its members is not understood"
    return ""


def _units(members: Sequence[DeclaredMember], fields: Mapping[int, Field]) -> Iterator[_BitSpan]:
    for one in members:
        if one.kind == "group":
            inner = list(_units(one.members, fields))
            if inner:
                start, align = min(unit.start for unit in inner), max(unit.align for unit in inner)
                end = max(unit.end for unit in inner)
                yield _BitSpan(
                    start, start + _up(end - start, align), end, align, free=any(unit.free for unit in inner)
                )
            continue
        field = fields.get(id(one))
        if field is None:
            continue
        start = 8 * field.offset
        if field.facts.empty and not field.facts.depth and not field.facts.extents:
            yield _BitSpan(start, start + 8, start, 8, free=True)
            continue
        end = start + 8 * field.facts.size
        short = start + 8 * _used(field.layout) if field.layout is not None and not field.facts.extents else end
        yield _BitSpan(start, end, short, 8 * field.facts.align, free=one.aligned)


def _starts(unit: _BitSpan, end: int) -> Iterator[int]:
    """Where a unit may begin behind what ends at `end`."""
    yield _up(end, unit.align)
    align = unit.align
    while unit.free and align < 8 * _LARGEST_ALIGNMENT:
        align *= 2
        yield _up(end, align)


def _used(layout: ClassLayout) -> int:
    """Bytes of a class to the end of its last member, its tail padding left out."""
    ends = [0]
    for one in layout.fields:
        if one.layout is not None and not one.facts.extents:
            ends.append(one.offset + _used(one.layout))
        elif not one.facts.empty:
            ends.append(one.offset + one.facts.size)
    return max(ends)


def _bytes(start: int, end: int) -> str:
    return f"bytes {start // 8} to {-(-end // 8)} are of no member that its declaration shows"


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
