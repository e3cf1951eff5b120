"""From what was examined to a `Diagnosis`: what is broken, how that is known, what it is not, what mends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wmmadiag.checks.finding import Level
from wmmadiag.checks.run import emulator_of, reported
from wmmadiag.diagnose.causes import causes_of
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.names import NAMES, UNKNOWN, name_of
from wmmadiag.diagnose.ranking import line_of
from wmmadiag.diagnose.symptoms import symptoms
from wmmadiag.place import Place
from wmmadiag.results.diagnosis import Cause, Diagnosis, Outcome, Tested, Work
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.card import Card
from wmmadiag.subject.together import Together

if TYPE_CHECKING:
    from wmmadiag.diagnose.examined import Examined
    from wmmadiag.diagnose.search import Ledger
    from wmmadiag.diagnose.trials.outcomes import Outcome as TrialOutcome


def described(found: Examined, backend: str, repeat: str, seconds: float) -> Diagnosis:
    """The diagnosis as data.

    Args:
        repeat: the command that repeats it.
    """
    bench = found.bench
    first = found.baseline[found.failing.name] if found.failing is not None else None
    causes = tuple(causes_of(found, first)) if first is not None else ()
    assumed = (*found.assumed, *_empty_headers(first))
    outcome = _outcome(first, causes, assumed)
    headline = _headline(outcome, causes, first, found)
    if outcome == "undecided":
        unknown = not causes or causes[0].verdict == "undecided"
        headline = _if_meant(headline, bench.card, unknown=unknown)
    ledger = found.ledger
    return Diagnosis(
        name=bench.card.name,
        card=str(bench.card.path),
        source=str(bench.source),
        operation=bench.card.computes.operation,
        arch=bench.arch,
        backend=backend,
        variant=bench.variant.name,
        case=found.failing.name if found.failing is not None else "",
        outcome=outcome,
        headline=headline,
        symbols=first.result.symbols if first is not None else {},
        cases={name: run.result.status for name, run in found.baseline.items()},
        causes=causes,
        tested=tuple(_tested(found, first)) if first is not None else (),
        symptoms=tuple(_symptoms(found, first, causes)) if first is not None else (),
        observations=first.result.observations if first is not None else (),
        findings=tuple(map(reported, first.findings)) if first is not None else (),
        problem=first.result.problem if first is not None else None,
        unseen=tuple(_unseen(found)) if first is not None else (),
        seconds=seconds,
        work=_work(ledger),
        repeat=repeat,
        assumed=assumed,
    )


def _empty_headers(first: CaseRun | None) -> list[str]:
    """Headers that are not there: what they define may be another than what the compiler took."""
    notes = first.compilation.notes if first is not None and first.compilation is not None else ()
    return [one.message for one in notes if one.kind == "stub-header"]


def _outcome(first: CaseRun | None, causes: Sequence[Cause], assumed: Sequence[str]) -> Outcome:
    if first is None:
        return "right"
    if first.result.status == "error":  # no kernel ran that could be wrong, whatever mends it
        return "error"
    if causes and (causes[0].verdict == "proven" or (causes[0].verdict == "likely" and not assumed)):
        return "diagnosed"
    return "undecided"


def _headline(outcome: Outcome, causes: Sequence[Cause], first: CaseRun | None, found: Examined) -> str:
    if outcome == "right":
        count = len(found.baseline)
        return f"nothing is wrong: {count} case{'s' * (count != 1)} within the bound, and no check found an error"
    if causes and causes[0].verdict in ("proven", "likely"):
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        return f"{causes[0].place}: {causes[0].sentence}{more}".removeprefix(": ")
    if first is not None and first.result.problem is not None and first.verdict is None:
        return f"{first.result.problem.place}: {first.result.problem.message}".removeprefix(": ")
    if causes and causes[0].name == UNKNOWN.id:
        return causes[0].sentence
    return f"{UNKNOWN.title}{f': {found.problem}' if found.problem else ''}"


def _if_meant(headline: str, card: Card, *, unknown: bool) -> str:
    """The headline of a kernel that may be right as something else: where nothing mends it, or much is amiss."""
    derived = card.derived
    if derived is None or "operation" in derived.stated or not (unknown or derived.doubt):
        return headline
    return f"if it computes {card.computes.operation}, which nobody said: {headline}"


def _tested(found: Examined, first: CaseRun) -> Iterator[Tested]:
    """Checks that watched the whole run and found nothing; then the classes of changes that were tried in vain."""
    if first.verdict is not None and first.context is not None:
        spoken = {one.check for one in first.findings if one.level is not Level.ADVICE}
        for check in found.bench.checks:
            if check.name not in spoken:
                yield Tested(check.name, check.summary, "refuted", f"the check {check.name} watched the whole run")
    if any(one.right for one in found.answers):
        return
    counts: Counter[str] = Counter()
    for (operator, role), count in found.ledger.tried.items():
        counts[name_of(Change(operator, (), "static", role, "")).id] += count
    for name in NAMES:
        if counts[name.id]:
            changes = f"{counts[name.id]:,} change{'s' * (counts[name.id] != 1)}"
            yield Tested(name.id, name.title, "undecided", f"{changes} of that kind tried, and none mends the case")


def _symptoms(found: Examined, first: CaseRun, causes: Sequence[Cause]) -> Iterator[str]:
    yield from symptoms(first)
    for one in found.traced.disagreements[:3] if found.traced is not None and first.verdict is not None else ():
        yield f"{one.place}: {one.message}"
    if causes and causes[0].verdict != "undecided":
        return
    for helping in found.helps[:2]:
        yield f"{Place(*helping.ranked.line)}: {helping.ranked.change.note} {_helps(helping.outcome)}"


def so_far(found: Examined) -> str:
    """What a search that was interrupted has come to, in a sentence."""
    ledger = found.ledger
    filled = f" and {ledger.filled:,} values in them" if ledger.filled else ""
    tried = f"so far: {found.bench.card.name} / {found.case.name} is wrong; changes tried: {ledger.changes:,}{filled}"
    best = ledger.best.change if ledger.best is not None else None
    if answer := next((one.tried for one in found.answers if one.right), None):
        several = "; ".join(_placed(one.ranked.change, found) for one in (*found.steps, answer))
        return f"{tried}; right on every case that was run: {several}"
    if ledger.mends:
        return f"{tried}; right on this case, and not held to the others yet: {_placed(ledger.mends[0], found)}"
    if ledger.best is not None and isinstance(best, Change):
        return f"{tried}, of which none mends it; {_placed(best, found)} {_helps(ledger.best)}"
    return f"{tried}, of which none mends it" if ledger.changes else tried


def _placed(change: Change, found: Examined) -> str:
    known = change.edits and change.edits[0].file in found.sources
    return f"{Place(*line_of(change, found.sources))}: {change.note}" if known else change.note


def _helps(outcome: TrialOutcome) -> str:
    if outcome.astray > 0:
        mended = f", and makes {outcome.mended:,} wrong elements right" if outcome.mended else ""
        return f"takes away {outcome.astray:.0%} of the accesses outside of arrays that were looked at{mended}"
    if not outcome.mended:
        return "lets the kernel end, with wrong numbers"
    broken = f"{outcome.broken:,} wrong" if outcome.broken else "none wrong"
    return f"makes {outcome.mended:,} wrong elements right and {broken}"


def _unseen(found: Examined) -> Iterator[str]:
    assert found.failing is not None
    first = found.baseline[found.failing.name]
    if isinstance(first.kernel, Together):
        yield "where elements come from: several kernels run one after the other"
    elif first.kernel is not None and emulator_of(first.kernel) is None:
        yield "accesses, races and the origin of values: this run shows outputs only"
    elif found.untraced and first.verdict is not None:
        yield f"where elements come from: {found.untraced}"
    if found.traced is not None:
        yield from found.traced.notes
    if found.problem:
        yield f"changes of the source: {found.problem}"


def _work(ledger: Ledger) -> Work:
    instructions = ledger.instructions + ledger.filling + ledger.watched
    return Work(ledger.effort.name, ledger.changes, ledger.refused, instructions, ledger.complete, ledger.filled)
