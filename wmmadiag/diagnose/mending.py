"""Looking for what mends a failing case: wrong numbers, what only a check complains of, what does not compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from wmmadiag.compile.languages import is_c_family
from wmmadiag.csource.dependences import Dependences, Line
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.certain import is_certain
from wmmadiag.diagnose.changes import Change, applied
from wmmadiag.diagnose.changes import Texts as Bytes
from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.evidence import clean, ranked_changes, suspicion_of, traced
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.launches import mending_launches, tried_launches
from wmmadiag.diagnose.names import puts_in_order
from wmmadiag.diagnose.nearby import at_findings
from wmmadiag.diagnose.operators.places import Range
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.screening import screened
from wmmadiag.diagnose.search import Step, Tried, helpful, search, suspects
from wmmadiag.diagnose.sliding import slid
from wmmadiag.diagnose.suspicion import marks
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.diagnose.two_bugs import as_one, mending_pairs, unseen_pairs
from wmmadiag.errors import UnsupportedError, WmmadiagError
from wmmadiag.provenance import ProvenanceRun
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.card import Case, LaunchShape
from wmmadiag.subject.symbols import rendered_entry

Progress: TypeAlias = Callable[[str], None]
"""Told what comes next."""
_PARTLY = 2
"""Changes that mend the failing case and not every one, from which the search goes on."""
_NEAREST = 4
"""Changes that mend the case, of which rivals are looked for nearby."""
_RIVALS = 256
"""How many of these are tried at most."""
_CHECKED = 128
"""Changes that are tried before those that do no harm are run with all checks."""
_PAIRED = 512
"""Pairs of changes that are tried where only a check shows what is wrong."""
_AGAIN = 0.5
"""Share of all changes until which the search for one that mends every case goes on."""


@dataclass(frozen=True, slots=True)
class _Base:
    """From where a search sets out."""

    trials: TrialBench  # of a source in which the `kept` changes are made, on a case that it is wrong in
    run: CaseRun  # of that case; followed: where its elements come from
    followed: ProvenanceRun | None
    kept: tuple[Step, ...] = ()  # changes that each mend a part

    @property
    def changes(self) -> tuple[Change, ...]:
        """Those that are kept."""
        return tuple(step.tried.ranked.change for step in self.kept)


def look_for_mends(found: Examined, cases: Sequence[Case], threads: int, tell: Progress) -> None:
    """Look for changes that mend the failing case, and confirm them on every case."""
    bench, case = found.bench, found.failing
    assert case is not None
    run = found.baseline[case.name]
    if not is_c_family(bench.source):
        found.problem = "the kernel is PTX, in which nothing is changed; the compiler that wrote it has the source"
        return
    if isinstance(run.error, UnsupportedError):  # a change that avoids what is not emulated mends nothing
        found.problem = run.error.message
        return
    if run.compilation is None:
        _refused(found, cases, tell)
        return
    if is_certain(run):
        return
    try:
        trials = TrialBench(
            bench.card, bench.variant, case, arch=bench.arch, seed=bench.seed, inputs=bench.inputs, threads=threads
        )
    except WmmadiagError as error:
        found.problem = error.message
        return
    _look(found, _Base(trials, run, found.traced), cases, tell)


def _look(found: Examined, base: _Base, cases: Sequence[Case], tell: Progress) -> bool:
    """Search from a base; whether what is left there is mended."""
    right = base.trials.wrong_before == base.trials.strays_before == 0
    return (_by_checks if right else _numbers)(found, base, cases, tell)


def _numbers(found: Examined, base: _Base, cases: Sequence[Case], tell: Progress) -> bool:
    """Search where the numbers are wrong, from a source in which some changes are kept; whether it is mended."""
    ledger, trials = found.ledger, base.trials
    launched: list[tuple[Tried, LaunchShape]] = []
    smaller: list[tuple[Tried, LaunchShape]] = []
    if base.kept:
        sources, order = ranked_changes(found.bench, base.run, base.followed, trials.texts)
    else:
        shape = found.bench.variant.launch or found.bench.card.launch
        tell("ranking the changes of the source, and trying other launches")
        with ThreadPoolExecutor(1) as beside:  # the engine runs while this thread reads
            outcomes = beside.submit(tried_launches, trials, shape)
            sources, order = ranked_changes(found.bench, base.run, base.followed, trials.texts)
            found.sources = sources
            suspicion = suspicion_of(base.run, base.followed, sources)
            launched, smaller = (
                mending_launches(outcomes.result(), suspicion, shape, fewer=fewer) for fewer in (False, True)
            )
    tried, answers = _tried(found, base, sources, order, cases, tell, launched)
    if any(one.right for one in answers):
        return True
    if not base.kept:
        found.suspects = suspects(order, ledger)
    done: set[Change] = set()
    if not base.kept and not answers and _by_pairs(found, base, tried, done, cases, tell, alike=True):
        return True
    if ledger.effort.wider and not ledger.spent and not base.kept:
        tell("ranking what is less likely")
        _, wider = ranked_changes(found.bench, base.run, base.followed, trials.texts, wider=True)
        more, others = _tried(found, base, sources, wider[: ledger.effort.wider], cases, tell, ())
        ledger.complete = ledger.complete and len(more) == len(wider)
        if any(one.right for one in others):
            return True
        tried, answers = tried + more, answers + others
    if len(base.kept) + 1 >= ledger.effort.bugs:
        return any(one.right for one in _confirmed(found, base, [], cases, tell, smaller))
    helps = helpful(trials, tried, ledger, tell)
    if not base.kept:
        found.helps = tuple(helps)
    for further in _further(found, base, sources, answers, helps, cases):
        if ledger.spent:
            break
        if _look(found, further, cases, tell):
            return True
    if base.kept:
        return False
    if not answers and _by_pairs(found, base, tried, done, cases, tell):
        return True
    # Fewer threads hide what they do to each other: that is an answer where the source has none.
    return any(one.right for one in _confirmed(found, base, [], cases, tell, smaller))


def _by_pairs(
    found: Examined,
    base: _Base,
    tried: Sequence[Tried],
    done: set[Change],
    cases: Sequence[Case],
    tell: Progress,
    *,
    alike: bool = False,
) -> bool:
    """Search for two changes at once; whether two mend every case.

    Args:
        done: pairs that were tried before; those that are now are put there.
        alike: those alone that do the same at two places.
    """
    ledger = found.ledger
    made = mending_pairs(base.trials, tried, ledger.effort.pairs, ledger, tell, done=done, alike=alike)
    found.pairs |= {pair.both: pair for pair, _ in made}
    return any(one.right for one in _confirmed(found, base, [one for _, one in made], cases, tell, ()))


def _tried(
    found: Examined,
    base: _Base,
    sources: Mapping[str, Source],
    order: Sequence[Ranked],
    cases: Sequence[Case],
    tell: Progress,
    launched: Sequence[tuple[Tried, LaunchShape]],
) -> tuple[list[Tried], list[Confirmed]]:
    """Changes tried in their order, with what was confirmed of them: until one is right, or nothing more may be
    tried."""
    ledger, trials = found.ledger, base.trials
    tried: list[Tried] = []
    answers: list[Confirmed] = []
    while True:
        done = {one.ranked.change for one in tried}
        more = search(trials, [one for one in order if one.change not in done], ledger, tell)
        more += _beside(found, base, sources, more, order)
        tried += more
        right = [one for one in more if one.outcome.verdict == "right"]
        right = slid(trials, rendered_entry(found.bench.card, trials.case, found.bench.variant), right, ledger)
        right = screened(trials, right, _others(found, base, cases), ledger)
        answers += _confirmed(found, base, right, cases, tell, launched)
        # What mends this case and not every one says nothing of what was not tried.
        if any(one.right for one in answers) or ledger.spent or not more:
            return tried, answers
        if ledger.changes > ledger.effort.changes * _AGAIN:
            return tried, answers
        launched = ()


def _others(found: Examined, base: _Base, cases: Sequence[Case]) -> list[Case]:
    """The cases that ran, but for the bench's own: those that are wrong as the source stands first."""
    ran = [case for case in _affordable(found, cases) if case.name != base.trials.case.name]
    return sorted(ran, key=lambda case: found.baseline[case.name].passed)


def _beside(
    found: Examined, base: _Base, sources: Mapping[str, Source], tried: Sequence[Tried], order: Sequence[Ranked]
) -> list[Tried]:
    """What was not tried of the lines beside what mends the case: where a value is made, and where it is used; of what
    puts accesses in order, where these stand.

    Before a change is the answer, its nearest rivals are tried, however unlikely they seemed: those of the second
    round, too.
    """
    ledger, trials = found.ledger, base.trials
    right = [one.ranked for one in tried if one.outcome.verdict == "right"]
    if not right or ledger.spent:
        return []
    lines = [one.line for one in right[:_NEAREST]]
    if any(puts_in_order(one.change) for one in right[:_NEAREST]):
        lines += [mark.line for mark in marks(base.run.findings, None, None)]
    done, near = {one.ranked.change for one in tried}, Dependences(sources).beside(lines)
    rest = [one for one in order if one.line in near and one.change not in done][:_RIVALS]
    if ledger.effort.wider:
        places = [_bytes_of(sources, line) for line in sorted(near | set(lines)) if line[0] in sources]
        _, wider = ranked_changes(found.bench, base.run, base.followed, trials.texts, wider=True, places=places)
        rest += wider[: _RIVALS // 2]
    outcomes = trials.try_batch([one.change for one in rest])
    ledger.note(outcomes)
    return [Tried(one, outcome) for one, outcome in zip(rest, outcomes, strict=True)]


def _bytes_of(sources: Mapping[str, Source], line: Line) -> Range:
    """The bytes of a line."""
    lines = sources[line[0]].data.split(b"\n")[: line[1]]
    end = sum(len(one) + 1 for one in lines) - 1
    return line[0], end - len(lines[-1]), end


def _confirmed(
    found: Examined,
    base: _Base,
    right: Sequence[Tried],
    cases: Sequence[Case],
    tell: Progress,
    launched: Sequence[tuple[Tried, LaunchShape]],
) -> list[Confirmed]:
    """What is right on one case, held to all; it is the answer where it is right in all, or nothing else is known."""
    if not right and not launched:
        return []
    tell(f"confirming {len(right) + len(launched):,} changes")
    answers = confirmed(
        found.bench, _affordable(found, cases), found.baseline, right, base.changes, base.trials.texts,
        found.ledger.effort.confirmed, launched,
    )  # fmt: skip
    if any(one.right for one in answers) or (answers and not found.answers):
        found.answers, found.steps = tuple(answers), base.kept
    return answers


def _further(
    found: Examined,
    base: _Base,
    sources: Mapping[str, Source],
    answers: Sequence[Confirmed],
    helps: Sequence[Tried],
    cases: Sequence[Case],
) -> Iterator[_Base]:
    """Where to go on from: what mends the case, with one that it leaves wrong; then what mends a part of the case."""
    partly = [one for one in answers if one.shape is None and _no_worse(found, one)]
    for one in partly[:_PARTLY]:
        left = one.runs[-1].result
        case = next(case for case in cases if case.name == left.case)
        yield from _keeping(found, base, Step(one.tried, sources), case, left.seed)
    for helping in helps:
        yield from _keeping(found, base, Step(helping, sources), base.trials.case)


def _no_worse(found: Examined, one: Confirmed) -> bool:
    """Whether the case that a change leaves wrong was as wrong without it."""
    last = one.runs[-1]
    before = found.baseline.get(last.result.case)
    if before is None or last.result.distribution not in (before.result.distribution, ""):
        return False
    return last.wrong_count <= before.wrong_count


def _keeping(found: Examined, base: _Base, step: Step, case: Case, seed: int | None = None) -> Iterator[_Base]:
    """The base with one more change kept; nothing where it cannot be."""
    try:
        trials = base.trials.keeping(step.tried.ranked.change, case=case, seed=seed)
    except (WmmadiagError, ValueError):
        return
    run = found.bench.run(case, base.trials.files(step.tried.ranked.change), seed=seed)
    followed, _ = traced(found.bench, run)
    yield _Base(trials, run, followed, (*base.kept, step))


def _by_checks(found: Examined, base: _Base, cases: Sequence[Case], tell: Progress) -> bool:
    """Search where all numbers are right, and a check shows what another order or placement would spoil."""
    ledger, trials = found.ledger, base.trials
    sources, order = ranked_changes(found.bench, base.run, base.followed, trials.texts)
    if not base.kept:
        found.sources = sources
    waiting, checks = at_findings(order, base.run, sources), ledger.effort.checked
    kept: list[Ranked] = []
    while waiting and checks > 0 and not ledger.spent:
        part, waiting = waiting[:_CHECKED], waiting[_CHECKED:]
        ledger.complete = not waiting
        bare = trials.try_batch([one.change for one in part])
        ledger.note(bare)
        harmless = [Tried(one, outcome) for one, outcome in zip(part, bare, strict=True) if _harmless(outcome.verdict)]
        if _by_check(found, base, harmless[:checks], cases, tell):
            return True
        checks -= len(harmless)
        kept += [one for one, outcome in zip(part, bare, strict=True) if outcome.verdict != "refused"]
    return not ledger.spent and _pairs_by_check(found, base, kept, cases, tell)


def _pairs_by_check(
    found: Examined, base: _Base, kept: Sequence[Ranked], cases: Sequence[Case], tell: Progress
) -> bool:
    """The same at two places, where one alone takes no finding away; whether two mend every case."""
    ledger, trials = found.ledger, base.trials
    pairs = unseen_pairs(kept, trials.texts, min(_PAIRED, ledger.effort.pairs))
    outcomes = trials.try_pairs([(one.first.change, one.second.change) for one in pairs])
    ledger.note(outcomes)
    known = {one.change: one for one in outcomes}
    harmless = [one for one in pairs if _harmless(known[one.both].verdict)][: ledger.effort.checked]
    found.pairs |= {one.both: one for one in harmless}
    return _by_check(found, base, [Tried(as_one(one), known[one.both]) for one in harmless], cases, tell)


def _by_check(found: Examined, base: _Base, harmless: Sequence[Tried], cases: Sequence[Case], tell: Progress) -> bool:
    """Changes that leave all numbers right, run with all checks; whether one mends every case."""
    right: list[Tried] = []
    for one in harmless:
        tell(f"checking changes of {Path(one.ranked.line[0]).name}:{one.ranked.line[1]}")
        if clean(found.bench.run(base.trials.case, base.trials.files(one.ranked.change))):
            right.append(one)
    return any(one.right for one in _confirmed(found, base, right, cases, tell, ()))


def _harmless(verdict: str) -> bool:
    return verdict in ("right", "same")


def _refused(found: Examined, cases: Sequence[Case], tell: Progress) -> None:
    """Search where the source does not compile: each change is compiled by itself, those near the refusal first."""
    bench, ledger = found.bench, found.ledger
    try:
        texts = {str(bench.source): bench.source.read_bytes()}
        sources, order = ranked_changes(bench, found.run, found.traced, texts)
    except (OSError, ValueError, WmmadiagError) as error:
        found.problem = str(error)
        return
    found.sources = sources
    ledger.complete = False
    for one in order[: ledger.effort.singles]:
        tell(f"trying changes of line {one.line[1]}")
        run = bench.run(found.case, _texts(applied(texts, [one.change])))
        ledger.changes += 1
        if run.passed:
            outcome = _outcome_of(one.change, run)
            answers = confirmed(bench, cases, found.baseline, [Tried(one, outcome)], (), texts, ledger.effort.confirmed)
            if any(answer.right for answer in answers):
                found.answers = tuple(answers)
                return


def _outcome_of(change: Change, run: CaseRun) -> Outcome:
    return Outcome(change, "right", None, 0, work=run.result.warp_instructions)


def _texts(made: Bytes) -> dict[Path, str]:
    return {Path(file).resolve(): text.decode("utf-8", "surrogateescape") for file, text in made.items()}


def _affordable(found: Examined, cases: Sequence[Case]) -> list[Case]:
    """The cases that ran as the source stands, the failing one first: a change is held to these."""
    ran = [case for case in cases if case.name in found.baseline]
    return sorted(ran, key=lambda case: case.name != found.case.name)
