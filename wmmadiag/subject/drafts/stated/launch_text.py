"""A kernel's launch and its numbers as a card's expressions over host symbols."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten, Term
from wmmadiag.hostcode.values import Value
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.array_extents import room_for
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import Wishes


@dataclass(frozen=True, slots=True)
class WrittenLaunch:
    """What host code says of a launch.

    Attributes:
        grid, block, shared, entry: as a card has them.
        numbers: what the kernel gets, by the parameter's name.
        sizes: elements of arrays by the parameter's name, as far as host code says.
    """

    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str
    entry: str
    numbers: Mapping[str, str]
    sizes: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        """The host symbols in it, sizes of arrays aside."""
        inner = [part.partition("}")[0] for part in self.entry.split("{")[1:]]
        texts = [*self.grid, *self.block, self.shared, *self.numbers.values(), *inner]
        return frozenset(name for text in texts for name in names_in(text))


def written(kernel: SourceKernel, wishes: Wishes) -> WrittenLaunch:
    """A kernel's launch, with what the user said in its place.

    Raises:
        NotWritten: something of it is no expression over symbols.
    """
    launch = kernel.launch
    if launch is None:
        raise NotWritten("nobody launches it")
    grid = tuple(wishes.grid) or tuple(_text(launch.grid.members[axis].value) for axis in "xyz")
    block = tuple(wishes.block) or tuple(_text(launch.block.members[axis].value) for axis in "xyz")
    numbers, sizes = {}, {}
    for one, value in zip(kernel.parameters, kernel.passed, strict=True):
        if not one.pointer:
            numbers[one.name] = one.value or _text(value)
        elif (room := room_for(one, value)) is not None:
            with suppress(NotWritten):
                sizes[one.name] = terms.text(room)
    return WrittenLaunch(grid, block, wishes.shared or _text(launch.shared), kernel.entry, numbers, sizes)


def by_itself(kernel: SourceKernel) -> tuple[SourceKernel, WrittenLaunch]:
    """A kernel that nobody launches, its numbers as host symbols of their own names, and one warp of it."""
    numbers = {one.name: one.value or one.name for one in kernel.parameters if not one.pointer}
    machine = kernel.machine
    if machine is not None:
        names = {one.name: [one.own_name] for one in kernel.parameters if numbers.get(one.name) == one.name}
        machine = replace(machine, names={**machine.names, **names})
    return replace(kernel, machine=machine), WrittenLaunch(("1",), ("32",), "0", kernel.entry, numbers, {})


def _text(value: Value | None) -> str:
    if not isinstance(value, Term):
        raise NotWritten("a number is not known")
    return terms.text(value)
