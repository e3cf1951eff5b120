"""What became of a change that was tried."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal, TypeAlias

from wmmadiag.diagnose.changes import Change
from wmmadiag.emulator.trials import TrialResult
from wmmadiag.subject.card import LaunchShape

TrialVerdict: TypeAlias = Literal["right", "better", "same", "worse", "fault", "refused", "budget", "deferred"]
"""right: every element is right, and nothing else was written. better: some wrong elements are right, and no other is
wrong; or it ends, where the kernel does not. same: as wrong as before. worse: other elements are wrong, whatever was
mended. Fewer strays count like fewer wrong elements. fault, budget: it died, or did not end. refused: the compiler, the
emulator or the chip would not take it. deferred: it needs a text of its own, and was not tried."""
_PART = 0.1
STRAYS = frozenset({"out-of-bounds", "misaligned", "read-only", "wrong-space"})
"""Faults of accesses that belong nowhere."""


@dataclass(frozen=True, slots=True)
class LaunchChange:
    """Another grid, block or size of shared memory for the same source."""

    shape: LaunchShape
    note: str  # in a few words, for the user
    # it has fewer threads: what these do wrong to each other, or leave to each other, then shows no more
    fewer: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One change, tried on one case without checks. "right" is yet to be confirmed on every case with all of them."""

    change: Change | LaunchChange
    verdict: TrialVerdict
    wrong_before: int | None  # wrong elements of the kernel as it is; None where it did not end
    wrong_after: int | None = None  # with the change; None where the trial was given up before everything was counted
    # mended, broken, left: elements that became right, became wrong, and are still or now wrong; of those that were
    # looked at
    mended: int = 0
    broken: int = 0
    left: int = 0
    work: int = 0  # warp instructions spent
    # whether the program of the trial, without the change, is wrong in just the elements that the kernel is wrong in.
    # Where it is not (it rounds otherwise, or an undefined value is another one), only a confirmation tells.
    faithful: bool = True
    reason: str = ""  # why it was refused, or how it died; "" otherwise
    # share of how far off the elements that were looked at are, in the mean, which is gone; below 0: they are farther
    # off. Of a run that dies like the kernel: share of its work that comes after where the kernel dies.
    nearer: float = 0.0
    idle: bool = False  # what was looked at is as it was, byte by byte
    # of accesses that belong nowhere, where the kernel dies of them: the share that is gone, of the blocks that were
    # looked at; below 0: there are more
    astray: float = 0.0

    @property
    def tells(self) -> bool:
        """Whether it mends something, or brings what is wrong a good part nearer."""
        return self.verdict in ("right", "better") or self.partly or self.nearer >= _PART

    @property
    def partly(self) -> bool:
        """Whether it mends a good part of what was looked at, and breaks less: then it is about what is wrong there."""
        ended = self.verdict in ("better", "same", "worse")
        if ended and self.astray >= _PART and self.broken == 0:
            return True
        return ended and self.mended > self.broken and self.mended >= _PART * (self.mended + self.left)


def outcome_of(
    change: Change | LaunchChange,
    result: TrialResult,
    reference: TrialResult,
    faithful: bool,
    before: TrialResult,
) -> Outcome:
    """A trial's result in words.

    Args:
        reference: the kernel's own run.
        before: the trial's program without a change, looked at like the result.
    """
    ended = reference.end == "finished"
    return Outcome(
        change,
        _verdict(result, reference, _further_astray(change, result, reference)),
        reference.wrong if ended else None,
        result.wrong if result.end == "finished" else None,
        result.mended,
        result.broken,
        result.wrong,
        result.instructions,
        faithful,
        result.fault if result.end == "fault" else "",
        _nearer(result, before),
        result.end == before.end and result.end in _JUDGED and _left(result) == _left(before),
        _astray(result),
    )


_JUDGED = ("finished", "stopped")


def _left(result: TrialResult) -> tuple[int, int]:
    return result.trace, result.strays


def _astray(result: TrialResult) -> float:
    """Share of the accesses that belong nowhere that is gone; below 0: there are more."""
    before = result.strays + result.fewer - result.more
    return (result.fewer - result.more) / before if before and result.end in _JUDGED else 0.0


def _nearer(result: TrialResult, before: TrialResult) -> float:
    if result.end in _JUDGED and before.end in _JUDGED:
        was, now = (one.error / max(1, one.looked) for one in (before, result))
        gone = [1.0 - now / was] if was > 0.0 else []
        return statistics.fmean([*gone, _astray(result)]) if before.strays else next(iter(gone), 0.0)
    if result.end == before.end == "fault" and result.instructions > 0:
        return 1.0 - before.instructions / result.instructions
    return 0.0


def _further_astray(change: Change | LaunchChange, result: TrialResult, reference: TrialResult) -> int:
    """How many accesses more belong nowhere than without the change, in the same program: in another one the compiler
    may have made two of one."""
    return result.strays - reference.strays if isinstance(change, LaunchChange) else result.more - result.fewer


def _verdict(result: TrialResult, reference: TrialResult, astray: int) -> TrialVerdict:
    if result.end == "fault":
        return "fault"
    if result.end == "budget":
        return "budget"
    if result.end == "stopped":
        return "worse" if result.broken or result.damaged > reference.damaged or result.more else "same"
    if result.wrong == 0 and result.damaged == 0 and result.strays == 0:
        return "right"
    if reference.end != "finished":
        return "better"
    if result.broken or result.damaged > reference.damaged or astray > 0:
        return "worse"
    fewer = result.damaged < reference.damaged or astray < 0
    return "better" if result.mended or fewer else "same"


def faithful(own: TrialResult, reference: TrialResult) -> bool:
    """Whether a program without a change does what the kernel does: it may take more accesses, of which more belong
    nowhere."""
    if own.end != "finished" or reference.end != "finished":
        return own.end == reference.end
    same = own.damaged == reference.damaged and bool(own.strays) == bool(reference.strays)
    return own.mended == own.broken == 0 and same
