"""Whatever else a kernel computes: a Python function of the user's says what."""

from __future__ import annotations

from wmmadiag.ops.model import Operation

OPERATION = Operation("python", "what a Python function of yours computes", {}, {})
