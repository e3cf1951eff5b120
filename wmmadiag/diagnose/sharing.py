"""How many places share what a change alters: those that name the constant, macro or variable that it gives its value.

A constant and the code that is written for it are two ends of one agreement, as a kernel and its launch are: with one
stage, no buffer is ever the wrong one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from wmmadiag.csource.nodes import ancestors, at
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
            word = re.compile(rf"\b{re.escape(waiting.pop())}\b")
            made = {macro for macro, body in self._macros.items() if word.search(body)}
            made |= {one for source in self._sources.values() for one in _constants_with(source, word)}
            waiting += made - found
            found |= made
        return found - {name}


def _constants_with(source: Source, word: re.Pattern[str]) -> Iterator[str]:
    """The `constexpr` constants of a source whose declaration has a word."""
    for match in re.finditer(word.pattern.encode(), source.code.code):
        for one in ancestors(at(source.root, match.start())):
            if one.type in ("declaration", "field_declaration"):
                yield from (held.name for held in declared(source, one) if held.constant)
                break
