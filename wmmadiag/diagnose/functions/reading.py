"""Which lines read an input, and which inputs nothing reads: what is known of a kernel whose operation is not.

The reference says on which inputs an output depends; the recorded accesses say what was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.addressing.footprints import Making, Site, lines_of, sites
from wmmadiag.diagnose.trials.workbench import CaseRun
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place
from wmmadiag.subject.binding import BoundCase, bind

_LINES = 8
"""Lines that make an address at which edits are tried."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The accesses of a run.

    Attributes:
        places: by role, the user's lines that read it, in the order of the program.
        lines: by role, (file, line)s that make the addresses of these, those that no other role's share first.
        unread: roles of inputs that no access reads, though the kernel is given them.
    """

    places: Mapping[str, tuple[Place, ...]]
    lines: Mapping[str, tuple[tuple[str, int], ...]]
    unread: frozenset[str]

    @property
    def together(self) -> tuple[tuple[str, ...], ...]:
        """Roles that one line reads, for every line that reads several."""
        by_line: dict[tuple[str, int], set[str]] = {}
        for role, places in self.places.items():
            for place in places:
                by_line.setdefault((place.file, place.line), set()).add(role)
        found = (tuple(sorted(roles)) for roles in by_line.values() if len(roles) > 1)
        return tuple(dict.fromkeys(found))


def reading(run: CaseRun) -> Reading | None:
    """None where the run cannot be watched, did not end, or is too large."""
    kernel = emulator_of(run.kernel) if run.kernel is not None else None
    old = run.bound
    if kernel is None or old is None or run.verdict is None:
        return None
    fresh = bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution)
    try:
        found = sites(fresh, kernel)
    except WmmadiagError:
        return None
    loads: dict[str, list[Site]] = {}
    for site in found:
        for role in site.argument.placements if not site.store else ():
            loads.setdefault(role, []).append(site)
    makings = {role: lines_of(kernel, [pc for site in own for pc in site.pcs]) for role, own in loads.items()}
    return Reading(
        {role: tuple(dict.fromkeys(site.place for site in own)) for role, own in loads.items()},
        {role: _likeliest(role, makings) for role in loads},
        frozenset(role for role in _inputs(old) if role not in loads),
    )


def _inputs(bound: BoundCase) -> Sequence[str]:
    return [
        role
        for argument in bound.arguments
        if argument.spec.direction == "in" and len(argument.placements) == 1
        for role in argument.placements
    ]


def _likeliest(role: str, makings: Mapping[str, Mapping[tuple[str, int], Making]]) -> tuple[tuple[str, int], ...]:
    """The access itself, then what makes only its address, then what others share."""
    own = makings[role]

    def key(line: tuple[str, int]) -> tuple[int, int]:
        shared = sum(line in other for name, other in makings.items() if name != role)
        return own[line].steps + 2 * shared, line[1]

    return tuple(sorted(own, key=key))[:_LINES]


def depends_on(bound: BoundCase, role: str, expected: Mapping[str, NDArray[np.float64]]) -> bool:
    """Whether the card's function gives something else where an input is 0 everywhere; False where it then fails."""
    from wmmadiag.diagnose.functions.model import task_of

    task = task_of(bound)
    if task is None:
        return False
    try:
        with np.errstate(all="ignore"):
            outputs, _ = task.call({**task.inputs, role: np.zeros_like(task.inputs[role])})
    except Exception:  # the user's code may raise anything where it is given something else
        return False
    return any(not np.array_equal(outputs[name], expected[name], equal_nan=True) for name in expected)
