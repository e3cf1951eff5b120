"""From a card to a diagnosis: run, look, rank, try, confirm, describe."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wmmadiag.compile.languages import is_c_family
from wmmadiag.compile.nvrtc import asked_once
from wmmadiag.diagnose.ahead import ListedAhead
from wmmadiag.diagnose.bases import Progress
from wmmadiag.diagnose.describe import described, so_far
from wmmadiag.diagnose.effort import DEFAULT, Effort, effort_named
from wmmadiag.diagnose.evidence import asked_of, clean, traced
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.library_headers import before_headers, is_of_headers, with_headers
from wmmadiag.diagnose.mending import look_for_mends
from wmmadiag.diagnose.search import Ledger
from wmmadiag.diagnose.telling import most_telling
from wmmadiag.diagnose.trials import team
from wmmadiag.diagnose.trials.prepared import texts_of
from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.processes.collection import rare_collection
from wmmadiag.subject.bench import CaseRun, Workbench
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card import Card, Case
from wmmadiag.subject.compiling import options_of
from wmmadiag.subject.readings import card_computing, card_read_as
from wmmadiag.subject.repeating import options, repeating
from wmmadiag.subject.symbols import rendered_entries, rendered_macros

if TYPE_CHECKING:
    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.subject.compiling import SubjectCompiler

_SLOW = 40_000_000
"""Warp instructions of the cases that ran, from which on larger ones are left for later once one has failed."""


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
            wider = with_headers(examined) if examined.in_vain else None
            if wider is not None:
                tell("nothing in the user's own files mends it: looking at headers of include paths")
                bench = case_bench(wider, one.name, arch, backend, checks, seed, inputs, compiler)
                examined = examine(bench, names, used, threads, tell)
            break
    assert examined is not None
    bench = examined.bench
    repeat = repeating(
        "diagnose", bench.card, bench.variant, arch=bench.arch, cases=names, seed=seed, inputs=inputs,
        further=(
            *options({"backend": (backend, "emulator"), "checks": (checks, "default")}),
            *options({"effort": (effort, DEFAULT)}),
        ),
    )  # fmt: skip
    with _told_if_interrupted(examined):
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


@asked_once()
@rare_collection()
def examine(bench: Workbench, names: Sequence[str] | None, effort: Effort, threads: int, tell: Progress) -> Examined:
    """Run the cases of a variant; where one fails, look for what mends it."""
    cases = [case for case in bench.cases() if names is None or case.name in names]
    baseline: dict[str, CaseRun] = {}
    failed: list[Case] = []
    ahead: ListedAhead | None = None
    for case in cases:
        tell(f"running {bench.card.name} / {case.name}")
        baseline[case.name] = _run(bench, case)
        failed = _failed_alike(cases, baseline)
        if failed and _slow(baseline):
            break
        if failed and ahead is None and team.processes(threads) > 1:
            ahead = _listing(bench, baseline[failed[0].name])
    if not failed:
        return Examined(bench, baseline, None)
    _settle_arithmetic(bench, cases, baseline)
    failing = most_telling(_failed_alike(cases, baseline), baseline)
    found = Examined(bench, baseline, failing)
    found.ledger, found.ahead = Ledger(effort), ahead
    found.traced, found.untraced = traced(bench, baseline[failing.name])
    with _told_if_interrupted(found):
        found.of_headers = is_of_headers(found)
        found.ledger = Ledger(before_headers(effort) if found.of_headers else effort)
        try:
            look_for_mends(found, cases, threads, tell)
        finally:
            team.stop()
            if ahead is not None:
                ahead.stop()
    return found


def _listing(bench: Workbench, run: CaseRun) -> ListedAhead | None:
    """Changes of a failing source, which are listed while further cases run; None where they are not."""
    if run.compilation is None or not is_c_family(bench.source):
        return None
    case, variant = bench.card.case(run.result.case), bench.variant
    entries, macros = rendered_entries(bench.card, case, variant), rendered_macros(bench.card, case, variant)
    try:
        texts = texts_of(bench.source, options_of(bench.card, bench.arch, entries, macros))
        ahead = ListedAhead(asked_of(bench, run, texts))
        ahead.begin()
    except (WmmadiagError, OSError):  # whoever asks for them is told
        return None
    return ahead


@contextmanager
def _told_if_interrupted(found: Examined) -> Iterator[None]:
    """An interrupt takes along what was found until then: whoever ends the command says it."""
    try:
        yield
    except KeyboardInterrupt as why:
        if found.failing is not None:
            why.args = (so_far(found),)
        raise


def _failed_alike(cases: Sequence[Case], baseline: Mapping[str, CaseRun]) -> list[Case]:
    """The cases that fail, the smallest first: where some have wrong numbers, these."""
    ran = [case for case in cases if case.name in baseline]
    failed = [case for case in ran if not baseline[case.name].passed] or [
        case for case in ran if not clean(baseline[case.name])
    ]
    return [case for case in failed if baseline[case.name].wrong_count] or failed


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


def _settle_arithmetic(bench: Workbench, cases: Sequence[Case], baseline: dict[str, CaseRun]) -> None:
    """Where nobody said in which types a kernel computes, and some cases are right in coarser ones: take these."""
    failed = [case for case in cases if case.name in baseline and not baseline[case.name].passed]
    coarser = [one for case in failed if (one := baseline[case.name].unsaid(bench.card)) is not None]
    if 0 < len(coarser) < len(failed):
        bench.assume(card_computing(bench.card, coarser[0], "which is what the result of a case fits"))
        baseline |= {case.name: bench.run(case) for case in failed}


def _slow(baseline: Mapping[str, CaseRun]) -> bool:
    if any(isinstance(run.error, BudgetError) for run in baseline.values()):
        return True
    return sum(run.result.warp_instructions for run in baseline.values()) > _SLOW


def failing_runs(card: Card, *, arch: str = "sm_90") -> Iterator[tuple[Workbench, CaseRun]]:
    """The failing cases of a card's variants, each with what ran it: what a diagnosis begins with."""
    for variant in card.variants:
        bench = case_bench(card, variant.name, arch, "emulator", "default", None, "", None)
        for case in bench.cases():
            run = _run(bench, case)
            if not run.passed:
                yield bench, run
