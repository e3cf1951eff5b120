"""What a check found: one cause at one place, on the user's own line."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from wmmadiag.place import Place


class Level(str, Enum):
    """How grave a finding is. The level is earned by evidence.

    ERROR: results are wrong, or can be with another schedule or placement of the same run.
    WARNING: undefined or fragile, harmless in this run.
    ADVICE: slow, never wrong.
    """

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause at one place (or between two), however often it happened."""

    check: str  # name of the check, such as "races"
    kind: str  # stable id within it, such as "read-write"
    level: Level  # how grave it is
    message: str  # one sentence
    place: Place  # the user's line (with the inlined chain)
    other: Place | None = None  # the second line of a pair (the other access of a race, the writer), or None
    count: int = 1  # how often it happened in the run
    # further lines: first seen at which block, warp and lane, which element
    detail: tuple[str, ...] = field(default=())
    hint: str = ""  # the next step
    # program counters of the two instructions of a pair; several where the compiler copied the lines
    pairs: tuple[tuple[int, int], ...] = ()
    fragment: bool = False  # it is a whole fragment's access, not one thread's
