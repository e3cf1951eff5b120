"""Programs of many changes that, without one of them, do not what the kernel does: which change is to blame.

A change may compile beside what stands there and still make something else of it: of two kinds of references the
compiler makes a value, to which an assignment is lost. Trials of the other changes in such a program tell nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials.outcomes import Outcome


@dataclass(slots=True)
class Ran:
    """What became of changes that were tried in as few programs as can be."""

    found: dict[Change, Outcome] = field(default_factory=dict)
    alone: list[Change] = field(default_factory=list)  # to be compiled on their own
    faithful: bool = True  # whether each program does what the kernel does without a change
    misleading: list[Change] = field(default_factory=list)  # those to blame where one does not; among `alone`


_PATIENCE = 2


class BatchRun(Protocol):
    """Tries changes in as few programs as can be."""

    def __call__(self, changes: Sequence[Change], anyway: bool, /) -> Ran:
        """What became of them.

        Args:
            anyway: whether they are tried, too, in a program that is not faithful.
        """


def parted(changes: Sequence[Change], run: BatchRun) -> Ran:
    """Try changes together; where the program is not faithful, in halves, down to the changes that are to blame.

    Where no quarter is faithful either, what differs is the kernel's own (an undefined value, a race): the whole
    stands.
    """
    few = len(changes) < 2
    whole = run(changes, few)
    if whole.faithful or few:
        return whole
    return _halved(changes, run, _PATIENCE) or run(changes, True)


def _halved(changes: Sequence[Change], run: BatchRun, patience: int) -> Ran | None:
    """The halves of what is not faithful; None where nothing of it is.

    Args:
        patience: times that it is halved until a part has to be faithful.
    """
    middle = len(changes) // 2
    parts = [changes[:middle], changes[middle:]]
    ran = [run(part, False) for part in parts]
    left = _PATIENCE if any(one.faithful for one in ran) else patience - 1
    if not left:
        return None
    within = [
        None if one.faithful or len(part) == 1 else _halved(part, run, left)
        for part, one in zip(parts, ran, strict=True)
    ]
    if left < _PATIENCE and not any(within):
        return None
    made = Ran()
    for part, one, parted_again in zip(parts, ran, within, strict=True):
        held = one
        if not one.faithful and len(part) == 1:
            held = Ran(alone=list(part), misleading=list(part))
        elif not one.faithful:
            held = parted_again or run(part, True)
        made.found |= held.found
        made.alone += held.alone
        made.misleading += held.misleading
    return made
