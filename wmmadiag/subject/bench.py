"""A kernel on the bench: run its cases as the source stands, or with some of its text changed.

What a run may cost is counted in warp instructions, never in seconds: the same run has the same outcome on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding
from wmmadiag.checks.registry import Check, Context
from wmmadiag.checks.run import CheckedRuns, emulator_of
from wmmadiag.compile.model import Compilation
from wmmadiag.emulator import Budget, EmulatedKernel
from wmmadiag.errors import BudgetError, WmmadiagError
from wmmadiag.launch import Launch, LoadedKernel
from wmmadiag.ops import Reading
from wmmadiag.results.model import CaseResult
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.card import Card, Case, LaunchShape, Variant
from wmmadiag.subject.card_session import Backend, CardSession
from wmmadiag.subject.check import run_case
from wmmadiag.subject.compiling import SubjectCompiler, Texts
from wmmadiag.subject.together import Together
from wmmadiag.subject.verdict import Verdict, wrong_masks

_USUAL = Budget(300_000_000, seconds=0)
"""Of one launch on the emulator: a case that is looked at closely ends long before (the largest of the repository's own
kernels has 7 million warp instructions), or never."""
_LOOKED_AT = 20_000_000
"""Of these, with checks on, until it is asked without them, many times faster, whether the launch ends at all."""
_TIMES, _LEAST = 20, 2_000_000
"""Warp instructions of a changed kernel, times those that the case needed before; a change may make a loop endless."""


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One case as it ran."""

    result: CaseResult  # for the report
    # bound, verdict: None where the kernel did not run to its end
    bound: BoundCase | None
    verdict: Verdict | None
    # kernel, compilation: None where it did not compile
    kernel: LoadedKernel | None
    compilation: Compilation | None
    findings: tuple[Finding, ...]  # of the checks
    error: WmmadiagError | None  # what ended it early, or None
    context: Context | None  # what findings are told with; None on a GPU
    wrong: Mapping[str, NDArray[np.bool_]]  # role → mask of wrong elements

    @property
    def passed(self) -> bool:
        """Right numbers, and no check found an error."""
        return self.result.status == "passed"

    @property
    def emulated(self) -> EmulatedKernel | None:
        """What ran on the emulator; None where nothing did."""
        return emulator_of(self.kernel) if self.kernel is not None else None

    @property
    def unset(self) -> Reading | None:
        """The coarser arithmetic that may be all that is wrong and of which a card says nothing; None for none."""
        return self.verdict.coarser if self.verdict is not None and self.result.status == "undecided" else None

    def unsaid(self, card: Card) -> Reading | None:
        """The same of a run of this card, or, where nobody wrote it, any with which the result would be right."""
        if card.derived is None or self.verdict is None:
            return self.unset
        return self.verdict.coarser

    @property
    def wrong_count(self) -> int:
        """Wrong elements in all outputs; every element where the kernel did not run to its end."""
        if self.verdict is None:
            return 1 << 40
        return sum(int(mask.sum()) for mask in self.wrong.values())

    @property
    def max_difference(self) -> float:
        """Largest absolute difference from the reference; infinite with NaN, infinities or no result at all."""
        if self.verdict is None:
            return math.inf
        seen = self.verdict.observations
        if any(one.nan or one.inf or one.unwritten for one in seen):
            return math.inf
        return max((one.max_difference for one in seen), default=0.0)


@dataclass(slots=True)
class _Recording:
    """Runs with checks that remember what ended a launch early."""

    inner: CheckedRuns
    error: WmmadiagError | None = None
    budget: Budget = field(default_factory=lambda: _USUAL)
    found: tuple[Finding, ...] = ()  # of the launches of a case; of several kernels what was found in any of them

    def launch(self, kernel: LoadedKernel, launch: Launch) -> Any:
        self.error = None
        try:
            return self._launched(kernel, launch)
        finally:
            self.found += tuple(one for one in self.inner.found if one not in self.found)

    def _launched(self, kernel: LoadedKernel, launch: Launch) -> Any:
        emulated = emulator_of(kernel)
        try:
            if emulated is None:
                return self.inner.launch(kernel, launch)
            if self.budget.instructions <= _LOOKED_AT:
                return self._within(self.budget, kernel, emulated, launch)
            untouched = launch.copied()
            try:
                return self._within(replace(self.budget, instructions=_LOOKED_AT), kernel, emulated, launch)
            except BudgetError:
                bare = replace(emulated.options, checks=(), check_table=(), budget=self.budget)
                EmulatedKernel(emulated.kernel, bare).launch(untouched.copied())
            launch.restore(untouched.writable())
            return self._within(self.budget, kernel, emulated, launch)
        except WmmadiagError as error:
            self.error = error
            raise

    def _within(self, budget: Budget, kernel: LoadedKernel, emulated: EmulatedKernel, launch: Launch) -> Any:
        emulated.options = replace(emulated.options, budget=budget)
        return self.inner.launch(kernel, launch)

    def reported(self) -> Any:
        return self.inner.reported()


@dataclass(slots=True)
class Workbench:
    """Runs cases of one variant of a card."""

    # card, variant, arch: what runs, as what
    card: Card
    variant: Variant
    arch: str
    backend: Backend  # loads kernels, with the engine's checks in its options
    checks: Sequence[Check]  # to ask after each run
    compiler: SubjectCompiler  # of the source, as it stands and changed
    # seed, inputs: in place of the card's; None and "" for its own
    seed: int | None = None
    inputs: str = ""
    launch: LaunchShape | None = None  # in place of the card's, or None
    _used: dict[str, int] = field(default_factory=dict)
    _sessions: dict[tuple[tuple[str, str], ...], tuple[CardSession, _Recording]] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        """The variant's source file."""
        return self.variant.source or self.card.source

    def cases(self) -> list[Case]:
        """The card's cases, the smallest first."""
        return sorted(self.card.cases, key=_size)

    def run(self, case: Case, texts: Texts | None = None, *, inputs: str = "", seed: int | None = None) -> CaseRun:
        """Compile (once per text), run and judge one case. Nothing that the kernel does raises.

        Args:
            texts: resolved path → text, of the source or of headers that it includes; the others are as they stand.
            inputs, seed: in place of the bench's own.
        """
        session, runs = self._session(texts or {})
        wanted = self.seed if seed is None else seed
        variant = self.variant if self.launch is None else replace(self.variant, launch=self.launch)
        if texts or self.launch is not None:
            runs.budget = self._budget(case)
        runs.found = ()
        result, bound, verdict = run_case(session, case, variant, wanted, inputs or self.inputs)
        kernel = compilation = context = None
        error: WmmadiagError | None = runs.error
        try:
            loaded = session.kernel(case, self.variant)
            kernel, compilation = loaded.kernel, loaded.compilation
        except WmmadiagError as failed:
            error = failed
        emulated = emulator_of(kernel) if kernel is not None else None
        if emulated is not None and bound is not None:
            context = Context(emulated.kernel, bound.launch, emulated.named_memory(bound.launch))
        wrong = wrong_masks(bound, verdict) if bound is not None and verdict is not None else {}
        found = runs.found if isinstance(kernel, Together) else runs.inner.found
        if not texts:
            self._used[case.name] = max(result.warp_instructions, self._used.get(case.name, 0))
        return CaseRun(
            result, bound, verdict, kernel, compilation, found, error, context, wrong
        )  # fmt: skip

    def launched(self, shape: LaunchShape) -> Workbench:
        """A bench with another launch of the same kernels."""
        return replace(self, launch=shape, _used=dict(self._used))

    def assume(self, card: Card) -> None:
        """Take another reading of the card from here on."""
        self.card = card
        self._sessions.clear()

    def _budget(self, case: Case) -> Budget:
        """What a changed kernel may use for a case; what the case itself used is 0 where it did not end."""
        if case.name not in self._used:
            return _USUAL
        return Budget(max(_TIMES * self._used[case.name], _LEAST), seconds=0)

    def _session(self, texts: Texts) -> tuple[CardSession, _Recording]:
        key = tuple(sorted((str(path), text) for path, text in texts.items()))
        if key not in self._sessions:
            runs = _Recording(CheckedRuns(self.checks))
            compiler = self.compiler if not texts else partial(self.compiler.changed, texts=texts)
            self._sessions[key] = (
                CardSession(self.card, self.arch, self.backend, compiler, runs, readings=not texts),
                runs,
            )
            while len(self._sessions) > 64:
                self._sessions.pop(next(iter(self._sessions)))
        return self._sessions[key]


def _size(case: Case) -> float:
    """A rough measure of a case's work: the product of its numbers."""
    return math.prod(float(value) for value in case.symbols.values() if isinstance(value, int) and value > 0)
