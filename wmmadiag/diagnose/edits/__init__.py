"""Candidate one-place edits that would mend a fault, from what the source says; the likeliest first.

Every module of this package but a few is a generator: it says in its docstring what fault it mends, and adds itself
with `@generator`.
"""

from __future__ import annotations

from wmmadiag.diagnose.edits.model import Change, Edit, apply, diff
from wmmadiag.diagnose.edits.registry import Generator, edits, generators

__all__ = ["Change", "Edit", "Generator", "apply", "diff", "edits", "generators"]
