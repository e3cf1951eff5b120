"""What a report shows besides numbers in a table: error maps of failing cases, who wrote each tile, the sources.

Collected while a check runs (`Recorder`), kept as plain data (`wmmadiag.results.run`).
"""

from __future__ import annotations

from wmmadiag.recording.recorder import MAX_SOURCE, Recorder, run_of, versions

__all__ = ["MAX_SOURCE", "Recorder", "run_of", "versions"]
