"""A diagnosis as data: what is broken, where, how we know, what it is not, and what was tried. Needs no NumPy.

`wmmadiag.diagnose` makes it; every format is a pure function of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wmmadiag.compare.observation import Observation
from wmmadiag.results.model import Problem, ReportedFinding

Outcome: TypeAlias = Literal["right", "diagnosed", "undecided", "error"]
"""right: no case is wrong and no check found an error. undecided: wrong, but no cause was shown. error: nothing ran,
since the compiler or the launch refuses it."""

Verdict: TypeAlias = Literal["proven", "likely", "refuted", "undecided"]
"""proven: with this change, and nothing else, everything that ran is right, and no change elsewhere does as well; or
the run itself is the proof: what the compiler, ptxas or the launch refuses. likely: a change mends everything, but
something that nobody said was assumed, or a change elsewhere mends it as well."""

FixStatus: TypeAlias = Literal["verified", "improves", "suggestion"]
"""verified: applied to a copy, compiled, run: right in every case tried, with no new finding."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of the user's source around a place.

    Attributes:
        file: as the user gave it.
        first: number of the first line.
        lines: their text, without line ends.
        marked: numbers of the lines that the place means.
    """

    file: str
    first: int
    lines: tuple[str, ...]
    marked: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """A suggested change.

    Attributes:
        summary: what it does, one clause: "pass 72 as the leading dimension".
        diff: unified diff against the user's source; "" where only words can say it (host code, launch, card).
        status: what trying it showed.
        wrong_before, wrong_after: wrong elements over the cases tried; `wrong_after` None where it was not tried.
        max_difference_before, max_difference_after: largest absolute difference from the oracle likewise; NaN counts
            as infinite.
        tried: names of the cases that ran with it.
        note: why it is only a suggestion, or what it leaves.
    """

    summary: str
    diff: str = ""
    status: FixStatus = "suggestion"
    wrong_before: int = 0
    wrong_after: int | None = None
    max_difference_before: float = 0.0
    max_difference_after: float | None = None
    tried: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause that explains wrong elements.

    Attributes:
        name: id of its class, "leading-dimension"; see `diagnose.names`.
        verdict: "proven" or "likely"; "undecided" for what was seen and nothing has shown to be the cause.
        sentence: the cause in one sentence.
        place: "file:line:column" in the user's source; "" where no line can be named.
        other: a second line of a pair, or "".
        excerpt: the code there, or None.
        explains, of: wrong elements that it explains, of how many.
        evidence: how we know, one line each, the strongest first.
        consequences: what else was seen that follows from it, one line each.
        fix: the change that was tried, or a suggestion, or None.
        readings: further changes of the same place that make the failing case right as well, one line each.
        share: likelihood of its place among all places where a change mends it, or was not tried; 0 to 1.
    """

    name: str
    verdict: Verdict
    sentence: str
    place: str = ""
    other: str = ""
    excerpt: Excerpt | None = None
    explains: int = 0
    of: int = 0
    evidence: tuple[str, ...] = ()
    consequences: tuple[str, ...] = ()
    fix: Fix | None = None
    readings: tuple[str, ...] = ()
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Tested:
    """What was tested in this run beside the causes, and what became of it.

    Attributes:
        name: of a check, or of a class of causes; `title`: what it says, one clause.
        verdict: "refuted" by a check that watched the whole run and found nothing; "undecided" where changes were tried
            and none mends the kernel.
        reason: what tested it, one sentence.
        place: of the code that it is about, or "".
    """

    name: str
    title: str
    verdict: Verdict
    reason: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """What a diagnosis took, in units that are the same on every machine.

    Attributes:
        effort: its name.
        changes: of the source that were tried; `refused`: of these, by the compiler.
        instructions: emulated warp instructions of the trials.
        complete: whether every change that there is was tried.
        filled: what was tried in places that are filled when the program runs, besides.
    """

    effort: str = ""
    changes: int = 0
    refused: int = 0
    instructions: int = 0
    complete: bool = False
    filled: int = 0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that a diagnosis of one variant of one kernel found out.

    Attributes:
        name, card, source: of the card; paths as the user gave them.
        operation: what the kernel should compute.
        arch, backend, variant: what it ran as.
        case: the case that was looked into; "" where none failed.
        symbols: of that case.
        outcome: see `Outcome`.
        headline: one sentence, for people who read no further.
        cases: status of every case tried, by name.
        causes: the root first.
        tested: what was ruled out, and by what; then what was tried in vain.
        symptoms: what the comparison saw, as structure, one line each.
        observations: the numbers behind them.
        findings: of the checks, in that case.
        problem: why the case did not end with numbers, or None.
        unseen: what this run could not see, one line each (a GPU alone, provenance not followed, …).
        seconds: wall time.
        work: what the search took.
        repeat: the command that repeats it.
        assumed: what nobody said and the diagnosis rests on, one clause each.
    """

    name: str
    card: str
    source: str
    operation: str
    arch: str
    backend: str
    variant: str
    case: str
    outcome: Outcome
    headline: str
    symbols: Mapping[str, int | float] = field(default_factory=dict)
    cases: Mapping[str, str] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()
    tested: tuple[Tested, ...] = ()
    symptoms: tuple[str, ...] = ()
    observations: tuple[Observation, ...] = ()
    findings: tuple[ReportedFinding, ...] = ()
    problem: Problem | None = None
    unseen: tuple[str, ...] = ()
    seconds: float = 0.0
    work: Work = field(default_factory=Work)
    repeat: str = ""
    assumed: tuple[str, ...] = ()

    @property
    def told_by_headline(self) -> bool:
        """The headline already says the only cause's sentence."""
        return len(self.causes) == 1 and self.causes[0].sentence.rstrip(".") in self.headline

    @property
    def title(self) -> str:
        """The headline; where one cause is all, its sentence without the place, which stands beside it."""
        sentence = self.causes[0].sentence if self.told_by_headline else ""
        return sentence[:1].upper() + sentence[1:] if sentence else self.headline

    @property
    def exit_code(self) -> int:
        """1 wrong, and a cause was named; 3 wrong, but undecided; 2 configuration or compilation; 0 right."""
        return {"right": 0, "diagnosed": 1, "error": 2, "undecided": 3}[self.outcome]

    def _repr_html_(self) -> str:
        from wmmadiag.report.notebook import diagnosis_html

        return diagnosis_html(self)
