"""Kernels that one function of the host launches one after the other, run as if they were one.

What they compute together is what the host's function is for: a sum over parts of K and a second kernel that adds the
parts, the two products of a low-rank update. Memory that one hands on to the next is the function's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import UndecidedError
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.launch import DeviceMemory, Dim3, Launch, LoadedKernel, RunStats
from wmmadiag.numerics.element_types import ElementType, storage_dtype

# bytes of memory whose size nobody says, and times all arrays together; less where these are large: all is written
_ROOM, _TIMES = 1 << 20, 8
# Bytes of memory of a function's own, at least, and times all arrays together: more is asked for by no reading but a
# wrong one, where a number of elements counts rows.
_MOST, _MOST_TIMES = 1 << 26, 512
_KEPT, _SPARE = 1 << 26, 4  # bytes that are kept for the next launch at most, and how many of them
_POISON = 0xFF  # each byte: a NaN in every type that has one


@dataclass(frozen=True, slots=True)
class PointerTarget:
    """A pointer that a launch is given: into an argument of the function, or into memory of its own."""

    memory: str
    offset: Term  # bytes
    element: ElementType


@dataclass(frozen=True, slots=True)
class Said:
    """A number that a launch is given."""

    value: Term
    element: ElementType


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """One of the launches; every number is a term of host code."""

    entry: str  # the kernel's name or name expression
    grid: tuple[Term, ...]
    block: tuple[Term, ...]
    shared: Term
    arguments: tuple[PointerTarget | Said, ...]
    names: tuple[str, ...]
    structs: tuple[tuple[int, int], ...] = ()  # as `Launch.structs`
    cleared: tuple[str, ...] = ()  # memory that the host sets to zero before it

    def said(self) -> Iterator[tuple[str, Said]]:
        """The numbers that it is given, by the kernel's names for them."""
        given = zip(self.names, self.arguments, strict=True)
        return ((name, said) for name, said in given if isinstance(said, Said))


@dataclass(frozen=True, slots=True)
class LaunchSteps:
    """What a function launches, in order.

    Attributes:
        numbers: host symbol → index of the argument of the whole that has its value.
        arrays: memory → index of the argument of the whole that it is.
        own: memory that the function makes or is lent for itself → its bytes, None where nobody says.
        usual: the values of other host symbols.
    """

    stages: tuple[LaunchStep, ...]
    numbers: Mapping[str, int]
    arrays: Mapping[str, int]
    own: Mapping[str, Term | None]
    usual: Mapping[str, Number]


@dataclass(slots=True)
class Together:
    """The kernels of `Stages`, ready to be launched as one; `kernels`: by their entries."""

    stages: LaunchSteps
    kernels: Mapping[str, LoadedKernel]

    def launch(self, launch: Launch) -> RunStats:
        """Run all of them to completion, as `LoadedKernel.launch`."""
        return summed([kernel.launch(one) for kernel, one in self.launches(launch)])

    def launches(self, launch: Launch) -> Iterator[tuple[LoadedKernel, Launch]]:
        """Each kernel with its launch, to be run before the next one is asked for.

        Args:
            launch: of the whole: its arguments are those of the host's function.

        Raises:
            UndecidedError: a number of a launch is not known.
        """
        steps = self.stages
        values = {**steps.usual, **_given(steps, launch)}
        held = _memory(steps, launch, values)
        fresh = {_key(steps, index): spans for index, spans in launch.fresh}
        fresh |= {name: range(held[name].nbytes) for name in steps.own}
        try:
            yield from self._staged(values, held, fresh)
        finally:
            for name in steps.own:
                _given_back(held[name])

    def _staged(
        self, values: Mapping[str, Number], held: Mapping[str, NDArray[np.uint8]], fresh: dict[str, Any]
    ) -> Iterator[tuple[LoadedKernel, Launch]]:
        for stage in self.stages.stages:
            for name in stage.cleared:
                held[name][...] = 0
                fresh.pop(name, None)
            arguments: list[Any] = []
            unwritten: list[tuple[int, range]] = []
            for index, one in enumerate(stage.arguments):
                if isinstance(one, Said):
                    arguments.append(_scalar(one, values))
                    continue
                offset = _offset(stage, one, values, held)
                arguments.append(_elements(held[one.memory][offset:], one.element))
                span = fresh.get(one.memory)
                if span is not None:
                    unwritten.append((index, range(max(0, span.start - offset), max(0, span.stop - offset))))
            yield self.kernels[stage.entry], replace(_launch(stage, arguments, values), fresh=tuple(unwritten))
            # What it has left unwritten of these holds poison, which shows in the result.
            for one in stage.arguments:
                if isinstance(one, PointerTarget):
                    fresh.pop(one.memory, None)


@dataclass(frozen=True, slots=True)
class PlacedLaunches:
    """The launches of a function over one memory, whose arrays have the same addresses in all of them."""

    # entry, its launch, and (device address, bytes) of what the host sets to zero before it
    stages: tuple[tuple[str, Launch, tuple[tuple[int, int], ...]], ...]
    addresses: Mapping[int, int]  # device address of each array argument of the whole, by its index


def placed(steps: LaunchSteps, launch: Launch, places: Callable[[Sequence[int]], Sequence[int]]) -> PlacedLaunches:
    """The launches of a function, with pointers in place of arrays.

    Args:
        launch: of the whole, as `Together.launches` takes it; its arrays are the memory.
        places: device addresses of so many bytes each.

    Raises:
        UndecidedError: as `Together.launches`.
    """
    values = {**steps.usual, **_given(steps, launch)}
    held = _memory(steps, launch, values)
    at = dict(zip(held, places([one.nbytes for one in held.values()]), strict=True))
    memory = tuple(DeviceMemory(at[name], data, name) for name, data in held.items())
    stages = []
    for stage in steps.stages:
        arguments = [
            np.uint64(at[one.memory] + _offset(stage, one, values, held))
            if isinstance(one, PointerTarget)
            else _scalar(one, values)
            for one in stage.arguments
        ]
        cleared = tuple((at[name], held[name].nbytes) for name in stage.cleared)
        stages.append((stage.entry, replace(_launch(stage, arguments, values), memory=memory), cleared))
    return PlacedLaunches(tuple(stages), {index: at[name] for name, index in steps.arrays.items()})


def _offset(
    stage: LaunchStep, one: PointerTarget, values: Mapping[str, Number], held: Mapping[str, NDArray[np.uint8]]
) -> int:
    """Where in its memory a pointer leads, bytes."""
    offset = int(_known(one.offset, values))
    if not 0 <= offset <= held[one.memory].nbytes:
        raise UndecidedError(
            f"{stage.entry} is given what lies {offset:,} bytes behind the beginning of {one.memory}",
            hint=f"{one.memory} has {held[one.memory].nbytes:,} bytes; name a kernel with --entry",
        )
    return offset


def _launch(stage: LaunchStep, arguments: Sequence[Any], values: Mapping[str, Number]) -> Launch:
    shared = int(_known(stage.shared, values))
    grid, block = _shape(stage.grid, values), _shape(stage.block, values)
    return Launch(grid, block, tuple(arguments), shared, stage.names, structs=stage.structs)


def _key(steps: LaunchSteps, index: int) -> str:
    return next((name for name, one in steps.arrays.items() if one == index), "")


def _given(steps: LaunchSteps, launch: Launch) -> dict[str, Number]:
    found: dict[str, Number] = {}
    for name, index in steps.numbers.items():
        value = np.asarray(launch.arguments[index])
        found[name] = float(value) if value.dtype.kind == "f" else int(value)
    return found


def _memory(steps: LaunchSteps, launch: Launch, values: Mapping[str, Number]) -> dict[str, NDArray[np.uint8]]:
    held: dict[str, NDArray[np.uint8]] = {}
    for name, index in steps.arrays.items():
        array = launch.arguments[index]
        assert isinstance(array, np.ndarray)
        held[name] = array.reshape(-1).view(np.uint8)
    total = sum(one.nbytes for one in held.values())
    room = _ROOM + min(_TIMES * total, max(_KEPT, 2 * total))
    for name, size in steps.own.items():
        count = room if size is None else int(_known(size, values))
        if not 0 <= count <= max(_MOST, _MOST_TIMES * total):
            raise UndecidedError(
                f"the host's function makes {count:,} bytes of {name}", hint="name one of its kernels with --entry"
            )
        held[name] = _poisoned(count)
    return held


_spare: dict[int, NDArray[np.uint8]] = {}  # memory of launches that are over, by its id, to be taken once more


def _poisoned(count: int) -> NDArray[np.uint8]:
    """Memory of a function's own that nobody has written: that of an earlier launch, if there is some.

    What comes from the system is cleared page by page first, which takes far longer than a kernel of the usual sizes.
    """
    fits = sorted((one.size, key) for key, one in list(_spare.items()) if one.size >= count)
    # Another thread may have taken one of them by now.
    taken = (_spare.pop(key, None) for _, key in fits)
    held = next((one for one in taken if one is not None), None)
    memory = (np.empty(count, np.uint8) if held is None else held)[:count]
    memory[...] = _POISON
    return memory


def _given_back(memory: NDArray[np.uint8]) -> None:
    """Keep what `_poisoned` gave for another launch."""
    whole = memory.base
    if isinstance(whole, np.ndarray) and whole.size <= _KEPT:
        _spare[id(whole)] = whole
        for _, key in sorted((one.size, key) for key, one in list(_spare.items()))[:-_SPARE]:
            _spare.pop(key, None)


@dataclass(slots=True)
class StagedRuns:
    """Launches such kernels one after the other, and says what checks found in any of them."""

    inner: Any  # runs of one kernel, `wmmadiag.subject.card_session.Runs`
    found: list[Any] = field(default_factory=list)

    def launch(self, kernel: LoadedKernel, launch: Launch) -> RunStats:
        """Run to completion, as `LoadedKernel.launch`."""
        self.found = []
        if not isinstance(kernel, Together):
            return self._launched(kernel, launch)
        return summed([self._launched(one, own) for one, own in kernel.launches(launch)])

    def _launched(self, kernel: LoadedKernel, launch: Launch) -> RunStats:
        try:
            stats: RunStats = self.inner.launch(kernel, launch)
        finally:
            self.found += [one for one in self.inner.reported() if one not in self.found]
        return stats

    def reported(self) -> tuple[Any, ...]:
        """What was found in the last launch, also when it died."""
        return tuple(self.found)


def summed(several: Sequence[RunStats]) -> RunStats:
    """Several runs as one."""
    last = several[-1]
    return replace(
        last,
        warp_instructions=sum(one.warp_instructions for one in several),
        seconds=sum(one.seconds for one in several),
        output="".join(one.output for one in several),
    )


def _elements(memory: NDArray[np.uint8], element: ElementType) -> NDArray[Any]:
    kind = storage_dtype(element)
    return memory[: memory.size // kind.itemsize * kind.itemsize].view(kind)


def _known(term: Term, values: Mapping[str, Number]) -> Number:
    found = terms.value(term, values)
    if found is None:
        missing = ", ".join(sorted(terms.symbols(term) - values.keys())) or "a number"
        raise UndecidedError(
            f"a launch of the host's function depends on {missing}, which nobody says",
            hint="name one of its kernels with --entry, to check it alone",
        )
    return found


def _shape(shape: tuple[Term, ...], values: Mapping[str, Number]) -> Dim3:
    x, y, z = (int(_known(one, values)) for one in shape)
    return x, y, z


def _scalar(said: Said, values: Mapping[str, Number]) -> Any:
    number = _known(said.value, values)
    if said.element.is_float:
        from wmmadiag.subject.inputs import rounded

        return rounded(np.asarray([float(number)], np.float64), said.element)[0]
    kind = storage_dtype(said.element)
    return np.asarray([int(number)]).astype(kind)[0]
