"""How tensors lie in memory, as host code shows it: by the sizes that it reads off them, by strides, by products.

Every way of storing them that the operation knows is held against every such fact. One that agrees with all is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.terms import NotWritten, Number, Term
from wmmadiag.hostcode.values import Tensor
from wmmadiag.ops import OPERATIONS, Assumed, readings
from wmmadiag.subject.drafts.meanings import Meanings
from wmmadiag.subject.drafts.model import TODO, CardDraft

_SAMPLES = (48, 80, 333)  # of extents


@dataclass(frozen=True, slots=True)
class StoredAxis:
    """Axis `index` of a tensor of `rank` axes (0: not known) has this extent."""

    role: str
    index: int
    rank: int
    extent: Term


@dataclass(frozen=True, slots=True)
class AxisStride:
    """Elements from one index of an axis to the next: its letter, or "" for the second-last as it lies."""

    role: str
    letter: str
    value: Term


Fact = StoredAxis | AxisStride


@dataclass(frozen=True, slots=True)
class Storage:
    """Settings of the operation, and the order of the axes of roles that lie otherwise."""

    parameters: Mapping[str, str]
    layouts: Mapping[str, str]
    name: str = ""
    pads: Mapping[str, Term] = field(default_factory=dict)  # role → elements left free behind each of its rows


def extents(operation: str, role: str, storage: Storage) -> list[tuple[str, Term]]:
    """(letter, extent) of each axis of a role as it lies in memory, outermost first."""
    known = OPERATIONS[operation].roles[role]
    flags = {**_defaults(operation), **storage.parameters}
    settings = {
        name: terms.number(int(str(value)) if str(value).isdecimal() else int(str(value) in ("true", "True")))
        for name, value in flags.items()
        if str(value).isdecimal() or str(value) in ("true", "True", "False")
    }
    shape = {
        letter: terms.replaced(terms.parsed(text), settings)
        for letter, text in zip(known.axes, known.shape, strict=True)
    }
    layout = storage.layouts.get(role) or known.axes
    return [(letter, shape[letter]) for letter in layout]


def _defaults(operation: str) -> dict[str, str]:
    return {name: str(one.default) for name, one in OPERATIONS[operation].parameters.items() if one.kind == "flag"}


def numbers_of(result: CardDraft) -> dict[str, str]:
    """What a draft says of its operation's parameters that are whole numbers: shapes depend on them."""
    known = OPERATIONS[result.operation].parameters
    told = {name: text for name, text in result.computes.items() if name in known and known[name].kind == "int"}
    found: dict[str, Number] = {}
    for _ in told:  # one may be told by another: `8 / bits`
        for name, text in told.items():
            try:
                number = terms.value(terms.parsed(text), found)
            except NotWritten:
                continue
            if number is not None and number == int(number) > 0:
                found[name] = int(number)
    return {name: str(number) for name, number in found.items()}


def stored(
    operation: str, roles: Sequence[str], facts: Sequence[Fact], numbers: Mapping[str, str] = MappingProxyType({})
) -> Storage | None:
    """The first way of storing tensors that agrees with all facts, rather without padded rows; None if none does.

    Args:
        numbers: parameters of the operation that are known.
    """
    plain = Storage(numbers, {})
    if all(_agrees(operation, plain, one) for one in facts):
        return plain
    every = [plain]
    for reading in readings(OPERATIONS[operation], Assumed(dict.fromkeys(roles, "f16")), kinds=("storage",), changes=3):
        given = {**numbers, **{name: str(value) for name, value in reading.parameters.items()}}
        every.append(Storage(given, reading.layouts, reading.name))
        if all(_agrees(operation, every[-1], fact) for fact in facts):
            return every[-1]
    for one in every:
        padded = replace(one, pads=_pads(operation, one, facts))
        if padded.pads and all(_agrees(operation, padded, fact) for fact in facts):
            return padded
    return None


def _pads(operation: str, storage: Storage, facts: Sequence[Fact]) -> dict[str, Term]:
    """What is left free behind the rows of each role whose leading dimension is more than a row."""
    found: dict[str, Term] = {}
    for one in facts:
        if isinstance(one, AxisStride) and not one.letter:
            _, row = extents(operation, one.role, storage)[-1]
            samples = [dict.fromkeys(terms.symbols(one.value) | terms.symbols(row), size) for size in _SAMPLES]
            more = {terms.value(terms.combined("-", one.value, row), each) for each in samples}
            free = next(iter(more), None)
            if terms.symbols(row) == terms.symbols(one.value) and len(more) == 1 and isinstance(free, int) and free > 0:
                found[one.role] = terms.number(free)
    return found


def _agrees(operation: str, storage: Storage, fact: Fact) -> bool:
    axes = extents(operation, fact.role, storage)
    if isinstance(fact, StoredAxis):
        return any(same_extent(axis, fact.extent) for axis in _at(axes, fact.index, fact.rank))
    position = next((index for index, (letter, _) in enumerate(axes) if letter == fact.letter), len(axes) - 2)
    inner = [extent for _, extent in axes[position + 1 :]]
    if inner and fact.role in storage.pads:
        inner[-1] = terms.combined("+", inner[-1], storage.pads[fact.role])
    return same_extent(terms.product(inner), fact.value)


def _at(axes: Sequence[tuple[str, Term]], index: int, rank: int) -> Iterator[Term]:
    """What axis `index` of a tensor may be: with all axes, without the outermost ones, or with the first two as one."""
    for count in [rank] if rank else range(1, len(axes) + 1):
        if not -count <= index < count:
            continue
        place = index % count
        if count <= len(axes):
            kept = [extent for _, extent in axes[len(axes) - count :]]
            yield kept[place]
        if count == len(axes) - 1:
            yield terms.product([axes[0][1], axes[1][1]]) if place == 0 else axes[place + 1][1]


def kept_axes(axes: Sequence[tuple[str, Term]], rank: int) -> list[tuple[str, Term]]:
    """The axes of a tensor of that rank: of one less than there are, the first two are one."""
    if rank == len(axes) - 1 and axes[0][1] != terms.symbol("batch"):
        return [(axes[0][0] + axes[1][0], terms.combined("*", axes[0][1], axes[1][1])), *axes[2:]]
    return list(axes[max(0, len(axes) - rank) :])


def joined_axes(
    axes: list[tuple[str, Term]], tensor: Tensor, meant: Meanings, machine: Machine
) -> list[tuple[str, Term]]:
    """The axes of a tensor, the last two as one where host code says that its last extent is their product."""
    last = next((meant.by_symbol[name] for name, told in machine.extents.items()
                 if told == (tensor, "size", -1) and name in meant.by_symbol), None)  # fmt: skip
    if last is None or len(axes) < 2 or not same_extent(last, terms.product([axes[-2][1], axes[-1][1]])):
        return axes
    return [*axes[:-2], (axes[-2][0] + axes[-1][0], last)]


def rank_of(axes: Sequence[tuple[str, Term]], tensor: Tensor, meant: Meanings, machine: Machine) -> int:
    """How many axes a tensor has: as many as agree with the extents that host code reads off it, rather all."""
    unread = machine.listed - _launched(machine)
    own = [(name, what, index) for name, (other, what, index) in machine.extents.items()
           if other is tensor and name not in unread]  # fmt: skip
    least = max((index + 1 for _, what, index in own if what in ("size", "stride")), default=1)
    told = {index: meant.by_symbol[name] for name, what, index in own if what == "size" and name in meant.by_symbol}
    usual = len(axes) - int(axes[0][1] == terms.symbol("batch") and not any(index >= 2 for index in told))
    ranks: list[int] = [usual, *range(len(axes), 0, -1)]
    for rank in ranks:
        kept = axes[len(axes) - rank :]
        if rank >= least and all(-rank <= i < rank and same_extent(kept[i][1], extent) for i, extent in told.items()):
            return rank
    return max(least, usual)


def _launched(machine: Machine) -> set[str]:
    """The symbols on which launches and their arguments depend."""
    values = [value for one in machine.launches for value in (*one.arguments, one.shared)]
    values += [
        cell.value for one in machine.launches for shape in (one.grid, one.block) for cell in shape.members.values()
    ]
    return {name for one in values if isinstance(one, Term) for name in terms.symbols(one)}


# Extents that are one another's usual value.
_USUAL = {"Sq": "S", "Skv": "S", "Hkv": "H", "Dv": "D"}


def same_extent(one: Term, other: Term) -> bool:
    by = {name: terms.symbol(meant) for name, meant in _USUAL.items()}
    return terms.same(one, other) or terms.same(terms.replaced(one, by), terms.replaced(other, by))


def apply(result: CardDraft, storage: Storage) -> None:
    """Let a draft say how its tensors lie."""
    for name, value in storage.parameters.items():
        if str(OPERATIONS[result.operation].parameters[name].default) != value:
            result.computes.setdefault(name, value)
    for one in result.arguments:
        if storage.layouts.get(one.role) and one.layout in ("", TODO):
            one.layout = storage.layouts[one.role]
        if one.role in storage.pads:
            row, _ = extents(result.operation, one.role, storage)[-1]
            one.pad = {row: terms.text(storage.pads[one.role])}
            result.remarks.append(
                f"rows of '{one.parameter.name}' are padded by {one.pad[row]}, as the host code shows"
            )
    if storage.name:
        result.remarks.append(f"{storage.name}, as the host code shows")
