"""Lines that a kernel runs and, with a change, no longer does: what is wrong there such a change hides, and mends not.

Where only one of two versions of a program fails, what it alone executes is where to look (spectrum-based fault
localisation: Renieris and Reiss 2003).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.watched import Line, LineShift, both_texts, fresh
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import own_place
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.compiling import Texts

_MOST = 1_000_000
"""Warp instructions that are listened to: of a longer run nothing is said."""


class _TooMuchExecuted(WmmadiagError):
    """More was executed than is listened to."""


@dataclass(slots=True)
class _Executed:
    """The program counters that a run comes to."""

    found: set[int] = field(default_factory=set)
    count: int = 0

    def on_instruction(self, where: Any, active: int, _registers: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        self.count += 1
        if self.count > _MOST:
            raise _TooMuchExecuted("too long to be followed")
        if active:
            self.found.add(where[2])


def bypassed(first: CaseRun, mended: CaseRun, sources: Mapping[str, Source], texts: Texts) -> set[Line]:
    """The lines of the source, those of calls among them, that are executed as it stands and not with a change.

    Args:
        first: a case as the source stands; mended: with the change.
        texts: with the change.
    """
    before, after = _lines(first), _lines(mended)
    if before is None or after is None:
        return set()
    shift = LineShift(both_texts(sources, texts))
    return {
        line for line in before if line[0] in sources and (new := shift.forth(line)) is not None and new not in after
    }


def _lines(run: CaseRun) -> set[Line] | None:
    """The lines that a run executes, with those of the calls that led there; None where that is not known."""
    kernel = run.emulated
    if kernel is None or run.bound is None:
        return None
    return _executed(fresh(run.bound), kernel)


def _executed(case: BoundCase, kernel: EmulatedKernel) -> set[Line] | None:
    seen = _Executed()
    with contextlib.suppress(WmmadiagError):
        kernel.observed(case.launch, seen)
    if seen.count > _MOST:
        return None
    places = (own_place(kernel.kernel.place(at)) for at in seen.found)
    return {(frame.file, frame.line) for place in places for frame in place.frames()}
