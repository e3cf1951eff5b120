"""What the engine's checks complain of with each change of a program with alternatives: how often, and of which kind.

Only that, not where or why: it tells the changes that may take a complaint away from the many that do not, for one
compilation, where each of them would need one of its own to be checked in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.compiled import Kernels, Program
from wmmadiag.diagnose.trials.parts import selected
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.schemata import SELECTOR
from wmmadiag.diagnose.trials.team import Part
from wmmadiag.emulator import Budget, EmulatedKernel
from wmmadiag.emulator.trials import StagedLaunch, launches
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import DeviceMemory

Stages: TypeAlias = Callable[[Kernels], Sequence[StagedLaunch]]

Complaints: TypeAlias = Counter[tuple[str, str]]
"""How often what an engine's check found is of a kind: (check, kind) → findings."""


class Watched:
    """A program with alternatives, run with the engine's checks.

    Args:
        stages: its launches.
        checks: the engine's names of them.
        budget: warp instructions of a launch.
    """

    def __init__(self, stages: Sequence[StagedLaunch], checks: Sequence[str], budget: int) -> None:
        self._stages = [replace(one, kernel=_watching(one.kernel, checks, budget)) for one in stages]

    def complaints(self, selected: int) -> Complaints | None:
        """Of the change that a number selects, 0 of the kernel as it is; None where it does not end."""
        found: Complaints = Counter()
        for kernel, launch in launches(self._stages):
            variable = kernel.kernel.layout.static.get(SELECTOR)
            if variable is not None:
                number = np.array([selected], np.uint32).view(np.uint8)
                held = DeviceMemory(variable.address, number, SELECTOR)
                launch = replace(launch, memory=(*launch.memory, held))
            try:
                kernel.launch(launch)
            except WmmadiagError:
                return None
            found.update((str(raw["check"]), str(raw["kind"])) for raw in kernel.raw_findings)
        return found


def _watching(kernel: EmulatedKernel, checks: Sequence[str], budget: int) -> EmulatedKernel:
    options = replace(kernel.options, checks=tuple(checks), budget=Budget(budget, seconds=0))
    return EmulatedKernel(kernel.kernel, options)


def complaints_left(
    programs: Programs, staged: Stages, own: Program, some: Sequence[Part], checks: Sequence[str], budget: int
) -> dict[Change, float]:
    """What share of the kernel's complaints the checks have left of it with each change, or with two at once; all of
    them where they complain of anything more.

    Args:
        staged: the launches of a program.
        own: the kernel as it is.
        some: the changes; those that are compiled apart are left out.
        checks, budget: see `Watched`.

    Returns:
        By the change; none of a program that is complained of, without a change, for something else than the kernel.
    """
    before = Watched(staged(own.kernels), checks, budget).complaints(0)
    found: dict[Change, float] = {}
    for part in some if before else ():
        for program in () if part.apart else programs.batch(part.changes, two=bool(part.pairs)).programs:
            watched = Watched(staged(program.kernels), checks, budget)
            without = watched.complaints(0)
            if before is None or without is None or without.keys() != before.keys():
                continue
            for number, change in selected(program.changes, part).items():
                now = watched.complaints(number)
                less = now is not None and now < without
                found[change] = now.total() / without.total() if now is not None and less else 1.0
    return found
