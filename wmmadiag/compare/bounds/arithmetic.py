"""The rounding models under the name by which `diagnose/` imports them; they are in `wmmadiag.ops.parts.rounding`."""

from wmmadiag.ops.parts.rounding import arithmetic

__all__ = ["arithmetic"]
