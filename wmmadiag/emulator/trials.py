"""Launches of a program that reads a selector, run for many values of it (`native/trial.hpp`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import native
from wmmadiag.emulator.kernel import EmulatedKernel, Region
from wmmadiag.emulator.launch_limits import check_shape
from wmmadiag.errors import ConfigurationError
from wmmadiag.launch import DeviceMemory, Launch

ENDLESS = 20_000_000
"""Warp instructions after which a small launch is taken for one that does not end."""

End: TypeAlias = Literal["finished", "stopped", "fault", "budget", "interrupted"]


@dataclass(frozen=True, slots=True)
class JudgedItems:
    """An array argument of the launch, item by item."""

    argument: int  # its index
    type: str  # of an item: "f16", "bf16", "f32", "f64", "e4m3", "e5m2", or "s" or "u" with 8 to 64 bits
    # int32 per item: the number of an element, -1 for what must stay as it is, -2 for what may hold anything
    element: NDArray[np.int32]
    poison: int | None  # bits of items that nobody has written, or None


@dataclass(frozen=True, slots=True)
class ElementRules:
    """What is right, per element; all arrays have one entry per element."""

    # value, bound: float64; a number is right at most `bound` away from `value`
    value: NDArray[np.float64]
    bound: NDArray[np.float64]
    accepted: NDArray[np.uint8]  # uint8, sum of: 1 NaN, 2 infinity, 4 minus infinity, 8 anything that is not finite
    wrong: NDArray[np.uint8]  # uint8; not 0 where the program that is to be mended is wrong


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One run."""

    end: End  # "stopped": given up in a block that is no better; then the counts are of what was looked at
    fault: str  # kind of the fault that ended it, "none" where none did
    in_order: bool  # all blocks ran in their order, because one touched what another one wrote
    wrong: int  # elements that are wrong
    mended: int  # elements that are right and were not
    broken: int  # elements that are wrong and were not
    damaged: int  # items changed that must stay as they are
    # strays: accesses of lanes that belong nowhere, where they pass; fewer, more: than without a change, of the blocks
    # that were looked at
    strays: int
    fewer: int
    more: int
    first: int  # the lowest wrong element, or -1
    instructions: int  # warp instructions spent
    error: float  # how far off the wrong elements that were looked at are, from 0 to 1 each
    looked: int  # elements that were looked at
    trace: int  # of all that was looked at: two runs with the same one left the same bytes there


@dataclass(frozen=True, slots=True)
class TrialBase:
    """The run with selector 0."""

    result: TrialResult
    independent: bool  # there are several groups of blocks that touch nothing of each other's, or one block
    instructions: tuple[int, ...]  # warp instructions of each block
    wrong: NDArray[np.uint8]  # uint8 per element; empty where it did not end
    # the first block of each group that wrote wrong elements, where groups are independent; that with the fewest first
    wrong_blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """When a trial is given up."""

    # times, slack: a launch may use so many times the base's warp instructions, and `slack` more per block
    times: int = 4
    slack: int = 1 << 14
    budget: int = ENDLESS  # warp instructions of a launch where the base did not end; 0: no limit
    looks: int = 1  # blocks with wrong elements that must be no better; 0: never, so that every element is counted


@dataclass(frozen=True, slots=True)
class StagedLaunch:
    """One of the launches that a trial is made of.

    Attributes:
        kernel: the program's; its poison is that of its options, its other options do not count.
        launch: its arrays hold the initial contents, and stay as they are.
        cleared: (device address, bytes) of memory that the host sets to zero before it.
    """

    kernel: EmulatedKernel
    launch: Launch
    cleared: Sequence[tuple[int, int]] = ()


def launches(stages: Sequence[StagedLaunch]) -> Iterator[tuple[EmulatedKernel, Launch]]:
    """Each kernel with its launch, on copies of all memory: to be run before the next one is asked for."""
    held: dict[int, DeviceMemory] = {}
    for stage in stages:
        launch = stage.launch.copied()
        for one in launch.memory:
            held.setdefault(one.address, one)
        memory = tuple(held[one.address] for one in launch.memory)
        for address, size in stage.cleared:
            held[address].data[:size] = 0
        yield stage.kernel, replace(launch, memory=memory)


class TrialLaunch:
    """Kernels with their launches, made ready.

    Args:
        stages: what is launched, in order; arrays of several are in `Launch.memory`, and the same for all of them.
        selector: name of the program's variable of 32 bits; where the program has none, all values are the same run.
        items: of the arrays; those that are not listed may hold anything.
        rules: per element.
        strays_pass: whether accesses outside of all arrays, and such as are not aligned, read zeros or what lies there,
            or are lost, in place of ending the run.
        local_unaligned: whether local memory is read and written at any address: what a compiler in haste leaves there
            was in registers.
        addresses: of the arrays, where they are no arguments of the first launch: by the indices of `items`.

    Raises:
        ConfigurationError, KernelFault: as `EmulatedKernel.launch`, for what does not fit a kernel.
    """

    def __init__(
        self,
        stages: Sequence[StagedLaunch],
        selector: str,
        items: Sequence[JudgedItems],
        rules: ElementRules,
        *,
        strays_pass: bool = False,
        local_unaligned: bool = False,
        addresses: Mapping[int, int] | None = None,
    ) -> None:
        placed = [_placed(one, selector) for one in stages]
        starts = addresses if addresses is not None else _starts(stages[0])
        missing = [one.argument for one in items if one.argument not in starts]
        if missing:
            raise ConfigurationError(
                f"argument {missing[0]} of the launch is no array", hint="give arrays where the kernel takes pointers"
            )
        options = stages[0].kernel.options
        self._trials = native.trials(
            [row for row, _ in placed],
            options.poison,
            options.register_poison,
            strays_pass,
            local_unaligned,
            [(starts[one.argument], one.type, one.element, one.poison is not None, one.poison or 0) for one in items],
            *(np.ascontiguousarray(one) for one in (rules.value, rules.bound, rules.accepted, rules.wrong)),
            [regions for _, regions in placed],
        )

    def base(self, budget: int) -> TrialBase:
        """Run with selector 0, all blocks in their order, and remember which block touches what.

        Args:
            budget: warp instructions; 0: no limit.
        """
        result, independent, instructions, wrong, wrong_blocks = self._trials.base(budget)
        mask = np.frombuffer(wrong, np.uint8)
        return TrialBase(TrialResult(*result), independent, tuple(instructions), mask, tuple(wrong_blocks))

    def adopt(self, other: TrialLaunch) -> bool:
        """Take over the base of another program for the same launch; False where its memory or grid is another."""
        return bool(self._trials.adopt(other._trials))

    def run(self, selectors: Sequence[int], limits: TrialLimits, threads: int = 0) -> list[TrialResult]:
        """A run per selector; the results do not depend on the number of threads.

        Args:
            threads: 0: as many as this process may use.
        """
        rows = self._trials.run(
            list(selectors),
            limits.times,
            limits.slack,
            limits.budget,
            limits.looks,
            threads or len(os.sched_getaffinity(0)),
        )
        return [TrialResult(*row) for row in rows]


def _placed(stage: StagedLaunch, selector: str) -> tuple[tuple[Any, ...], Sequence[Region]]:
    """A stage as the engine takes it, and the memory that it works on."""
    check_shape(stage.kernel.kernel, stage.launch)
    regions, _ = stage.kernel.memory(stage.launch)
    variable = stage.kernel.kernel.layout.static.get(selector)
    address = variable.address if variable is not None else 0
    row = *stage.kernel.placed(stage.launch, regions), stage.kernel.patience, address, list(stage.cleared)
    return row, regions


def _starts(stage: StagedLaunch) -> dict[int, int]:
    """Device addresses of the array arguments of a launch, by their indices."""
    arrays = [index for index, argument in enumerate(stage.launch.arguments) if isinstance(argument, np.ndarray)]
    return {index: one.start for index, one in zip(arrays, stage.kernel.extents(stage.launch), strict=False)}
