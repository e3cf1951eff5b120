"""Variables that a change leaves without a reader, or gives their first one; and functions, macros and members their
first use.

Nobody makes a value that nothing reads: a change after which nothing reads it was seldom meant, and where nothing reads
it as the source stands, what reads it is what is missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.scopes import Scopes
from wmmadiag.csource.tree import Source
from wmmadiag.csource.units import CodeUnit, Key, read_units
from wmmadiag.diagnose.changes import Change, TextEdit

_KINDS = ("local", "parameter")
_NAME = re.compile(r"[A-Za-z_]\w*")


class Readers:
    """Which statements of some sources read which variable."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._texts = {file: source.data.decode("latin-1") for file, source in sources.items()}
        self._readers: dict[Key, set[CodeUnit]] = {}
        self._units: dict[str, list[CodeUnit]] = {}
        written: set[Key] = set()
        for unit in read_units(sources).units:
            self._units.setdefault(unit.file, []).append(unit)
            written |= unit.stores
            for key in unit.uses | unit.places | unit.calls:
                if not self._own(unit, key):
                    self._readers.setdefault(key, set()).add(unit)
        self._named: dict[str, set[Key]] = {}
        self._unread: set[str] = set()
        for file, source in sources.items():
            for one in (extent.variable for extent in Scopes(source).extents):
                if one.name and one.kind in _KINDS:
                    key = file, one.declarator.start_byte
                    self._named.setdefault(one.name, set()).add(key)
                    memory = one.pointers or one.reference or one.dimensions
                    if key not in self._readers and not (memory and key in written):
                        self._unread.add(one.name)
        self._unread |= _unnamed(sources) | _unread_members(sources)
        self._known: dict[tuple[str, int, int], Sequence[str]] = {}
        self._names: dict[CodeUnit, Counter[str]] = {}  # of statements' own texts, read once each

    def _own(self, unit: CodeUnit, key: Key) -> bool:
        """Whether a statement reads a variable for the variable alone, as `x = max(x, y)` does."""
        if key not in unit.stores | unit.defines or key[0] != unit.file:
            return False
        first = _NAME.match(self._texts[unit.file], unit.start)
        own = _NAME.match(self._texts[unit.file], int(key[1]))
        return first is not None and own is not None and first[0] == own[0]

    def words(self, change: Change) -> Iterator[str]:
        """What a change does to variables, in words that weights are given to."""
        more: dict[str, int] = {}  # how much more often each name stands there
        for edit in change.edits:
            for name in self._gone(edit):
                more[name] = more.get(name, 0) - 1
        gone = list(more)
        come = [name for edit in change.edits for name in _names_of(edit.text)]
        for name in come:
            more[name] = more.get(name, 0) + 1
        if any(count > 0 and name in self._unread for name, count in more.items()):
            yield "reader:first"
        if any(self._left(change, name) for name in gone if name not in come and name in self._named):
            yield "reader:last"

    def _left(self, change: Change, name: str) -> bool:
        """Whether nothing reads a variable any more that a change names less often."""
        for key in self._named[name]:
            readers = self._readers.get(key, set())
            if readers and all(self._named_no_more(unit, change, name) for unit in readers):
                return True
        return False

    def _named_no_more(self, unit: CodeUnit, change: Change, name: str) -> bool:
        """Whether a statement names a variable no longer once a change is made."""
        edits = [
            one for one in change.edits if one.file == unit.file and unit.start <= one.start and one.end <= unit.end
        ]
        if not edits:
            return False
        if unit not in self._names:
            self._names[unit] = Counter(_NAME.findall(self._texts[unit.file][unit.start : self._end(unit)]))
        return self._names[unit][name] <= sum(self._gone(edit).count(name) for edit in edits)

    def _end(self, unit: CodeUnit) -> int:
        """Where a statement's own text ends, without what it governs."""
        inner = [one.start for one in self._units[unit.file] if unit in one.around and one.start > unit.start]
        return min(inner, default=unit.end)

    def _gone(self, edit: TextEdit) -> Sequence[str]:
        """The names that an edit takes away, each as often as it stands there."""
        place = edit.file, edit.start, edit.end
        if place not in self._known:
            self._known[place] = _NAME.findall(self._texts[edit.file], edit.start, edit.end)
        return self._known[place]


@lru_cache(maxsize=1 << 14)
def _names_of(text: str) -> tuple[str, ...]:
    """The names in what an edit puts in: many put in the same."""
    return tuple(_NAME.findall(text))


def _unnamed(sources: Mapping[str, Source]) -> set[str]:
    """The functions of a device, and the macros, that nothing but their definitions names."""
    named = Counter[str]()
    defined = Counter[str]()
    for source in sources.values():
        bodies = (macro.body for macro in source.code.macros.values())
        named.update(name for text in (source.code.code.decode("latin-1"), *bodies) for name in _NAME.findall(text))
        found = (one for one in declarations(source).functions if one.body is not None and not one.kernel)
        defined.update(one.name for one in found if not one.name.startswith("operator"))
        defined.update(dict.fromkeys(source.code.macros, 0))
    return {name for name, times in defined.items() if named[name] == times}


def _unread_members(sources: Mapping[str, Source]) -> set[str]:
    """The members of classes that no device code names, where it names another one of their class."""
    named = set[str]()
    held: list[set[str]] = []
    for source in sources.values():
        found = declarations(source)
        bodies = (one.body for one in found.functions if one.device and one.body is not None)
        texts = [source.slice(body.start_byte, body.end_byte) for body in bodies]
        texts += [macro.body for macro in source.code.macros.values()]
        named.update(name for text in texts for name in _NAME.findall(text))
        held += [{one.name for one in record.members if "static" not in one.words} for record in found.records]
    return {name for members in held if members & named for name in members - named}
