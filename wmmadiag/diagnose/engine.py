"""From a card to a diagnosis."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from wmmadiag.diagnose.claim import Claim
from wmmadiag.diagnose.describe import Finished, Step, described
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.registry import all_hypotheses
from wmmadiag.diagnose.search import Found, ask, find_cause
from wmmadiag.diagnose.trials.ahead import Ahead
from wmmadiag.diagnose.trials.trial import Budget, Trial, edits_for, tried
from wmmadiag.diagnose.trials.workbench import CaseRun, Workbench
from wmmadiag.errors import BudgetError
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card import Card, Case
from wmmadiag.subject.compiling import Texts
from wmmadiag.subject.conventions import with_convention
from wmmadiag.subject.repeating import options, repeating

if TYPE_CHECKING:
    from wmmadiag.report.diagnosis import Diagnosis
    from wmmadiag.subject.compiling import SubjectCompiler

SECONDS = 8.0
"""For trying changes, where nobody says how long."""
MAX_CAUSES = 3
MAX_TRIALS = 160
_VERIFY_SECONDS = 4.0
_OF_MAXIMA = ("attention", "softmax")
_HARD, _QUICK = ("growing_max", "late_max"), 0.3
"""Distributions of inputs that try an online softmax; seconds of a case that may be run on them as well."""
_SYNCWARP, _SYNCWARPS = "__syncwarp()", 8
"""What orders the lanes of a warp; how many places for it are tried."""

Progress = Callable[[str], None]
"""Told what comes next."""


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
    seconds: float = SECONDS,
    compiler: SubjectCompiler | None = None,
    progress: Progress | None = None,
    words: Sequence[str] = (),
) -> Diagnosis:
    """Find out why a kernel is wrong.

    Args:
        arch: target, "sm_90".
        backend: "emulator", "gpu" or "both"; a GPU alone shows outputs only.
        variant: which; empty for the first that fails, or the card's first.
        cases: names to take; None for all.
        seed, inputs: in place of the card's.
        checks: of `wmmadiag.checks`.
        seconds: wall time for trying changes; what runs in any case is not counted.
        compiler: compiles the source as it stands.
        progress: told what comes next.
        words: further options of the command line that repeats it, such as the compiler's.

    Raises:
        ConfigurationError: an unknown variant, case, check or backend.
    """
    started = time.perf_counter()
    tell = progress or (lambda _: None)
    chosen = [card.variant(variant)] if variant else list(card.variants)
    names = None if cases is None else [card.case(name).name for name in cases]
    with closing(Ahead()) as ahead:
        finished: Finished | None = None
        for one in chosen:
            bench = _bench(card, one.name, arch, backend, checks, seed, inputs, compiler, ahead)
            finished = _diagnose(bench, names, Budget(seconds, MAX_TRIALS), tell)
            if finished.steps or finished.failing is not None:
                break
        assert finished is not None
        bench = finished.bench
        repeat = repeating(
            "diagnose", bench.card, bench.variant, arch=bench.arch, cases=names, seed=seed, inputs=inputs,
            further=(
                *options({"backend": (backend, "emulator"), "checks": (checks, "default")}),
                *options({"seconds": (seconds, SECONDS)}),
                *words,
            ),
        )  # fmt: skip
        return described(finished, backend, repeat, time.perf_counter() - started)


def failing_evidence(card: Card, *, arch: str = "sm_90", passing: bool = False) -> Evidence | None:
    """What a diagnosis on the emulator begins with: the first failing case of the first variant that has one.

    Args:
        passing: take the smallest case of the first variant where none fails.
    """
    right: Evidence | None = None
    for variant in card.variants:
        bench = _bench(card, variant.name, arch, "emulator", "default", None, "", None)
        ran: dict[str, CaseRun] = {}
        for case in bench.cases():
            ran[case.name] = _run(bench, case)
            evidence = Evidence(bench, case, {}, ran[case.name], ran)
            if not ran[case.name].passed:
                return evidence
            right = right or evidence
    return right if passing else None


def _bench(
    card: Card,
    variant: str,
    arch: str,
    backend: str,
    checks: str,
    seed: int | None,
    inputs: str,
    compiler: SubjectCompiler | None,
    ahead: Ahead | None = None,
) -> Workbench:
    from wmmadiag import backends
    from wmmadiag.checks import native_names, select
    from wmmadiag.subject.compiling import SubjectCompiler

    watched = select(checks)
    loader = backends.backend(backend, None, native_names(watched))
    return Workbench(
        card, card.variant(variant), arch, loader, watched, compiler or SubjectCompiler(), seed=seed, inputs=inputs,
        ahead=ahead or Ahead(),
    )  # fmt: skip


def _diagnose(bench: Workbench, names: Sequence[str] | None, budget: Budget, tell: Progress) -> Finished:
    cases = [case for case in bench.cases() if names is None or case.name in names]
    began = time.perf_counter()
    baseline: dict[str, CaseRun] = {}
    failing: Case | None = None
    for case in cases:
        tell(f"running {bench.card.name} / {case.name}")
        run = _run(bench, case)
        baseline[case.name] = run
        if not run.passed and failing is None:
            failing = case
        if failing is not None and bench_is_slow(baseline):
            break
    budget.excuse(time.perf_counter() - began)
    finished = Finished(bench, baseline, failing, [])
    if failing is None:
        return _unordered_lanes(finished, cases)
    evidence = Evidence(bench, failing, {}, baseline[failing.name], baseline)
    while len(finished.steps) < MAX_CAUSES:
        tell(f"looking for the cause of {failing.name}")

        def regressions(texts: Texts) -> tuple[int, int]:
            return _regressions(bench, cases, texts, baseline)

        found = find_cause(evidence, budget, regressions)
        step = Step(evidence, found)
        finished.steps.append(step)
        if found.trial is None:
            break
        bench.launch = found.trial.launch or bench.launch
        runs = _verify(bench, cases, found.trial.texts)
        step.after = runs
        still = next((run for run in runs if not run.passed), None)
        if still is None:
            break
        evidence = Evidence(bench, bench.card.case(still.result.case), found.trial.texts, still, baseline)
    return finished


def _unordered_lanes(finished: Finished, cases: Sequence[Case]) -> Finished:
    """Where all cases pass: a race between lanes of one warp, right only as long as the lanes run together.

    Since Volta each lane has its own program counter, and nothing but `__syncwarp()` promises that one sees what
    another has written (CUDA C++ Programming Guide, "Independent Thread Scheduling").
    """
    for case in cases:
        evidence = Evidence(finished.bench, case, {}, finished.baseline[case.name], finished.baseline)
        found = all_hypotheses()["missing-barrier"].test(evidence)
        if isinstance(found, tuple):
            sentence = f"{found[0].sentence} (the numbers are right as long as the lanes run together)"
            latent = replace(
                found[0],
                sentence=sentence,
                advice=f"put {_SYNCWARP} between the two accesses",
                edit_hypotheses=(found[0].hypothesis,),
            )
            trial = _with_syncwarp(evidence, latent)
            step = Step(evidence, Found(ask(evidence), (latent,), latent, trial, 0))
            step.after = _verify(finished.bench, cases, trial.texts) if trial is not None else []
            finished.steps.append(step)
            finished.failing = case
            break
    return finished


def _with_syncwarp(evidence: Evidence, claim: Claim) -> Trial | None:
    """A `__syncwarp()` after which nothing is left of a claim; None where the likeliest places are none."""
    offered = [one for one in edits_for(evidence, claim) if all(_SYNCWARP in c.text for c in one[2].changes)]
    for _, file, edit in offered[:_SYNCWARPS]:
        trial = tried(evidence, file, edit, Budget(math.inf, 1), set())
        if trial is not None and trial.run.passed:
            after = Evidence(evidence.bench, evidence.case, trial.texts, trial.run)
            if not isinstance(all_hypotheses()[claim.hypothesis].test(after), tuple):
                return trial
    return None


def _run(bench: Workbench, case: Case) -> CaseRun:
    """Run a case; where nobody said how matrices are stored, as the result fits."""
    run = bench.run(case)
    if run.bound is None and run.error is None:  # what was asked for is wrong, not the kernel
        bind(bench.card, case, bench.variant, seed=bench.seed, inputs=bench.inputs)
    meant = run.verdict.convention if run.verdict is not None else None
    if bench.card.open_conventions and meant is not None and meant.assumable:
        bench.assume(with_convention(bench.card, meant))
        run = bench.run(case)
    return run


def bench_is_slow(baseline: dict[str, CaseRun]) -> bool:
    """Whether the cases that ran took so long, or did not end, that larger ones are left for later."""
    if any(isinstance(run.error, BudgetError) for run in baseline.values()):
        return True
    return sum(run.result.seconds for run in baseline.values()) > 0.5


def _regressions(
    bench: Workbench, cases: Sequence[Case], texts: Texts, baseline: dict[str, CaseRun]
) -> tuple[int, int]:
    failing = [run.result for run in _verify(bench, cases, texts) if not run.passed]
    usual = {name: run.result.distribution for name, run in baseline.items()}
    # What is right on the card's inputs alone has taken away what other inputs need.
    worse = [
        one
        for one in failing
        if one.case in baseline and (baseline[one.case].passed or one.distribution != usual[one.case])
    ]
    return len(failing), len(worse)


def _verify(bench: Workbench, cases: Sequence[Case], texts: Texts) -> list[CaseRun]:
    """All cases with changed texts, while time allows; the smallest once more with other inputs."""
    started = time.perf_counter()
    runs: list[CaseRun] = []
    for case in cases:
        if runs and time.perf_counter() - started > _VERIFY_SECONDS:
            break
        runs.append(bench.run(case, texts))
    if cases and all(run.passed for run in runs):
        other = (runs[0].result.seed or 0) + 1
        runs.append(bench.run(cases[0], texts, seed=other))
        runs += _hard_runs(bench, [case for case, run in zip(cases, runs, strict=False) if _quick(run)], texts)
    return runs


def _hard_runs(bench: Workbench, cases: Sequence[Case], texts: Texts) -> Iterator[CaseRun]:
    """The largest of some cases on inputs whose running maximum moves: a change that breaks it looks right elsewhere.

    A kernel that subtracts no maximum overflows on these as it stands; that is nothing that a change must mend.
    """
    if bench.card.computes.operation not in _OF_MAXIMA or bench.inputs or not cases:
        return
    for inputs in _HARD:
        run = bench.run(cases[-1], texts, inputs=inputs)
        if math.isfinite(run.max_difference) or math.isfinite(bench.run(cases[-1], inputs=inputs).max_difference):
            yield run


def _quick(run: CaseRun) -> bool:
    return run.result.seconds < _QUICK
