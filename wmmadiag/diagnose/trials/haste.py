"""The kernel as it is, compiled like programs of trials: in as much haste as leaves it doing what the kernel does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wmmadiag.diagnose.trials.compiled import Program
from wmmadiag.diagnose.trials.outcomes import faithful
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.emulator.trials import TrialBase, TrialLaunch
from wmmadiag.errors import WmmadiagError

_WAYS: tuple[Mapping[str, object], ...] = ({}, {"ahead": False}, {"level": "full"})
"""Attributes of `Programs` that are other than they were: headers where they stand, as for the user's own program."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A program without a change, and what it does."""

    program: Program
    base: TrialBase
    launch: TrialLaunch


class Unchanged:
    """The kernel as it is, compiled like what is tried.

    Args:
        own: the user's own program.
        run: what another one does.
    """

    def __init__(self, programs: Programs, own: Plain, run: Callable[[Program], Plain]) -> None:
        self.own = own
        self._programs, self._run = programs, run
        self._plain: Plain | None = None
        self._trusted = programs.dear  # whether no program did anything else yet

    @property
    def plain(self) -> Plain:
        """It, made when it is first asked for; where that is dear, the user's own program stands in for it."""
        if self._trusted:
            return self.own
        if self._plain is None:
            self._plain = _hurried(self._programs, self.own, self._run)
        return self._plain

    def doubted(self) -> bool:
        """A program with changes does else than the kernel: whether all are compiled otherwise from now on."""
        before, self._trusted = self._programs.how, False
        self._plain = self.plain  # made now, if it was not: that finds out how programs are compiled
        return self._programs.how != before


def _hurried(programs: Programs, own: Plain, run: Callable[[Program], Plain]) -> Plain:
    """The program made in haste, if it is wrong in the same elements as the kernel's own; else that one.

    `programs` then compiles everything else in the same way.
    """
    for otherwise in _WAYS:
        before = {name: getattr(programs, name) for name in otherwise}
        if before and before == otherwise:
            continue
        for name, value in otherwise.items():
            setattr(programs, name, value)
        with contextlib.suppress(WmmadiagError):
            made = run(programs.plain())
            if faithful(made.base.result, own.base.result):
                return made
        for name, value in before.items():
            setattr(programs, name, value)
    programs.level, programs.rolled = "full", False
    return own
