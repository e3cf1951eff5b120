"""What whole runs of the target say: findings, wrong outputs, provenance. Each is run once, when asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Context, all_checks, each_finding, native_names, select
from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.machine import StoppableLaunch
from wmmadiag.debugger.target import Target
from wmmadiag.emulator import Budget, EmulatedKernel, EmulatorOptions
from wmmadiag.errors import BudgetError, ConfigurationError, UndecidedError, WmmadiagError, did_you_mean
from wmmadiag.provenance import ProvenanceRun, trace
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.verdict import judge_case, wrong_masks

_PATIENCE = 5.0
"""Seconds after which it is asked whether the launch ends at all."""


@dataclass(frozen=True, slots=True)
class SeenFinding:
    """A finding, and what the engine saw first: None for one that no engine check made."""

    finding: Finding
    raw: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class WholeRun:
    """One run to the end."""

    case: BoundCase  # its arrays hold what the run left
    error: WmmadiagError | None  # what the launch died of, or None
    found: tuple[SeenFinding, ...]  # findings, the gravest first
    wrong: Mapping[str, NDArray[np.bool_]]  # role → mask of wrong elements; empty when the launch died
    expected: Mapping[str, NDArray[np.float64]]  # role → the oracle's values


class Evidence:
    """Whole runs of one target."""

    def __init__(self, target: Target) -> None:
        self.target = target

    @cached_property
    def run(self) -> WholeRun:
        """The target with the default checks, judged."""
        checks = select("default")
        options = replace(self.target.kernel.options, checks=native_names(checks), threads=0)
        kernel, case, error = self._launched(replace(options, budget=Budget(seconds=_PATIENCE)))
        if isinstance(error, BudgetError) and self._ends():
            kernel, case, error = self._launched(options)
        context = Context(kernel.kernel, case.launch, kernel.named_memory(case.launch))
        found = [SeenFinding(one, raw) for one, raw in each_finding(kernel, context, checks)]
        levels = list(Level)
        found.sort(key=lambda one: levels.index(one.finding.level))
        if error is not None:
            return WholeRun(case, error, tuple(found), {}, {})
        verdict = judge_case(case)
        return WholeRun(case, None, tuple(found), wrong_masks(case, verdict), verdict.expected)

    def _launched(self, options: EmulatorOptions) -> tuple[EmulatedKernel, BoundCase, WmmadiagError | None]:
        kernel, case = self._kernel(options), self.target.bind()
        try:
            kernel.launch(case.launch)
        except ConfigurationError:
            raise
        except WmmadiagError as caught:
            return kernel, case, caught
        return kernel, case, None

    def _ends(self) -> bool:
        """Whether the launch ends at all, as far as that can be known."""
        return StoppableLaunch(self.target.kernel, self.target.bind().launch).run(Conditions()).reason != "stuck"

    @cached_property
    def provenance(self) -> ProvenanceRun | None:
        """The traced run; None where the launch dies or cannot be traced."""
        try:
            return trace(self.target.bind(), self._kernel(replace(self.target.kernel.options, checks=())))
        except (UndecidedError, WmmadiagError):
            return None

    def errors(self) -> tuple[SeenFinding, ...]:
        """Findings that make a case fail."""
        return tuple(one for one in self.run.found if one.finding.level is Level.ERROR)

    def of_check(self, name: str) -> tuple[SeenFinding, ...]:
        """Findings of one check.

        Raises:
            ConfigurationError: there is no such check.
        """
        known = all_checks()
        if name not in known:
            raise ConfigurationError(f"there is no check '{name}'", hint=did_you_mean(name, list(known)))
        return tuple(one for one in self.run.found if one.finding.check == name)

    def _kernel(self, options: EmulatorOptions) -> EmulatedKernel:
        made = self.target.kernel
        return EmulatedKernel(made.kernel, options, made.origin)
