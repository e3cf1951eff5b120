"""How many places share what a change alters: those that name the constant, macro or variable that it gives its value.

A constant and the code that is written for it are two ends of one agreement, as a kernel and its launch are: with one
stage, no buffer is ever the wrong one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import declared, named_by
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
        self._reach: dict[str, int] = {}  # name → places that hang on it, of those that were asked for

    def uses(self, change: Change) -> int | None:
        """Places that name what the declaration around a change makes; None where it is part of none."""
        edit = change.edits[0]
        place = edit.file, edit.start
        if place not in self._named:
            self._named[place] = named_by(self._sources[edit.file], edit.start)
        name = self._named[place]
        return self._names[name] - (name not in self._macros) if name else None

    def agreed(self, change: Change) -> bool:
        """Whether a change is of a constant that several places are written for, through others made of it too."""
        if change.role != "constant" or self.uses(change) is None:
            return False
        edit = change.edits[0]
        name = self._named[edit.file, edit.start]
        if name not in self._reach:
            own, made = self._uses_of({name}), self._made_of(name)
            self._reach[name] = max(own, own + self._uses_of(made) - len(made))  # each is named once to make another
        return self._reach[name] >= AGREED

    def _uses_of(self, names: set[str]) -> int:
        return sum(self._names[name] - (name not in self._macros) for name in names)

    def _made_of(self, name: str) -> set[str]:
        """The macros and constants that are made of one, and of those in turn."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            made = self._makes.get(waiting.pop(), set())
            waiting += made - found
            found |= made
        return found - {name}

    @cached_property
    def _makes(self) -> Mapping[str, set[str]]:
        """The macros and `constexpr` constants by the names that they are made of."""
        bodies = list(self._macros.items())
        for source in self._sources.values():
            for node in descendants(source.root, "declaration", "field_declaration"):
                text = source.code.code[node.start_byte : node.end_byte].decode("utf-8", "replace")
                bodies += [(one.name, text) for one in declared(source, node) if one.constant]
        found: dict[str, set[str]] = {}
        for name, body in bodies:
            for word in _NAME.findall(body):
                found.setdefault(word, set()).add(name)
        return found
