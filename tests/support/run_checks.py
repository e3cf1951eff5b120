"""One launch under checks."""

from __future__ import annotations

from collections.abc import Iterable

from wmmadiag.checks.finding import Finding
from wmmadiag.checks.registry import Check
from wmmadiag.checks.run import CheckedRuns
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import Launch


def run_checks(kernel: EmulatedKernel, launch: Launch, checks: Iterable[Check]) -> tuple[Finding, ...]:
    """Launch a kernel and return what the checks found; a launch that dies leaves what was found until then.

    The kernel must have been loaded with `native_names(checks)` in its options.

    Raises:
        WmmadiagError: the launch could not even begin.
    """
    runs = CheckedRuns(tuple(checks))
    try:
        runs.launch(kernel, launch)
    except WmmadiagError:
        if not runs.found:
            raise
    return runs.found
