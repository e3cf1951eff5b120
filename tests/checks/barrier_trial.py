"""Tries a missing barrier: puts it into the PTX, runs again, and says whether the race is gone.

The compiler arranged the code without that barrier, so a value that it kept in a register across the place stays old:
`REMAINS` at this level is no proof against the barrier, `GONE` is one for it. Trying it in the source compiles anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag import emulator
from wmmadiag.checks.barrier_place import BarrierPlace
from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Check, native_names, select
from wmmadiag.checks.run import CheckedRuns
from wmmadiag.emulator import EmulatorOptions
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch


class Outcome(str, Enum):
    """What became of the race.

    GONE: no finding between the two lines is left, and none is new.
    REMAINS: it is still found.
    OTHER: it is gone, but another error is found that was not there before.
    FAILED: the kernel with the barrier does not run to its end, or the PTX is refused.
    """

    GONE = "gone"
    REMAINS = "remains"
    OTHER = "other"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BarrierTrial:
    """The result of a trial.

    Attributes:
        outcome: what became of the race.
        findings: of the run with the barrier.
        changed: per argument that is an array, how many elements differ in their bits from the run without it.
        arrays: the arguments as the run with the barrier left them, by their position.
        problem: why it failed, in one sentence, or "".
    """

    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    changed: tuple[tuple[str, int], ...] = ()
    arrays: tuple[tuple[int, NDArray[np.generic]], ...] = ()
    problem: str = ""


def with_barriers(ptx: str, places: Sequence[BarrierPlace]) -> str:
    """The PTX with the instructions of each place before its line."""
    lines = ptx.split("\n")
    for place in sorted(places, key=lambda one: -one.ptx_line):
        lines[place.ptx_line - 1 : place.ptx_line - 1] = [f"\t{text}" for text in place.ptx]
    return "\n".join(lines)


def try_barrier(
    ptx: str,
    entry: str,
    launch: Launch,
    finding: Finding,
    places: Sequence[BarrierPlace],
    *,
    arch: str = "",
    options: EmulatorOptions | None = None,
    checks: Sequence[Check] = (),
) -> BarrierTrial:
    """Run a kernel with barriers at some places, and compare with the run without them.

    Args:
        ptx, entry, arch: as for `emulator.load`: the module in which `finding` was found.
        launch: its arrays must hold the inputs; they are as before afterwards.
        finding: the race to be rid of.
        places: of `missing_barriers`.
        options: how to run; its checks are replaced.
        checks: which must find nothing new; races, async and barriers when empty.

    Raises:
        WmmadiagError: the kernel without the barrier cannot be loaded or launched.
    """
    chosen = tuple(checks) or select("races,async,barriers")
    how = replace(options or EmulatorOptions(), checks=native_names(chosen))
    before = emulator.load(ptx, entry, arch=arch, options=how)
    with_nothing, plain = _run(before, launch, chosen, must_end=False)
    try:
        after = emulator.load(with_barriers(ptx, places), entry, arch=arch, options=how)
        found, mended = _run(after, launch, chosen, must_end=True)
    except WmmadiagError as error:
        return BarrierTrial(Outcome.FAILED, problem=error.message)
    changed = tuple(
        (launch.names[index] if index < len(launch.names) else f"argument {index}", _different(plain[index], array))
        for index, array in mended.items()
    )
    known = {_key(one) for one in with_nothing}
    errors = [one for one in found if one.level is Level.ERROR]
    if any(_key(one) == _key(finding) for one in found):
        outcome = Outcome.REMAINS
    else:
        outcome = Outcome.OTHER if any(_key(one) not in known for one in errors) else Outcome.GONE
    return BarrierTrial(outcome, found, changed, tuple(mended.items()))


def _key(finding: Finding) -> tuple[object, ...]:
    lines = {(one.file, one.line) for one in (finding.place, finding.other) if one is not None}
    return finding.check, finding.kind, frozenset(lines)


Arrays: TypeAlias = dict[int, NDArray[np.generic]]
_Run: TypeAlias = tuple[tuple[Finding, ...], Arrays]


def _run(kernel: emulator.EmulatedKernel, launch: Launch, checks: Sequence[Check], *, must_end: bool) -> _Run:
    arrays = {i: a for i, a in enumerate(launch.arguments) if isinstance(a, np.ndarray) and a.flags.writeable}
    kept = {index: array.copy() for index, array in arrays.items()}
    runs = CheckedRuns(checks)
    try:
        runs.launch(kernel, launch)
    except WmmadiagError:
        if must_end or not runs.found:
            raise
    finally:
        left = {index: array.copy() for index, array in arrays.items()}
        for index, array in arrays.items():
            array[...] = kept[index]
    return runs.found, left


def _different(one: NDArray[np.generic], other: NDArray[np.generic]) -> int:
    bits = (np.ascontiguousarray(a).reshape(-1).view(np.uint8).reshape(a.size, -1) for a in (one, other))
    return int(np.any(np.not_equal(*bits), axis=1).sum()) if one.size else 0
