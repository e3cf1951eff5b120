"""What a failing run shows, and how every change of its source ranks by that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from wmmadiag.checks.races import LATENT
from wmmadiag.compile import ptx_scan
from wmmadiag.csource.dependences import Dependences, Line
from wmmadiag.csource.tree import Source, parse
from wmmadiag.diagnose.changes import Change, Texts
from wmmadiag.diagnose.operators.places import Range
from wmmadiag.diagnose.operators.registry import changes as changes_of
from wmmadiag.diagnose.ranking import Ranked, further, suspected, weighed
from wmmadiag.diagnose.suspicion import Suspicion, marks, pattern, suspicion
from wmmadiag.errors import WmmadiagError
from wmmadiag.processes.collection import paused_collection
from wmmadiag.provenance import ProvenanceRun, trace
from wmmadiag.provenance.expected import has_products
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.binding import bind
from wmmadiag.subject.symbols import rendered_entries


def clean(run: CaseRun) -> bool:
    """Whether a run passes, and not only because the lanes of a warp happened to run together."""
    return run.passed and not any(one.kind in LATENT for one in run.findings)


def traced(bench: Workbench, run: CaseRun) -> tuple[ProvenanceRun | None, str]:
    """Where the elements of a case come from, or why that is not known."""
    kernel = run.emulated
    if kernel is None:
        return None, "only the emulator can follow elements" if run.kernel is not None else ""
    if run.bound is None or run.verdict is None:
        return None, "the kernel did not run to its end"
    if not has_products(bench.card.computes.operation):
        return None, "which products the card's operation is made of is not known"
    old = run.bound
    try:
        return trace(bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution), kernel), ""
    except WmmadiagError as error:
        return None, error.message


@dataclass(frozen=True, slots=True)
class ChangeListing:
    """Changes that are asked for: those of the first round, or of the second beside them."""

    texts: Texts  # the source as it ran
    entries: str | tuple[str, ...]  # the kernels as the card names them
    compiled: Set[Line]  # the lines that the compiler made instructions of
    known: tuple[Change, ...] | None = None  # of the second round, what the first one has
    places: tuple[Range, ...] | None = None  # the parts of files that may be changed; None: all

    @paused_collection()
    def weighed(self) -> list[Ranked]:
        """The changes, scored by what is known of them before any run."""
        wider, places = self.known is not None, self.places
        given = changes_of(
            self.texts, self.entries, places=places, wider=wider, known=self.known, compiled=self.compiled
        )
        return weighed(list(given), parsed(self.texts), less=further() if wider else 0.0)


class KnownAhead(Protocol):
    """Knows perhaps what is asked for; `ahead.ListedAhead` does."""

    def taken(self, asked: ChangeListing) -> list[Ranked] | None:
        """What `asked.weighed()` would be; None where that is not known."""


def asked_of(bench: Workbench, run: CaseRun, texts: Texts) -> ChangeListing:
    """The changes of the first round of a source."""
    entries = rendered_entries(bench.card, bench.card.case(run.result.case), bench.variant)
    return ChangeListing(texts, entries, compiled_lines(run))


def ranked_changes(
    bench: Workbench,
    run: CaseRun,
    followed: ProvenanceRun | None,
    texts: Texts,
    *,
    known: Sequence[Ranked] | None = None,
    places: Iterable[Range] | None = None,
    ahead: KnownAhead | None = None,
) -> tuple[Mapping[str, Source], list[Ranked]]:
    """Every change of a source, the likeliest first.

    Args:
        run: the failing case; followed: where its elements come from.
        texts: the source as it ran.
        known: the changes of the first round: those of the second are wanted, see `operators.registry`.
        places: the parts of files that may be changed; None: all.
        ahead: knows them perhaps.
    """
    asked = replace(
        asked_of(bench, run, texts),
        known=None if known is None else tuple(one.change for one in known),
        places=None if places is None else tuple(places),
    )
    sources = parsed(texts)
    seen = suspicion_of(run, followed, sources)
    return sources, suspected((ahead.taken(asked) if ahead is not None else None) or asked.weighed(), seen)


def parsed(texts: Texts) -> dict[str, Source]:
    """The trees of some files."""
    return dict(_parsed(tuple(texts.items())))


@lru_cache(maxsize=4)  # what is asked of some texts time and again is read off the same trees
def _parsed(texts: tuple[tuple[str, bytes], ...]) -> Mapping[str, Source]:
    return {file: parse(text, file) for file, text in texts}


def compiled_lines(run: CaseRun) -> Set[Line]:
    """The lines that the compiler made instructions of; none where it made nothing."""
    return ptx_scan.lines(run.compilation.ptx) if run.compilation is not None else set()


def suspicion_of(run: CaseRun, followed: ProvenanceRun | None, sources: Mapping[str, Source]) -> Suspicion:
    """How suspicious the lines of a source are by what a failing run of it showed."""
    fault = run.error.place if run.error is not None else None
    return suspicion(marks(run.findings, followed, fault), Dependences(sources), pattern(run))
