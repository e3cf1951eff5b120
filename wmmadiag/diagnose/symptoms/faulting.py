"""What a run that ended early, or left elements out, says of itself."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.errors import KernelFault

OUTSIDE = ("out-of-bounds", "read-only", "wrong-space")
"""Kinds of faults of an access that leaves its memory."""


def faulting_op(evidence: Evidence) -> str:
    """The PTX operation that ended the run, "wmma.load.a.sync"…; "" where none did."""
    error = evidence.run.error
    return error.op if isinstance(error, KernelFault) else ""


def unwritten_share(evidence: Evidence) -> Iterator[tuple[str, int, int]]:
    """(name, unwritten elements, elements) of outputs that the kernel did not write wholly."""
    for seen in evidence.run.result.observations:
        if seen.unwritten and seen.against == "reference":
            yield seen.output, seen.unwritten, seen.elements
