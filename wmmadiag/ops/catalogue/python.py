"""Whatever else a kernel computes: a Python function of the user's says what."""

from __future__ import annotations

from wmmadiag.ops.model import Operation
from wmmadiag.ops.parts.hard_inputs import SCORES

OPERATION = Operation(name="python", meaning="what a Python function of yours computes", hard_inputs=SCORES)
