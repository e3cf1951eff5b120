"""What `import wmmadiag` offers: compile, launch on NumPy arrays, compare, check a card.

Nothing heavy is imported before the first call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag import backends
from wmmadiag.api.launchable import Kernel
from wmmadiag.api.options import Macros, SubjectKeywords, subject_options
from wmmadiag.backends import RunLimits
from wmmadiag.errors import CompileError, ConfigurationError, did_you_mean
from wmmadiag.processes.deadline import deadline

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from wmmadiag.compile.ask.signatures import KernelParameter
    from wmmadiag.compile.model import Compilation
    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.results.model import KernelReport
    from wmmadiag.subject.card import Card
    from wmmadiag.subject.card_session import Compiler, Recorder, Runs, Tracer
    from wmmadiag.subject.open_subject import SubjectOptions

DEFAULT_ARCH = "sm_90"


def compile_cuda(
    source: str | Path,
    *,
    arch: str = DEFAULT_ARCH,
    entry: str | None = None,
    macros: Macros | None = None,
    include_paths: Sequence[str | Path] = (),
    std: str = "c++17",
    use_cache: bool = True,
) -> Compilation:
    """Compile CUDA source to PTX; host code in it is skipped, PTX is taken as it is.

    Args:
        source: a path, or the source's text (anything with a line break or `__global__`).
        arch: target, "sm_75" to "sm_121".
        entry: a template kernel to instantiate, "attn<64, 64>"; others need no name.

    Raises:
        CompileError: the compiler refused it; `detail` is its log.
        ConfigurationError: no such file, an unknown option, or a part of the installation is missing.

    Examples:
        >>> import wmmadiag
        >>> made = wmmadiag.compile_cuda('extern "C" __global__ void twice(int* x) { *x *= 2; }')
        >>> [one.name for one in made.entries]
        ['twice']
    """
    from wmmadiag.compile.driver import compile_source, compile_text
    from wmmadiag.compile.options import CompileOptions

    options = CompileOptions(
        arch=arch,
        macros={name: None if value is None else str(value) for name, value in (macros or {}).items()},
        include_paths=tuple(Path(path) for path in include_paths),
        std=std,
        name_expressions=(entry,) if entry is not None and "<" in entry else (),
    )
    if isinstance(source, str) and not source.strip():
        raise ConfigurationError("the source is empty", hint="give a path, or the text of a CUDA source")
    if isinstance(source, str) and ("\n" in source or "__global__" in source):
        name = "kernel.ptx" if re.search(r"^\s*\.version\s", source, re.MULTILINE) else "kernel.cu"
        return compile_text(source, name, options, use_cache=use_cache)
    return compile_source(Path(source), options, use_cache=use_cache)


def kernel(
    source: str | Path | Compilation,
    entry: str | None = None,
    *,
    arch: str | None = None,
    macros: Macros | None = None,
    include_paths: Sequence[str | Path] = (),
    std: str = "c++17",
    backend: str = "emulator",
    limits: RunLimits | None = None,
    use_cache: bool = True,
) -> Kernel:
    """Compile a source and make one of its kernels ready to be launched on NumPy arrays.

    Args:
        source: a path, a text, or what `compile_cuda` made.
        entry: the kernel's name, or "name<arguments>" of a template; None: the only one.
        arch: target; its tensor cores are emulated bit for bit. None: "sm_90", or the GPU's own; a PTX file runs as
            its own target.
        backend: "emulator"; where there is a GPU also "gpu", or "both" to compare them.
        limits: threads and budget of a launch.

    Raises: as `compile_cuda`; UnsupportedError for a kernel that holds what is not emulated.

    Examples:
        >>> import numpy as np, wmmadiag
        >>> tile = wmmadiag.kernel('''
        ... #include <mma.h>
        ... using namespace nvcuda;
        ... __global__ void tile(const half* a, const half* b, float* c) {
        ...     wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        ...     wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        ...     wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        ...     wmma::fill_fragment(fc, 0.0f);
        ...     wmma::load_matrix_sync(fa, a, 16);
        ...     wmma::load_matrix_sync(fb, b, 16);
        ...     wmma::mma_sync(fc, fa, fb, fc);
        ...     wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
        ... }''')
        >>> rng = np.random.default_rng(0)
        >>> a, b = rng.standard_normal((2, 16, 16)).astype(np.float16)
        >>> c = np.zeros((16, 16), np.float32)
        >>> stats = tile.launch(1, 32, a, b, c)
        >>> want = wmmadiag.reference("gemm", a=a, b=b, transpose_b=True, dtype="f32")
        >>> wmmadiag.compare_arrays(c, want.value, want.bound).wrong
        0
    """
    from wmmadiag.compile.ask.signatures import signature
    from wmmadiag.compile.languages import is_ptx

    loader = backends.backend(backend, limits)
    if isinstance(source, (str, Path)):
        compilation = compile_cuda(
            source,
            arch=arch or backends.default_arch(backend),
            entry=entry,
            macros=macros,
            include_paths=include_paths,
            std=std,
            use_cache=use_cache,
        )
    else:
        compilation = source
    found = compilation.entry(entry)
    parameters: tuple[KernelParameter, ...] = ()
    if not is_ptx(compilation.source):
        # A kernel whose type has no name outside its source is launched all the same, its arguments unchecked.
        with suppress(ConfigurationError, CompileError):
            parameters = signature(compilation, found)
    target = compilation.options.arch
    return Kernel(found, compilation, parameters, target, loader(compilation.ptx, found.name, arch=target))


def _known_distribution(inputs: str) -> None:
    from wmmadiag.subject.distributions import DISTRIBUTIONS

    if inputs and inputs not in DISTRIBUTIONS:
        raise ConfigurationError(f"unknown distribution '{inputs}'", hint=did_you_mean(inputs, DISTRIBUTIONS))


def check(
    subject: str | Path | Card,
    *,
    arch: str | None = None,
    variants: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    seed: int | None = None,
    inputs: str = "",
    backend: str = "emulator",
    limits: RunLimits | None = None,
    use_cache: bool = True,
    resources: bool = False,
    against: str | Path | Card | None = None,
    checks: str | Sequence[str] = "default",
    schedules: int = 0,
    provenance: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    recorder: Recorder | None = None,
    compile_with: Compiler | None = None,
    **said: Unpack[SubjectKeywords],
) -> KernelReport:
    """Compile, run and judge a kernel, case by case, against a float64 reference.

    Args:
        subject: a card (its file, or loaded), or a source with at least `computes`.
        arch: target; None for "sm_90" (on a GPU its own), or for a PTX source its own.
        variants, cases: names to take; None for all.
        seed, inputs: seed and distribution of the inputs.
        backend: "emulator"; where there is a GPU also "gpu", or "both" to compare them.
        limits: threads and instructions of each launch; seconds of the whole check.
        resources: also ask ptxas for registers, spills and shared memory.
        checks: "all", "default", "none", or names of checks (`wmmadiag.checks.all_checks`); on the emulator only. A
            finding that is an error makes its case fail.
        schedules: other orders of warps and asynchronous copies to run; outputs whose bits change are an error.
        provenance: also run each case with tags that say which input element every value is, and compare intermediate
            values; on the emulator only. Disagreements become findings.
        against: another card, with whose outputs those of the same cases are compared, too.
        progress: told before each case: cases done, cases in all, what comes next.
        recorder: keeps what a report shows besides; see `wmmadiag.recording.ReportRecorder`.
        compile_with: called with a source's path and `CompileOptions` in place of compiling it; then `use_cache`
            and `resources` have no effect.
        said: in place of what the card or the source says: entry, computes, grid, block, shared, macros, symbols,
            include_paths, std; see `wmmadiag.api.options.SubjectKeywords`.

    Returns:
        The report as data; `render` makes it text. A wrong kernel is a result, no exception.

    Raises:
        ConfigurationError: the card or the options are wrong. (What goes wrong in one case is in the report.)
    """
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.ops import OPERATIONS
    from wmmadiag.subject import repeating
    from wmmadiag.subject.check import check_card
    from wmmadiag.subject.compiling import SubjectCompiler
    from wmmadiag.subject.older_target import emulated
    from wmmadiag.subject.target import card_target, known_arch

    _known_distribution(inputs)
    runs, native = _checked_runs(checks, schedules)
    loader = backends.backend(backend, limits, native)
    if arch is not None:
        known_arch(CompileOptions(arch=arch).arch)
    card = _opened(subject, subject_options(**said), together=True)
    if not OPERATIONS[card.computes.operation].judged and runs is None:
        raise ConfigurationError(
            "nothing would judge the run: the kernel computes 'none', and no check is on",
            hint="leave --checks out, or name some: --checks races,memory",
        )
    limits = limits or backends.RunLimits()
    words = repeating.options(
        {
            "backend": (backend, "emulator"),
            "budget-instructions": (limits.instructions, None),
            "budget-seconds": (limits.seconds, None),
            "checks": (checks, "default"),
            "schedules": (schedules, 0),
            "provenance": (provenance, False),
            "against": (getattr(against, "path", against), None),
        }
    )
    compiling = SubjectCompiler(use_cache=use_cache, resources=resources)

    def checked(one: Card, target: str) -> KernelReport:
        return check_card(
            one,
            arch=target,
            backend=loader,
            backend_name=backend,
            variants=variants,
            cases=cases,
            seed=seed,
            inputs=inputs,
            progress=progress,
            compiler=compile_with or compiling,
            against=None if against is None else open_card(against),
            runs=runs,
            recorder=recorder,
            tracer=_tracer() if provenance else None,
            words=words,
        )

    def judged(target: str) -> KernelReport:
        if card.derived is None:
            return checked(card, target)
        from wmmadiag.subject.card_session import CardSession, most_tried, session_for
        from wmmadiag.subject.exercised import tried_at_all
        from wmmadiag.subject.settling import settled

        made: list[CardSession] = []

        def session(report: KernelReport) -> CardSession:
            """One for all that is tried, which takes no more than a multiple of the card as it was derived."""
            if not made:
                few = replace(limits, instructions=most_tried(report, limits.instructions))
                made.append(session_for(card, target, backends.backend(backend, few), compile_with or compiling))
            return made[0]

        def tried(one: Card) -> KernelReport:
            report = checked(one, target)
            return tried_at_all(one, report, session(report))

        report = tried(card)
        return settled(card, report, session(report), tried)

    with deadline(limits.seconds):
        report = judged(card_target(card, arch, backend))
        if arch is None and card.derived is not None and backend == "emulator":
            report = emulated(report, judged)
        if card.derived is not None:
            from wmmadiag.subject.drafts.instantiations_beside import with_what_lies_beside

            report = with_what_lies_beside(report, card.derived.kernel)
    return compiling.completed(report, card)


def open_card(subject: str | Path | Card, **said: Unpack[SubjectKeywords]) -> Card:
    """The card in a file with the options laid over it, or one derived from a source; options as for `check`.

    Raises:
        ConfigurationError: it cannot be read, is no card, or the source does not say enough.
    """
    return _opened(subject, subject_options(**said), together=False)


def _opened(subject: str | Path | Card, options: SubjectOptions, *, together: bool) -> Card:
    """As `open_card`; `together`: whether several kernels of one host function may be judged as one."""
    from wmmadiag.subject.compiler_first import compiler_first
    from wmmadiag.subject.find_cards import check_exists
    from wmmadiag.subject.open_subject import open_subject, overlaid

    if not isinstance(subject, (str, Path)):
        return overlaid(subject, options)
    check_exists(Path(subject))
    with compiler_first(Path(subject), options):
        return open_subject(Path(subject), options, together=together)


def diagnosis(
    subject: str | Path | Card,
    *,
    arch: str | None = None,
    variant: str = "",
    cases: Sequence[str] | None = None,
    seed: int | None = None,
    inputs: str = "",
    backend: str = "emulator",
    use_cache: bool = True,
    checks: str = "default",
    effort: str = "normal",
    progress: Callable[[str], None] | None = None,
    **said: Unpack[SubjectKeywords],
) -> Diagnosis:
    """Find out what is broken in a kernel, on which line, and try a change that mends it.

    Args:
        subject: a card (its file, or loaded), or a source with at least `computes`.
        variant: which; empty for the first that fails.
        effort: how many changes are tried: "quick", "normal" or "thorough".
        progress: told what comes next.
        said, others: as for `check`.

    Raises:
        ConfigurationError: the card or the options are wrong. (What goes wrong in the kernel is in the result.)
    """
    from wmmadiag.diagnose.engine import diagnose_card
    from wmmadiag.subject.check import check_card
    from wmmadiag.subject.compiling import SubjectCompiler
    from wmmadiag.subject.likeliest import opened_or_likeliest
    from wmmadiag.subject.settling import read_right
    from wmmadiag.subject.target import card_target

    _known_distribution(inputs)
    options = subject_options(**said)
    card, is_read = opened_or_likeliest(subject, options, lambda: _opened(subject, options, together=True))
    target, compiling = card_target(card, arch, backend), SubjectCompiler(use_cache=use_cache)

    def checked(one: Card) -> KernelReport:
        return check_card(one, arch=target, inputs=inputs, seed=seed, compiler=compiling)

    card = card if is_read else read_right(card, target, checked)
    return diagnose_card(
        card, arch=target, backend=backend, variant=variant, cases=cases, seed=seed,
        inputs=inputs, checks=checks, effort=effort, progress=progress, compiler=compiling,
    )  # fmt: skip


def _checked_runs(checks: str | Sequence[str], schedules: int) -> tuple[Runs | None, tuple[str, ...]]:
    """What launches with these checks, and the names of the engine's checks that it needs."""
    from wmmadiag.checks import native_names, select

    chosen = select(checks)
    if not chosen and not schedules:
        return None, ()
    from wmmadiag.checks.run import CheckedRuns

    return CheckedRuns(chosen, schedules), native_names(chosen)


def _tracer() -> Tracer:
    from wmmadiag.provenance.trace import traced_findings

    return traced_findings
