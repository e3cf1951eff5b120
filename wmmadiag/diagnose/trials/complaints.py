"""What the engine's checks complain of with each change of a program with alternatives: how often, and of which kind.

Only that, not where or why: it tells the changes that may take a complaint away from the many that do not, for one
compilation, where each of them would need one of its own to be checked in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.parts import selected
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.schemata import SELECTOR
from wmmadiag.diagnose.trials.team import Part
from wmmadiag.emulator import Budget, EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import DeviceMemory, Launch

Complaints: TypeAlias = Counter[tuple[str, str]]
"""How often what an engine's check found is of a kind: (check, kind) → findings."""


class Watched:
    """A program with alternatives, run with the engine's checks.

    Args:
        checks: the engine's names of them.
        budget: warp instructions of a launch.
    """

    def __init__(self, kernel: EmulatedKernel, launch: Launch, checks: Sequence[str], budget: int) -> None:
        options = replace(kernel.options, checks=tuple(checks), budget=Budget(budget, seconds=0))
        self._kernel, self._launch = EmulatedKernel(kernel.kernel, options), launch
        self._selector = kernel.kernel.layout.static.get(SELECTOR)

    def complaints(self, selected: int) -> Complaints | None:
        """Of the change that a number selects, 0 of the kernel as it is; None where it does not end."""
        launch = self._launch.copied()
        if self._selector is not None:
            number = np.array([selected], np.uint32).view(np.uint8)
            held = DeviceMemory(self._selector.address, number, SELECTOR)
            launch = replace(launch, memory=(*launch.memory, held))
        try:
            self._kernel.launch(launch)
        except WmmadiagError:
            return None
        return Counter((str(raw["check"]), str(raw["kind"])) for raw in self._kernel.raw_findings)


def complaints_left(
    programs: Programs, own: EmulatedKernel, launch: Launch, some: Sequence[Part], checks: Sequence[str], budget: int
) -> dict[Change, float]:
    """What share of the kernel's complaints the checks have left of it with each change, or with two at once; all of
    them where they complain of anything more.

    Args:
        own: the kernel as it is, in a program of its own.
        some: the changes; those that are compiled apart are left out.
        checks, budget: see `Watched`.

    Returns:
        By the change; none of a program that is complained of, without a change, for something else than the kernel.
    """
    before = Watched(own, launch, checks, budget).complaints(0)
    found: dict[Change, float] = {}
    for part in some if before else ():
        for program in () if part.apart else programs.batch(part.changes, two=bool(part.pairs)).programs:
            watched = Watched(program.kernel, launch, checks, budget)
            without = watched.complaints(0)
            if before is None or without is None or without.keys() != before.keys():
                continue
            for number, change in selected(program.changes, part).items():
                now = watched.complaints(number)
                less = now is not None and now < without
                found[change] = now.total() / without.total() if now is not None and less else 1.0
    return found
