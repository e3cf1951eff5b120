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
    """One cause at one place (or between two), however often it happened.

    Attributes:
        check: name of the check, such as "races".
        kind: stable id within it, such as "read-write".
        level: how grave it is.
        message: one sentence.
        place: the user's line (with the inlined chain).
        other: the second line of a pair (the other access of a race, the writer), or None.
        count: how often it happened in the run.
        detail: further lines: first seen at which block, warp and lane, which element.
        hint: the next step.
    """

    check: str
    kind: str
    level: Level
    message: str
    place: Place
    other: Place | None = None
    count: int = 1
    detail: tuple[str, ...] = field(default=())
    hint: str = ""
