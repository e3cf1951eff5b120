"""What a hypothesis says about a failing case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wmmadiag.diagnose.evidence import Mask
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class Claim:
    """A cause that evidence points to.

    Attributes:
        hypothesis: its id.
        verdict: "proven" by checks or provenance, "reproduced" by a changed oracle, "undecided" for a suspicion that a
            trial must confirm.
        sentence: the cause in one sentence.
        place: the user's line, or None.
        other: a second line of a pair, or None.
        instead: what the kernel computes instead, one sentence, or "".
        evidence: how we know, one line each.
        reach: role → elements that it spoils, or None when that is not known.
        at_most: how many wrong elements it can be behind, where `reach` is not known; None for all of them.
        rank: lower is nearer the root; see `ROOTS`.
        edit_hypotheses: ids whose edits may mend it; empty: its own.
        edit_lines: further lines of `place.file` where an edit may mend it; without a place lines of the source.
        likeliest_first: whether `edit_lines` are the lines that make the wrong address, in that order.
        values: numbers for edits, such as {"ldm": 72}.
        advice: what to do where no edit can be tried, or "".
        residual: of a fault model; model: its name, or "".
        told: whether the line is that of the input or part that a fault model is about, as the kernel reads it.
        space: memory that it is about, "shared", "global" or "local"; "" where it is none, or several.
        exact: whether hypothesis and line are certain; otherwise the edit that mends the kernel decides between
            `edit_hypotheses`, and where.
        seen: whether what the sentence says was seen as such (by a check, or in how the run ended), even where its
            reason is not certain; an interpretation of what provenance saw is not.
        ambiguous: whether other hypotheses read the same observation in their way, so that numbers that fit do not
            decide: terms are added twice by a loop that takes them twice, and by a tile that nobody cleared.
    """

    hypothesis: str
    verdict: Literal["proven", "reproduced", "undecided"]
    sentence: str
    place: Place | None = None
    other: Place | None = None
    instead: str = ""
    evidence: tuple[str, ...] = ()
    reach: Mapping[str, Mask] | None = None
    rank: float = 50.0
    edit_hypotheses: tuple[str, ...] = ()
    edit_lines: tuple[int, ...] = ()
    values: Mapping[str, float | int] = field(default_factory=dict)
    advice: str = ""
    residual: float | None = None
    space: str = ""
    exact: bool = True
    seen: bool = True
    model: str = ""
    told: bool = False
    likeliest_first: bool = False
    at_most: int | None = None
    ambiguous: bool = False


@dataclass(frozen=True, slots=True)
class NotSo:
    """A hypothesis that does not hold, or cannot be told.

    Attributes:
        verdict: "refuted", "not applicable" or "undecided".
        reason: the evidence, one sentence.
        place: of the code that was suspected, or None.
    """

    verdict: Literal["refuted", "not applicable", "undecided"]
    reason: str
    place: Place | None = None


Answer: TypeAlias = "tuple[Claim, ...] | NotSo"
"""A test's answer: at least one claim, or why there is none."""


class Roots:
    """Ranks of causes: what is lower makes what is higher happen.

    A kernel that does not compile or launch has no numbers; deleted code, wrong addresses and missing barriers spoil
    values before any sum is formed; what softmax does with right scores comes last.
    """

    COMPILE = 0.0
    LAUNCH = 5.0
    DELETED = 10.0
    ADDRESS = 20.0
    ORDER = 30.0
    UNCOMPUTED = 40.0
    OPERAND = 50.0
    SUM = 60.0
    STATISTIC = 70.0
    MODEL = 80.0
    SUSPICION = 90.0
