"""Nothing that anybody states: only the checks judge a run."""

from __future__ import annotations

from wmmadiag.ops.model import Operation

OPERATION = Operation(name="none", meaning="nothing is expected of the numbers: only the checks judge", judged=False)
