"""What a diagnosis came to, before it is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wmmadiag.csource.dependences import Line
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.confirm import Confirmed
from wmmadiag.diagnose.effort import DEFAULT, effort_named
from wmmadiag.diagnose.evidence import KnownAhead
from wmmadiag.diagnose.pairing import Pair
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.provenance import ProvenanceRun
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.card import Case


@dataclass(slots=True)
class Examined:
    """What a diagnosis came to."""

    bench: Workbench  # runs cases with all checks
    baseline: dict[str, CaseRun]  # the cases as the source stands, by name
    failing: Case | None  # the case that was looked into; None where none fails
    traced: ProvenanceRun | None = None  # where the elements of that case come from; None where it cannot be followed
    untraced: str = ""  # why not, or ""
    steps: tuple[Tried, ...] = ()  # changes that each mend a part, before the last one
    answers: tuple[Confirmed, ...] = ()  # what was confirmed, the likeliest first
    # of answers that are two changes at once, what they are made of
    pairs: dict[Change, Pair] = field(default_factory=dict)
    helps: tuple[Tried, ...] = ()  # changes that mend a part only, where nothing mends all
    # lines that most of the likely changes are of, where nothing mends all; the likeliest first
    suspects: tuple[Line, ...] = ()
    ledger: Ledger = field(default_factory=lambda: Ledger(effort_named(DEFAULT)))  # of the search
    sources: Mapping[str, Source] = field(default_factory=dict)  # the files as they stand, by path
    ahead: KnownAhead | None = None  # changes of these files that are listed beside the search
    of_headers: bool = False  # whether most of the kernel is of headers in which nothing was tried
    passed_over: int = 0  # rivals of what mends that were not tried, since each is a dear compilation of its own
    problem: str = ""  # why nothing could be tried, or ""

    @property
    def in_vain(self) -> bool:
        """Whether changes were tried, and none mends all that fails."""
        return bool(self.ledger.tried) and not any(one.right for one in self.answers)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the card assumes; where all that fails may be right in what it leaves open, not that."""
        failing = [run for run in self.baseline.values() if not run.passed]
        meant = [one for run in failing if (one := run.unset) is not None]
        if not meant or len(meant) < len(failing):
            return self.bench.card.assumed
        said = " and ".join(f'{name} = "{value}"' for name, value in meant[0].parameters.items())
        return (*self.bench.card.assumed, f"{said} is not meant, which the compiled code has")

    @property
    def case(self) -> Case:
        """The case that was looked into."""
        assert self.failing is not None
        return self.failing

    @property
    def run(self) -> CaseRun:
        """That case as it ran."""
        return self.baseline[self.case.name]
