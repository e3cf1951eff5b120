"""Disagreements of a traced case as findings of a check."""

from __future__ import annotations

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.run import emulator_of, reported
from wmmadiag.errors import WmmadiagError
from wmmadiag.launch import LoadedKernel
from wmmadiag.place import Place
from wmmadiag.provenance.trace import trace
from wmmadiag.results.model import ReportedFinding
from wmmadiag.subject.binding import BoundCase


def traced_findings(case: BoundCase, kernel: LoadedKernel) -> tuple[ReportedFinding, ...]:
    """Trace a case, bound anew; what disagreed, or why it could not be followed.

    Nothing on a kernel that runs on a GPU alone.
    """
    emulated = emulator_of(kernel)
    if emulated is None:
        return ()
    try:
        run = trace(case, emulated)
    except WmmadiagError as error:
        place = error.place or Place("", 0, 0)
        message = f"values are not followed: {error.message}"
        return (reported(Finding("provenance", "not-followed", Level.ADVICE, message, place, hint=error.hint)),)
    return tuple(reported(one.finding()) for one in run.disagreements)
