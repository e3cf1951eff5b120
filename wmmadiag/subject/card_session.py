"""What the cases of one card share: how they are compiled and run, and what was compiled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from wmmadiag.compile.model import Compilation
from wmmadiag.compile.options import CompileOptions
from wmmadiag.errors import (
    WmmadiagError,
)
from wmmadiag.launch import Launch, LoadedKernel, RunStats
from wmmadiag.results.model import (
    CompiledVariant,
    KernelReport,
    ReportedFinding,
)
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card import Card, Case, Variant
from wmmadiag.subject.compiling import options_of
from wmmadiag.subject.symbols import rendered_entry, rendered_macros
from wmmadiag.subject.together import LaunchSteps, StagedRuns, Together
from wmmadiag.subject.verdict import Expectation, Verdict

MOST_TRIED = 20_000_000
"""Warp instructions of a run that only tries something out."""
_TIMES = 4
"""How much longer such a run may take than those of the card that it is a variation of."""


class Backend(Protocol):
    """Makes a compiled kernel ready to launch; `wmmadiag.emulator.load` is one."""

    def __call__(self, ptx: str, entry: str, *, arch: str) -> LoadedKernel:
        """Load one kernel of a PTX module."""
        ...


class Runs(Protocol):
    """Launches kernels and says what checks found; `wmmadiag.checks.run.CheckedRuns` is one."""

    def launch(self, kernel: LoadedKernel, launch: Launch) -> RunStats:
        """Run to completion, as `LoadedKernel.launch`."""
        ...

    def reported(self) -> tuple[ReportedFinding, ...]:
        """What was found in the last launch, also when it died."""
        ...


class Recorder(Protocol):
    """Is told of a check while it runs; `wmmadiag.recording.ReportRecorder` is one."""

    def begin(self, card: Card) -> None:
        """The check of a card begins."""
        ...

    def case(self, bound: BoundCase, verdict: Verdict, kernel: LoadedKernel, instructions: int) -> None:
        """A case ran to its end, with so many warp instructions, and was judged; its arrays hold what the run left."""
        ...


class PlainRuns:
    """Launches without checks."""

    def launch(self, kernel: LoadedKernel, launch: Launch) -> RunStats:
        return kernel.launch(launch)

    def reported(self) -> tuple[ReportedFinding, ...]:
        return ()


Tracer = Callable[["BoundCase", LoadedKernel], "tuple[ReportedFinding, ...]"]
"""Runs a case, bound anew, in its own way, and says what it found; `wmmadiag.provenance.traced_findings` is one."""

Compiler = Callable[[Path, "CompileOptions"], "Compilation"]
Progress = Callable[[int, int, str], None]
"""Called with (cases done, cases in all, what comes next)."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel that is ready to be launched, and what it was compiled to."""

    kernel: LoadedKernel
    compiled: CompiledVariant
    compilation: Compilation
    entries: tuple[str, ...] = ()  # of the kernels that it is made of, where it is several


@dataclass(slots=True)
class CardSession:
    """What the cases of one card share: compiled kernels and expectations."""

    # card, arch: what is run, as what
    card: Card
    arch: str
    # backend, compiler, runs: as `check_card` takes them
    backend: Backend
    compiler: Compiler
    runs: Runs
    # compiled kernels by what they were compiled from
    loaded: dict[tuple[Any, ...], Loaded | WmmadiagError] = field(default_factory=dict)
    expectations: dict[Hashable, Expectation] = field(default_factory=dict)  # of the last case, which variants share
    # tracer, words: see `check_card`
    tracer: Tracer | None = None
    words: tuple[str, ...] = ()
    readings: bool = True  # whether other readings of a wrong result are tried

    def __post_init__(self) -> None:
        """Kernels that are judged together are launched one after the other."""
        if self._stages() is not None and not isinstance(self.runs, StagedRuns):
            self.runs = StagedRuns(self.runs)

    def _stages(self) -> LaunchSteps | None:
        return self.card.derived.kernel.together if self.card.derived is not None else None

    def of(self, card: Card) -> CardSession:
        """A session for another card of the same kernel; compiled kernels are shared."""
        other = CardSession(card, self.arch, self.backend, self.compiler, self.runs, readings=self.readings)
        other.loaded = self.loaded
        return other

    def kernel(self, case: Case, variant: Variant) -> Loaded:
        """The kernel for a case, compiled once per set of macros and entry; a failure is remembered, too.

        Raises:
            WmmadiagError: it does not compile, or the backend cannot run it.
        """
        entry = rendered_entry(self.card, case, variant)
        macros = rendered_macros(self.card, case, variant)
        key = (variant.name, variant.source, entry, tuple(macros.items()))
        if key not in self.loaded:
            try:
                self.loaded[key] = self._load(variant, entry, macros)
            except WmmadiagError as error:
                self.loaded[key] = error
        found = self.loaded[key]
        if isinstance(found, WmmadiagError):
            raise found
        return found

    def compile_options(self, case: Case, variant: Variant) -> CompileOptions:
        """With what options the kernel of a case is compiled.

        Raises:
            ConfigurationError: the card's expressions cannot be evaluated for the case.
        """
        return self._options(rendered_entry(self.card, case, variant), rendered_macros(self.card, case, variant))

    def _options(self, entry: str, macros: Mapping[str, str]) -> CompileOptions:
        return options_of(self.card, self.arch, self._entries(entry), macros)

    def _entries(self, entry: str) -> tuple[str, ...]:
        stages = self._stages()
        return (entry,) if stages is None else tuple(dict.fromkeys(one.entry for one in stages.stages))

    def _load(self, variant: Variant, entry: str, macros: Mapping[str, str]) -> Loaded:
        compilation = self.compiler(variant.source or self.card.source, self._options(entry, macros))
        symbols = {one: compilation.entry(one) for one in self._entries(entry)}
        kernels = {one: self.backend(compilation.ptx, symbol.name, arch=self.arch) for one, symbol in symbols.items()}
        notes = tuple(f"{note.place}: {note.message}" if note.place else note.message for note in compilation.notes)
        stages = self._stages()
        named = symbols[entry].demangled if stages is None else entry
        compiled = CompiledVariant(variant.name, named, dict(macros), compilation.compiler, notes)
        if stages is None:
            return Loaded(kernels[entry], compiled, compilation)
        return Loaded(Together(stages, kernels), compiled, compilation, tuple(symbols))


def session_for(card: Card, arch: str, backend: Backend | None, compiler: Compiler | None) -> CardSession:
    """A session without checks, for trying out: what does not end soon is given up."""
    return CardSession(
        card, arch, backend or usual_backend(MOST_TRIED), compiler or default_compiler(), PlainRuns(), readings=False
    )


def tried_in(session: CardSession | None, card: Card) -> CardSession:
    """A session to try a card in, with what was compiled for others of its kernel in an earlier one."""
    from wmmadiag.subject.target import card_target

    return session.of(card) if session is not None else session_for(card, card_target(card, None), None, None)


def most_tried(report: KernelReport, limit: int | None) -> int:
    """Warp instructions that variations of a card may take, whose own runs are known; `limit`: of any run, or 0."""
    most = max((MOST_TRIED, *(_TIMES * case.warp_instructions for case in report.cases)))
    return min(most, limit) if limit else most


def usual_backend(instructions: int = 0) -> Backend:
    """The emulator, for runs of so many warp instructions at most; 0: as many as a run may usually take."""
    from wmmadiag import emulator

    if not instructions:
        return emulator.load
    return partial(emulator.load, options=emulator.EmulatorOptions(budget=emulator.Budget(instructions=instructions)))


def default_compiler() -> Compiler:
    """Compiles a source anew, or takes it from the cache."""
    from wmmadiag.compile.driver import compile_source

    return compile_source
