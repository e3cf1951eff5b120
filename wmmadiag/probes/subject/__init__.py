"""Probes of a user's whole kernel, unchanged, on inputs chosen so that the answer shows the fault.

Only outputs are looked at, so that all of it works on a GPU, too; what needs the emulator says that it does not apply.
"""

from __future__ import annotations

from wmmadiag.probes.subject.model import ProbeAnswer
from wmmadiag.probes.subject.run import run_subject_probes

__all__ = ["ProbeAnswer", "run_subject_probes"]
