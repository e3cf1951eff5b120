"""From a card to a diagnosis: run, look, rank, try, confirm, describe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.checks.races import LATENT
from wmmadiag.checks.run import emulator_of
from wmmadiag.compile.languages import is_c_family
from wmmadiag.csource.dependences import Dependences
from wmmadiag.csource.tree import Source, parse
from wmmadiag.diagnose.certain import is_certain
from wmmadiag.diagnose.changes import Change, applied
from wmmadiag.diagnose.changes import Texts as Bytes
from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.describe import described
from wmmadiag.diagnose.effort import DEFAULT, Effort, effort_named
from wmmadiag.diagnose.launches import mending_launches
from wmmadiag.diagnose.operators.registry import changes as changes_of
from wmmadiag.diagnose.ranking import Ranked, ranked
from wmmadiag.diagnose.search import Ledger, Step, Tried, helpful, search
from wmmadiag.diagnose.sliding import slid
from wmmadiag.diagnose.suspicion import Suspicion, marks, suspicion
from wmmadiag.diagnose.trials import team
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.errors import BudgetError, UnsupportedError, WmmadiagError
from wmmadiag.place import own_place
from wmmadiag.provenance import ProvenanceRun, trace
from wmmadiag.provenance.expected import has_products
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card import Card, Case, LaunchShape
from wmmadiag.subject.readings import card_read_as
from wmmadiag.subject.repeating import options, repeating
from wmmadiag.subject.symbols import rendered_entry

if TYPE_CHECKING:
    from wmmadiag.report.diagnosis import Diagnosis
    from wmmadiag.subject.compiling import SubjectCompiler

_SLOW = 40_000_000
"""Warp instructions of the cases that ran, from which on larger ones are left for later once one has failed."""

Progress = Callable[[str], None]
"""Told what comes next."""


@dataclass(slots=True)
class Examined:
    """What a diagnosis came to.

    Attributes:
        bench: runs cases with all checks.
        baseline: the cases as the source stands, by name.
        failing: the case that was looked into; None where none fails.
        traced: where the elements of that case come from; None where it cannot be followed.
        untraced: why not, or "".
        steps: changes that each mend a part, before the last one.
        answers: what was confirmed, the likeliest first.
        helps: changes that mend a part only, where nothing mends all.
        ledger: of the search.
        problem: why nothing could be tried, or "".
    """

    bench: Workbench
    baseline: dict[str, CaseRun]
    failing: Case | None
    traced: ProvenanceRun | None = None
    untraced: str = ""
    steps: tuple[Step, ...] = ()
    answers: tuple[Confirmed, ...] = ()
    helps: tuple[Tried, ...] = ()
    ledger: Ledger = field(default_factory=lambda: Ledger(effort_named(DEFAULT)))
    sources: Mapping[str, Source] = field(default_factory=dict)
    problem: str = ""


def diagnose_card(
    card: Card,
    *,
    arch: str = "sm_90",
    backend: str = "emulator",
    variant: str = "",
    cases: Sequence[str] | None = None,
    seed: int | None = None,
    inputs: str = "",
    checks: str = "default",
    effort: str = DEFAULT,
    threads: int = 0,
    compiler: SubjectCompiler | None = None,
    progress: Progress | None = None,
    words: Sequence[str] = (),
) -> Diagnosis:
    """Find out why a kernel is wrong.

    Args:
        arch: target, "sm_90".
        backend: "emulator", "gpu" or "both": where cases are run and judged; changes are tried on the emulator.
        variant: which; empty for the first that fails, or the card's first.
        cases: names to take; None for all.
        seed, inputs: in place of the card's.
        checks: of `wmmadiag.checks`.
        effort: how much is tried, see `effort`.
        threads: that try; 0: as many as this process may use. No answer depends on it.
        compiler: compiles the source as it stands.
        progress: told what comes next.
        words: further options of the command line that repeats it, such as the compiler's.

    Raises:
        ConfigurationError: an unknown variant, case, check, backend or effort.
    """
    started = time.perf_counter()
    tell = progress or (lambda _: None)
    chosen = [card.variant(variant)] if variant else list(card.variants)
    names = None if cases is None else [card.case(name).name for name in cases]
    used = effort_named(effort)
    examined: Examined | None = None
    for one in chosen:
        bench = case_bench(card, one.name, arch, backend, checks, seed, inputs, compiler)
        examined = examine(bench, names, used, threads, tell)
        if examined.failing is not None:
            break
    assert examined is not None
    bench = examined.bench
    repeat = repeating(
        "diagnose", bench.card, bench.variant, arch=bench.arch, cases=names, seed=seed, inputs=inputs,
        further=(
            *options({"backend": (backend, "emulator"), "checks": (checks, "default")}),
            *options({"effort": (effort, DEFAULT)}),
            *words,
        ),
    )  # fmt: skip
    return described(examined, backend, repeat, time.perf_counter() - started)


def case_bench(
    card: Card,
    variant: str,
    arch: str,
    backend: str,
    checks: str,
    seed: int | None,
    inputs: str,
    compiler: SubjectCompiler | None,
) -> Workbench:
    """What runs the cases of a variant with all checks."""
    from wmmadiag import backends
    from wmmadiag.checks import native_names, select
    from wmmadiag.subject.compiling import SubjectCompiler

    watched = select(checks)
    loader = backends.backend(backend, None, native_names(watched))
    return Workbench(
        card, card.variant(variant), arch, loader, watched, compiler or SubjectCompiler(), seed=seed, inputs=inputs
    )


def examine(bench: Workbench, names: Sequence[str] | None, effort: Effort, threads: int, tell: Progress) -> Examined:
    """Run the cases of a variant; where one fails, look for what mends it."""
    cases = [case for case in bench.cases() if names is None or case.name in names]
    baseline: dict[str, CaseRun] = {}
    failing: Case | None = None
    for case in cases:
        tell(f"running {bench.card.name} / {case.name}")
        baseline[case.name] = _run(bench, case)
        failing = _worst(cases, baseline)
        if failing is not None and _slow(baseline):
            break
    found = Examined(bench, baseline, failing)
    if failing is None:
        return found
    team.start(threads)
    found.ledger = Ledger(effort)
    found.traced, found.untraced = _traced(bench, baseline[failing.name])
    _search(found, cases, threads, tell)
    return found


def _worst(cases: Sequence[Case], baseline: Mapping[str, CaseRun]) -> Case | None:
    """The smallest case that fails; one with wrong numbers before one that only a check complains of."""
    ran = [case for case in cases if case.name in baseline]
    failed = [case for case in ran if not baseline[case.name].passed] or [
        case for case in ran if not _clean(baseline[case.name])
    ]
    return next((case for case in failed if baseline[case.name].wrong_count), failed[0] if failed else None)


def _clean(run: CaseRun) -> bool:
    """Whether a run passes, and not only because the lanes of a warp happened to run together."""
    return run.passed and not any(one.kind in LATENT for one in run.findings)


def _run(bench: Workbench, case: Case) -> CaseRun:
    """Run a case; where nobody said how matrices are stored, as the result fits."""
    run = bench.run(case)
    if run.bound is None and run.error is None:  # what was asked for is wrong, not the kernel
        bind(bench.card, case, bench.variant, seed=bench.seed, inputs=bench.inputs)
    meant = run.verdict.convention if run.verdict is not None else None
    if bench.card.open_conventions and meant is not None and meant.assumable:
        bench.assume(card_read_as(bench.card, meant.reading))
        run = bench.run(case)
    return run


def _slow(baseline: Mapping[str, CaseRun]) -> bool:
    if any(isinstance(run.error, BudgetError) for run in baseline.values()):
        return True
    return sum(run.result.warp_instructions for run in baseline.values()) > _SLOW


def _traced(bench: Workbench, run: CaseRun) -> tuple[ProvenanceRun | None, str]:
    """Where the elements of a case come from, or why that is not known."""
    kernel = emulator_of(run.kernel) if run.kernel is not None else None
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


def _search(found: Examined, cases: Sequence[Case], threads: int, tell: Progress) -> None:
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
    if trials.wrong_before == 0:
        _found_by_checks(found, trials, cases, tell)
        return
    _numbers(found, trials, (), cases, tell)


def _numbers(
    found: Examined, trials: TrialBench, kept: tuple[tuple[Step, Change], ...], cases: Sequence[Case], tell: Progress
) -> bool:
    """Search where the numbers are wrong, from a source in which some changes are kept; whether it is mended."""
    ledger = found.ledger
    sources, order = _ranked(found, trials.texts)
    launched: list[tuple[Tried, LaunchShape]] = []
    if not kept:
        found.sources = sources
        shape = found.bench.variant.launch or found.bench.card.launch
        launched = mending_launches(trials, _suspicion(found, sources), shape, tell)
    tried = search(trials, order, ledger, tell)
    right = [one for one in tried if one.outcome.verdict == "right"]
    right = slid(trials, rendered_entry(found.bench.card, _case(found), found.bench.variant), right, ledger)
    changes = tuple(change for _, change in kept)
    if right or launched:
        tell(f"confirming {len(right) + len(launched):,} changes")
        answers = confirmed(
            found.bench,
            _affordable(found, cases),
            found.baseline,
            right,
            changes,
            trials.texts,
            ledger.effort.confirmed,
            launched,
        )
        if any(one.right for one in answers) or (answers and not found.answers):
            found.answers, found.steps = tuple(answers), tuple(step for step, _ in kept)
        if any(one.right for one in answers):
            return True
    if len(kept) + 1 >= ledger.effort.bugs:
        return False
    helps = helpful(trials, tried, ledger, tell)
    if not kept:
        found.helps = tuple(helps)
    for one in helps:
        if ledger.spent:
            break
        try:
            further = trials.keeping(one.ranked.change)
        except (WmmadiagError, ValueError):
            continue
        if _numbers(found, further, (*kept, (Step(one, sources), one.ranked.change)), cases, tell):
            return True
    return False


def _ranked(found: Examined, texts: Bytes) -> tuple[Mapping[str, Source], list[Ranked]]:
    """Every change of a source, the likeliest first."""
    bench, case = found.bench, found.failing
    assert case is not None
    sources = {file: parse(text, file) for file, text in texts.items()}
    entry = rendered_entry(bench.card, case, bench.variant)
    every = list(changes_of(texts, entry))
    return sources, ranked(every, sources, _suspicion(found, sources))


def _suspicion(found: Examined, sources: Mapping[str, Source]) -> Suspicion:
    assert found.failing is not None
    run = found.baseline[found.failing.name]
    fault = own_place(run.error.place) if run.error is not None and run.error.place is not None else None
    return suspicion(marks(run.findings, found.traced, fault), Dependences(sources))


def _found_by_checks(found: Examined, trials: TrialBench, cases: Sequence[Case], tell: Progress) -> None:
    """Search where all numbers are right, and a check shows what another order or placement would spoil."""
    ledger = found.ledger
    sources, order = _ranked(found, trials.texts)
    found.sources = sources
    near = order[: ledger.effort.checked * 4]
    bare = trials.try_batch([one.change for one in near])
    ledger.note(bare)
    ledger.complete = False
    harmless = [Tried(one, outcome) for one, outcome in zip(near, bare, strict=True) if _harmless(outcome.verdict)]
    right: list[Tried] = []
    for one in harmless[: ledger.effort.checked]:
        tell(f"checking changes of {Path(one.ranked.line[0]).name}:{one.ranked.line[1]}")
        run = found.bench.run(_case(found), _texts(applied(trials.texts, [one.ranked.change])))
        if _clean(run):
            right.append(one)
    if right:
        found.answers = tuple(
            confirmed(
                found.bench, _affordable(found, cases), found.baseline, right, (), trials.texts, ledger.effort.confirmed
            )
        )


def _harmless(verdict: str) -> bool:
    return verdict in ("right", "same")


def _refused(found: Examined, cases: Sequence[Case], tell: Progress) -> None:
    """Search where the source does not compile: each change is compiled by itself, those near the refusal first."""
    bench, ledger = found.bench, found.ledger
    try:
        texts = {str(bench.source): bench.source.read_bytes()}
        sources, order = _ranked(found, texts)
    except (OSError, ValueError, WmmadiagError) as error:
        found.problem = str(error)
        return
    found.sources = sources
    ledger.complete = False
    for one in order[: ledger.effort.singles]:
        tell(f"trying changes of line {one.line[1]}")
        run = bench.run(_case(found), _texts(applied(texts, [one.change])))
        ledger.changes += 1
        if run.passed:
            outcome = _outcome_of(one.change, run)
            answers = confirmed(bench, cases, found.baseline, [Tried(one, outcome)], (), texts, ledger.effort.confirmed)
            if any(answer.right for answer in answers):
                found.answers = tuple(answers)
                return


def _outcome_of(change: Change, run: CaseRun) -> Outcome:
    return Outcome(change, "right", None, 0, work=run.result.warp_instructions)


def _case(found: Examined) -> Case:
    assert found.failing is not None
    return found.failing


def _texts(made: Bytes) -> dict[Path, str]:
    return {Path(file).resolve(): text.decode("utf-8", "surrogateescape") for file, text in made.items()}


def _affordable(found: Examined, cases: Sequence[Case]) -> list[Case]:
    """The cases that ran as the source stands, the failing one first: a change is held to these."""
    ran = [case for case in cases if case.name in found.baseline]
    return sorted(ran, key=lambda case: case.name != _case(found).name)


def failing_runs(card: Card, *, arch: str = "sm_90") -> Iterator[tuple[Workbench, CaseRun]]:
    """The failing cases of a card's variants, each with what ran it: what a diagnosis begins with."""
    for variant in card.variants:
        bench = case_bench(card, variant.name, arch, "emulator", "default", None, "", None)
        for case in bench.cases():
            run = _run(bench, case)
            if not run.passed:
                yield bench, run
