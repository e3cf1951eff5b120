"""What a report shows besides numbers in a table: error maps of failing cases, who wrote each tile, the sources.

Collected while a check runs (`ReportRecorder`), kept as plain data (`wmmadiag.results.run`).
"""

from __future__ import annotations

from wmmadiag.recording.recorder import MAX_SOURCE, ReportRecorder, run_of, versions

__all__ = ["MAX_SOURCE", "ReportRecorder", "run_of", "versions"]
