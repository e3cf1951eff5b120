"""How many places share what a change alters: those that name the constant, macro or variable that it gives its value.

A constant and the code that is written for it are two ends of one agreement, as a kernel and its launch are: with one
stage, no buffer is ever the wrong one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import named_by
from wmmadiag.diagnose.changes import Change

AGREED = 3
"""Places that name a constant, from which on it is taken for an end of an agreement."""
_NAME = re.compile(r"[A-Za-z_]\w*")


class Sharing:
    """The names of some sources, counted once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources
        self._named: dict[tuple[str, int], str] = {}  # file and byte → what `named_by` says of it
        self._macros = {name: macro.body for source in sources.values() for name, macro in source.code.macros.items()}
        texts = [source.code.code.decode("utf-8", "replace") for source in sources.values()]
        self._names = Counter(name for text in (*texts, *self._macros.values()) for name in _NAME.findall(text))

    def uses(self, change: Change) -> int | None:
        """Places that name what the declaration around a change makes; None where it is part of none."""
        edit = change.edits[0]
        place = edit.file, edit.start
        if place not in self._named:
            self._named[place] = named_by(self._sources[edit.file], edit.start)
        name = self._named[place]
        return self._names[name] - (name not in self._macros) if name else None

    def agreed(self, change: Change) -> bool:
        """Whether a change is of a constant that several places are written for."""
        return change.role == "constant" and (self.uses(change) or 0) >= AGREED
