"""The bounds under the names by which `diagnose/` imports them; they are in `wmmadiag.ops`."""

from wmmadiag.ops.evaluation import judge, tolerance
from wmmadiag.ops.parts.rounding import Judgement

__all__ = ["Judgement", "judge", "tolerance"]
