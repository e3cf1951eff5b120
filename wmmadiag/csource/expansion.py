"""How many tokens macros expand to, without expanding them.

A macro with parameters is a linear function of the tokens of its arguments, so that sizes compose: what would take the
preprocessor forever is known at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from wmmadiag.csource.lexical import Macro

MOST = 10**12
"""Where counting ends."""
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\S")


@dataclass(frozen=True, slots=True)
class Size:
    """Tokens: `fixed`, and `times` those of the arguments; at most `MOST` each."""

    fixed: int
    times: int = 0

    def of(self, argument: Size) -> Size:
        """The size with an argument put in."""
        return Size(min(MOST, self.fixed + self.times * argument.fixed), min(MOST, self.times * argument.times))


@dataclass(slots=True)
class _Invocation:
    """A macro invocation whose closing bracket is yet to come."""

    macro: Size
    start: int
    fixed: int = 0
    times: int = 0
    depth: int = 0


def sizes(macros: Mapping[str, Macro]) -> dict[str, Size]:
    """Macro → its size; a macro that is met while it is expanded itself is one token, as the standard has it."""
    known: dict[str, Size] = {}
    begun: set[str] = set()
    waiting = list(macros)
    while waiting:
        name = waiting[-1]
        one = macros[name]
        inner = {word for body in one.bodies for word in _TOKEN.findall(body)} & macros.keys()
        missing = [word for word in inner if word not in known and word not in begun]
        if name not in begun and missing and name not in known:
            begun.add(name)
            waiting += missing
            continue
        waiting.pop()
        if name not in known:
            parameters = frozenset(one.parameters or ()) | {"__VA_ARGS__"}
            found = [_size(_TOKEN.findall(body), known, macros, parameters) for body in one.bodies]
            known[name] = Size(max(size.fixed for size in found), max(size.times for size in found))
    return known


def uses(code: str, known: Mapping[str, Size], macros: Mapping[str, Macro]) -> Iterator[tuple[int, str, int]]:
    """(offset, macro, tokens) of each outermost macro invocation in some code."""
    matches = list(_TOKEN.finditer(code))
    words = [match[0] for match in matches]
    for index, name, size in _calls(words, known, macros, frozenset()):
        yield matches[index].start(), name, size.fixed


def _size(
    words: Iterable[str], known: Mapping[str, Size], macros: Mapping[str, Macro], parameters: frozenset[str]
) -> Size:
    listed = list(words)
    inside = list(_calls(listed, known, macros, parameters))
    fixed = sum(size.fixed for _, _, size in inside)
    return Size(min(MOST, fixed), min(MOST, sum(size.times for _, _, size in inside)))


def _calls(
    words: list[str], known: Mapping[str, Size], macros: Mapping[str, Macro], parameters: frozenset[str]
) -> Iterator[tuple[int, str, Size]]:
    """(index, word, size) of each token at the outermost level, a macro's with its arguments."""
    open_ones: list[_Invocation] = []
    for index, word in enumerate(words):
        if open_ones and word in "()":
            call = open_ones[-1]
            call.depth += 1 if word == "(" else -1
            if call.depth > 0:
                call.fixed += call.depth > 1 or word == ")"
                continue
            open_ones.pop()
            name, size = words[call.start], call.macro.of(Size(call.fixed, call.times))
            start = call.start
        elif word in known and macros[word].parameters is not None and words[index + 1 : index + 2] == ["("]:
            open_ones.append(_Invocation(known[word], index))
            continue
        else:
            plain = Size(0, 1) if word in parameters else Size(1)
            name, size, start = word, known[word] if word in known and macros[word].parameters is None else plain, index
        if open_ones:
            open_ones[-1].fixed = min(MOST, open_ones[-1].fixed + size.fixed)
            open_ones[-1].times = min(MOST, open_ones[-1].times + size.times)
        else:
            yield start, name, size
