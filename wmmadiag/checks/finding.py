"""What a check found: one cause at one place, on the user's own line."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

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
class InsertAt:
    """A statement to insert into the user's source.

    Attributes:
        file: path as the compiler was given it.
        line: 1-based, of the source as it was compiled.
        where: before or after that line.
        text: the statement, "__syncthreads();".
    """

    file: str
    line: int
    where: Literal["before", "after"]
    text: str


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
        pairs: program counters of the two instructions of a pair; several where the compiler copied the lines.
        suggested: a statement that would mend it, where the evidence says which and where.
        fragment: it is a whole fragment's access, not one thread's.
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
    pairs: tuple[tuple[int, int], ...] = ()
    suggested: InsertAt | None = None
    fragment: bool = False
