"""One launch of one kernel with checks, for those who have arrays and no card."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Check
from wmmadiag.checks.run import CheckedRuns
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch, LoadedKernel
from wmmadiag.place import Place, own_place


def check_launch(
    kernel: LoadedKernel, launch: Launch, checks: Sequence[Check], schedules: int = 0
) -> tuple[Finding, ...]:
    """What the checks found; a launch that died is the first finding. Arrays are changed in place.

    The kernel must have been loaded with `native_names(checks)` in its options.

    Raises:
        ConfigurationError, BudgetError, UnsupportedError: as `LoadedKernel.launch`.
    """
    runs = CheckedRuns(tuple(checks), schedules)
    try:
        runs.launch(kernel, launch)
    except KernelFault as fault:
        end = died(fault)
        # The access that ended the run has left its array, too: said once.
        return (end, *(one for one in runs.found if one.check != "memory" or one.place.line != end.place.line))
    return runs.found


def died(fault: KernelFault) -> Finding:
    """A fault as a finding at the user's own line."""
    return Finding(
        check="launch",
        kind=fault.kind,
        level=Level.ERROR,
        message=fault.message,
        place=own_place(fault.place) if fault.place is not None else Place("", 0),
        detail=tuple(line.strip() for line in fault.detail.splitlines()),
        hint=fault.hint,
    )
