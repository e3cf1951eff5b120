"""Epilogues under the name by which `diagnose/` imports them; they are in `wmmadiag.ops.parts.epilogue`."""

from wmmadiag.ops.parts.epilogue import FUNCTIONS, NEUTRAL, finished, spread

__all__ = ["FUNCTIONS", "NEUTRAL", "finished", "spread"]
