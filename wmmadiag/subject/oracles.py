"""The references under the names by which `diagnose/` imports them; they are in `wmmadiag.ops`."""

from wmmadiag.ops.evaluation import reference
from wmmadiag.ops.parts.scores import as_heads

__all__ = ["as_heads", "reference"]
