"""Check a card: compile, run, compare, case by case."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from wmmadiag import __version__
from wmmadiag.errors import (
    BudgetError,
    CompileError,
    ConfigurationError,
    KernelFault,
    UndecidedError,
    UnsupportedError,
    WmmadiagError,
)
from wmmadiag.launch import RunStats
from wmmadiag.place import chain_of, own_place
from wmmadiag.results.model import (
    CaseResult,
    KernelReport,
    Overwritten,
    Problem,
    ReportedFinding,
    Status,
)
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card, Case, Variant
from wmmadiag.subject.card_session import (
    Backend,
    CardSession,
    Compiler,
    Loaded,
    PlainRuns,
    Progress,
    Recorder,
    Runs,
    Tracer,
    default_compiler,
    usual_backend,
)
from wmmadiag.subject.readings import card_read_as
from wmmadiag.subject.repeating import repeating
from wmmadiag.subject.unset_arithmetic import asked_arithmetic
from wmmadiag.subject.verdict import Verdict, against_variant, also_elsewhere, judge_case, meant_note


def check_card(
    card: Card,
    *,
    arch: str = "sm_90",
    backend: Backend | None = None,
    backend_name: str = "emulator",
    variants: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    seed: int | None = None,
    inputs: str = "",
    progress: Progress | None = None,
    compiler: Compiler | None = None,
    against: Card | None = None,
    runs: Runs | None = None,
    recorder: Recorder | None = None,
    tracer: Tracer | None = None,
    words: Sequence[str] = (),
) -> KernelReport:
    """Compile, run and judge every case of every variant.

    A fault of the kernel makes a failed case, something undecidable an undecided one, a wrong expression or a compile
    error an error; the other cases still run.

    Args:
        arch: target, "sm_90".
        backend: loads kernels; None for the emulator.
        backend_name: for the report.
        variants, cases: names to take; None for all.
        seed: of the inputs, in place of the card's.
        inputs: distribution of the inputs, in place of the card's.
        progress: told before each case.
        compiler: compiles sources; None for `wmmadiag.compile.driver.compile_source`.
        runs: launches kernels and says what checks found; None for no checks.
        tracer: runs each case that ends once more; its findings are the case's, too.
        recorder: told of each judged case, for reports that show more.
        words: further options of the command line that repeats a case (`wmmadiag.subject.repeating.options`).
        against: another kernel; its first variant's outputs for cases of the same names are compared with, too.

    Raises:
        ConfigurationError: an unknown variant or case name, also of the other kernel.
    """
    started = time.perf_counter()
    chosen_variants = card.variants if variants is None else tuple(card.variant(name) for name in variants)
    chosen_cases = card.cases if cases is None else tuple(card.case(name) for name in cases)
    session = CardSession(card, arch, backend or usual_backend(), compiler or default_compiler(), runs or PlainRuns())
    session.tracer, session.words = tracer, tuple(words)
    other = None if against is None else CardSession(against, arch, session.backend, session.compiler, PlainRuns())
    if recorder is not None:
        recorder.begin(card)
    results: list[CaseResult] = []
    total = len(chosen_variants) * len(chosen_cases)
    for case in chosen_cases:
        first = None if other is None else _other_kernel(other, case.name, seed, inputs)
        for variant in chosen_variants:
            if progress is not None:
                progress(len(results), total, f"{card.name} {variant.name} / {case.name}")
            result, bound, verdict = run_case(session, case, variant, seed, inputs)
            meant = verdict.convention if verdict is not None else None
            if session.card.open_conventions and meant is not None and meant.assumable:
                session.card = card_read_as(session.card, meant.reading)
                result, bound, verdict = run_case(session, case, variant, seed, inputs)
                assumed = f"assumed: {meant.meaning()}, which is what the result fits; a card can say what is meant"
                result = replace(result, notes=(*result.notes, assumed))
            if recorder is not None and bound is not None and verdict is not None:
                recorder.case(bound, verdict, session.kernel(case, variant).kernel, result.warp_instructions)
            if bound is not None and verdict is not None and first is not None:
                extra = against_variant(bound, verdict, first[1], first[2], first[0])
                result = replace(result, observations=result.observations + extra)
            elif bound is not None and verdict is not None:
                first = (variant.name, bound, verdict)
            results.append(result)
    if progress is not None:
        progress(total, total, "")
    return KernelReport(
        name=card.name,
        card=str(card.path),
        source=str(card.source),
        operation=card.computes.operation,
        arch=arch,
        backend=backend_name,
        compiled=tuple(item.compiled for item in session.loaded.values() if isinstance(item, Loaded)),
        cases=tuple(results),
        seconds=time.perf_counter() - started,
        tool_version=__version__,
        assumed=card.assumed,
    )


def _other_kernel(
    session: CardSession, case: str, seed: int | None, inputs: str
) -> tuple[str, BoundCase, Verdict] | None:
    """Another kernel's outputs for the case of the same name."""
    card = session.card
    result, bound, verdict = run_case(session, card.case(case), card.variants[0], seed, inputs)
    if bound is None or verdict is None:
        reason = result.problem.message if result.problem is not None else "it did not run"
        raise ConfigurationError(
            f"the kernel '{card.name}' to compare with did not run case '{case}': {reason}",
            hint=f"check it first: {result.repeat}",
        )
    return card.name, bound, verdict


def run_case(
    session: CardSession, case: Case, variant: Variant, seed: int | None, inputs: str
) -> tuple[CaseResult, BoundCase | None, Verdict | None]:
    """Compile, run and judge one case: its result, and the bound case and verdict if the kernel ran to its end."""
    card = session.card
    used = seed if seed is not None else case.seed if case.seed is not None else card.seed
    repeat = repeating(
        "check", card, variant, arch=session.arch, cases=[case.name], seed=used, inputs=inputs, further=session.words
    )
    result = CaseResult(variant.name, case.name, "error", {}, repeat=repeat)
    stats = RunStats(0, 0.0)
    launched = False
    try:
        bound = bind(card, case, variant, seed=seed, inputs=inputs)
        result = replace(
            result,
            symbols={name: bound.symbols[name] for name in case.symbols if name in bound.symbols},
            grid=bound.launch.grid,
            block=bound.launch.block,
            shared_bytes=bound.launch.shared_bytes,
            distribution=bound.distribution,
            seed=bound.seed,
        )
        loaded = session.kernel(case, variant)
        launched = True
        stats = session.runs.launch(loaded.kernel, bound.launch)
        verdict = judge_case(bound, session.expectations, other_readings=session.readings)
        for other in stats.elsewhere:
            verdict = also_elsewhere(bound, verdict, other, session.expectations)
    except WmmadiagError as error:
        printed = error.output if isinstance(error, KernelFault) else ""
        found = session.runs.reported() if launched else ()
        result = replace(result, problem=problem(error), output=printed, findings=found)
        return replace(result, status=_status(error, found)), None, None
    found = session.runs.reported()
    if session.tracer is not None:
        found = (*found, *session.tracer(bind(card, case, variant, seed=seed, inputs=inputs), loaded.kernel))
    shown = any(one.level == "error" for one in found)  # whatever the numbers mean
    asked = asked_arithmetic(bound, verdict, loaded) if not shown else None
    status: Status = "failed" if shown else "undecided" if asked is not None else verdict.status
    said = meant_note(verdict.coarser) if asked is not None and verdict.coarser is not None else None
    done = replace(
        result,
        status=status,
        observations=verdict.observations,
        overwritten=tuple(
            Overwritten(name, damage.kind, damage.count, damage.first) for name, damage in verdict.damages
        ),
        notes=tuple(one for one in verdict.notes if one != said),
        problem=asked or verdict.problem,
        warp_instructions=stats.warp_instructions,
        seconds=stats.seconds,
        output=stats.output,
        findings=found,
    )
    return done, bound, verdict


def _status(error: WmmadiagError, found: Sequence[ReportedFinding]) -> Status:
    if any(one.level == "error" for one in found):
        return "failed"
    return {1: "failed", 3: "undecided"}.get(error.exit_code, "error")  # type: ignore[return-value]


def problem(error: WmmadiagError) -> Problem:
    """An exception as part of a report."""
    kinds: tuple[tuple[type[WmmadiagError], str], ...] = (
        (UnsupportedError, "unsupported"),
        (BudgetError, "budget"),
        (UndecidedError, "undecided"),
        (CompileError, "compile"),
        (ConfigurationError, "configuration"),
    )
    fault = error if isinstance(error, KernelFault) else None
    innermost = error.place
    place = own_place(innermost) if innermost is not None else None
    kind = fault.kind if fault else next((name for cls, name in kinds if isinstance(error, cls)), "error")
    return Problem(
        kind=kind,
        message=error.message,
        place=str(place) if place else "",
        chain=chain_of(innermost, place) if innermost is not None and place is not None else "",
        block=fault.block if fault else None,
        warp=fault.warp if fault else None,
        lane=fault.lane if fault else None,
        detail=error.detail,
        hint=error.hint,
    )
