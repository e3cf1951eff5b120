"""PTX text to a typed, verified intermediate representation (`ir`), each instruction with its place in the source."""

from __future__ import annotations

from wmmadiag.ptx.listing import dump
from wmmadiag.ptx.parser import parse, parse_each

__all__ = ["dump", "parse", "parse_each"]
