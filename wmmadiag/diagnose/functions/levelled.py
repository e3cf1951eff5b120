"""Runs with an input that does not vary along one axis: where the kernel is right then, that axis's index is suspect.

An input that is the same at every index of an axis is read right whichever index is computed. Nothing need be known of
the operation: the reference gets the same input.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.trials.workbench import CaseRun
from wmmadiag.emulator import Budget, EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.verdict import judge_case

_SECONDS, _RUN = 2.0, Budget(seconds=3.0)
"""For all runs together, and for one."""


@dataclass(frozen=True, slots=True)
class Levelled:
    """The kernel is right where an input does not vary along an axis.

    Attributes:
        roles: of the input; several where one line reads them all.
        axis: of them; `axes`: how many they have; `extent`: of this one.
    """

    roles: tuple[str, ...]
    axis: int
    axes: int
    extent: int


def levelled(run: CaseRun, together: Sequence[tuple[str, ...]] = ()) -> tuple[Levelled, ...]:
    """Empty where the run cannot be repeated, or no input makes it right.

    Args:
        together: inputs of one shape that the same line reads: what is wrong there is wrong for all of them.
    """
    kernel = emulator_of(run.kernel) if run.kernel is not None else None
    old = run.bound
    if kernel is None or old is None or run.verdict is None:
        return ()
    started = time.perf_counter()
    options = replace(kernel.options, checks=(), check_table=(), observer=None, budget=_RUN)
    found = []
    for roles, axis in _axes(old, together):
        if time.perf_counter() - started > _SECONDS:
            break
        case = bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution)
        for role in roles:
            _level(case, role, axis)
        try:
            EmulatedKernel(kernel.kernel, options).launch(case.launch)
            verdict = judge_case(case)
        except WmmadiagError:
            continue
        if verdict.status == "passed":
            shape = case.inputs()[roles[0]].shape
            found.append(Levelled(roles, axis, len(shape), shape[axis]))
    return tuple(found)


def _axes(case: BoundCase, together: Sequence[tuple[str, ...]]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Axes of the inputs that hold numbers; a table of indices means something else where all are the same."""
    elements, inputs = case.elements(), case.inputs()
    numbers = [role for role in inputs if elements[role].is_float or elements[role].bytes == 1]
    groups = [some for some in together if set(some) <= set(numbers) and len({inputs[one].shape for one in some}) == 1]
    for roles in (*((role,) for role in numbers), *groups):
        for axis, extent in enumerate(inputs[roles[0]].shape):
            if extent > 1:
                yield roles, axis


def _level(case: BoundCase, role: str, axis: int) -> None:
    """Give every index of an axis the numbers of its first; also in what the reference gets."""
    argument = case.argument_of(role)
    for array in (argument.view(role), argument.original_view(role)):
        array[...] = np.take(array, [0], axis)
