"""What a kernel does with its parameters: PTX keeps no types, but each use of a value tells something of it.

Followed forwards from a load, the instructions that compute with a value say its type; followed backwards from a store,
those that made it. Where a 64-bit value that came in as a parameter ends in an address, it is a pointer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wmmadiag.ptx.ir import Module, PtxParameter
from wmmadiag.ptx.types import CLASSES, WIDTHS
from wmmadiag.ptx.value_flow import SHARED, MemoryAccess, ValueFlow, ValueHolder, value_flow


@dataclass(frozen=True, slots=True)
class MemberUse:
    """Some bytes of a parameter that the kernel reads: all of a number or pointer, or one member of a struct."""

    # offset, bytes: within the parameter
    offset: int
    bytes: int
    pointer: bool = False  # whether it is the base of an address in memory; the next three say what is done there
    # read, written, added: loads; stores; atomic additions
    read: bool = False
    written: bool = False
    added: bool = False
    written_first: bool = False  # whether, as the code goes, a store stands before all else that is done there
    # the type that its uses tell, in a card's names, of a pointer that of what lies there; "" if they do not tell one
    element: str = ""
    perhaps: tuple[str, ...] = ()  # types that it may have where they do not
    # of a pointer, bytes of the elements of its accesses; several elements may be moved as one
    widths: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ParameterUse:
    """A kernel's parameter with what is read of it; nothing in `members`: the kernel does not read it.

    `indexed`: bytes at computed offsets are read, so that `members` may lack some.
    """

    parameter: PtxParameter
    members: tuple[MemberUse, ...]
    indexed: bool = False


def parameter_uses(module: Module, entry: str) -> tuple[ParameterUse, ...]:
    """What a kernel does with each of its parameters.

    Args:
        module: with the kernel's body and those of what it calls.
        entry: name of the kernel.
    """
    graph = value_flow(module, entry)
    roots = _roots(graph)
    pointers = _pointers(graph, roots)
    found = []
    for parameter in graph.entry.parameters:
        if isinstance(parameter, PtxParameter):
            end = parameter.offset + parameter.size
            own = sorted(one for one in graph.members if parameter.offset <= one[0] < end)
            members = tuple(_member(graph, parameter, at, size, pointers.get(at)) for at, size in own)
            found.append(ParameterUse(parameter, members, parameter.name in graph.indexed))
    return tuple(found)


def _roots(graph: ValueFlow) -> dict[ValueHolder, frozenset[int]]:
    """For each node the parameters' bytes, by offset, that it may be an address from."""
    found: dict[ValueHolder, set[int]] = {}
    waiting: deque[ValueHolder] = deque()
    for offset, size in graph.members:
        if size == 8:
            found[("p", offset)] = {offset}
            waiting.append(("p", offset))
    while waiting:
        node = waiting.popleft()
        for target in graph.addresses.get(node, ()):
            known = found.setdefault(target, set())
            if not found[node] <= known:
                known |= found[node]
                waiting.append(target)
    return {node: frozenset(offsets) for node, offsets in found.items()}


@dataclass(slots=True)
class _PointerUse:
    accesses: list[MemoryAccess] = field(default_factory=list)


def _pointers(graph: ValueFlow, roots: dict[ValueHolder, frozenset[int]]) -> dict[int, _PointerUse]:
    """The parameters' bytes that are pointers, with the accesses through them.

    Where several values are summed to an address, those are its pointers that are one elsewhere for sure: an index may
    be a 64-bit parameter, too.
    """
    reached = [(one, roots.get(one.base, frozenset())) for one in graph.accesses]
    certain = {offset for node in graph.certain for offset in roots.get(node, ()) if len(roots[node]) == 1}
    certain |= {next(iter(offsets)) for _, offsets in reached if len(offsets) == 1}
    found: dict[int, _PointerUse] = {offset: _PointerUse() for offset in sorted(certain)}
    for access, offsets in reached:
        for offset in sorted(offsets & certain or offsets):
            found.setdefault(offset, _PointerUse()).accesses.append(access)
    return found


def _member(graph: ValueFlow, parameter: PtxParameter, at: int, size: int, pointer: _PointerUse | None) -> MemberUse:
    offset = at - parameter.offset
    if pointer is None or size != 8:
        element, perhaps = _element(graph, [("p", at)], [], set(), [size])
        return MemberUse(offset, size, element=element, perhaps=perhaps)
    modes = {one.mode for one in pointer.accesses}
    widths = sorted({one.width for one in pointer.accesses})
    loaded = [node for one in pointer.accesses for node in one.loaded]
    stored = [node for one in pointer.accesses for node in one.stored]
    named = set().union(*(one.types for one in pointer.accesses))
    element, perhaps = _element(graph, loaded, stored, named, widths)
    return MemberUse(
        offset,
        size,
        pointer=True,
        read="read" in modes,
        written=bool(modes - {"read"}),
        added="added" in modes,
        written_first=bool(pointer.accesses) and pointer.accesses[0].mode == "written",
        element=element,
        perhaps=perhaps,
        widths=tuple(widths),
    )


def _element(
    graph: ValueFlow, loaded: list[ValueHolder], stored: list[ValueHolder], named: set[str], widths: list[int]
) -> tuple[str, tuple[str, ...]]:
    """The type of what is loaded and stored, or else the types that it may have.

    Moving bits as integers is common, calculating with floats that are none is not: a float decides. An integer is
    believed where it did not come through shared memory, in which other values lie, too, and no float is in sight.
    """
    found = (
        named | _closure(loaded, [graph.forwards], graph.used_as) | _closure(stored, [graph.backwards], graph.made_as)
    )
    fitting = _fitting(found, widths)
    floats = [one for one in fitting if CLASSES[one] != "integer"]
    if floats:
        return (floats[0], ()) if len(floats) == 1 else ("", tuple(floats))
    loosely = _closure(loaded, [graph.forwards, graph.loose_forwards], graph.used_as)
    loosely |= _closure(stored, [graph.backwards, graph.loose_backwards], graph.made_as)
    perhaps = [one for one in _fitting(loosely, widths) if CLASSES[one] != "integer"]
    alone = _closure(loaded, [graph.forwards], graph.used_as, SHARED)
    alone |= _closure(stored, [graph.backwards], graph.made_as, SHARED)
    if len(fitting) == 1 and not perhaps and fitting == _fitting(alone | named, widths):
        return fitting[0], ()
    return "", tuple(dict.fromkeys([*perhaps, *fitting]))


def _closure(
    start: Iterable[ValueHolder],
    edges: Sequence[dict[ValueHolder, set[ValueHolder]]],
    types: dict[ValueHolder, set[str]],
    without: ValueHolder | None = None,
) -> set[str]:
    """The types that are said of some nodes and of all that values flow to (or come from), one node left out."""
    waiting = [node for node in start if node != without]
    seen = set(waiting)
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        found |= types.get(node, set())
        for kind in edges:
            for target in kind.get(node, ()):
                if target not in seen and target != without:
                    seen.add(target)
                    waiting.append(target)
    return found


def _fitting(types: set[str], widths: list[int]) -> list[str]:
    """The types that elements moved in these widths can have; an integer is signed where one use says so."""
    least = min(widths, default=0)
    fitting = sorted(one for one in types if WIDTHS[one] // 8 <= least)
    return [one for one in fitting if one[0] != "u" or f"s{one[1:]}" not in fitting]
