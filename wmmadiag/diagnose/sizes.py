"""Sizes that nobody asked for: on which of them changes that mend every case differ tells which one is general.

A change that replaces a stride by a number that happens to be the stride is right at every size that was tried. Other
sizes are tried for no verdict on the kernel: it may not be made for them. But where one change is right and another is
not, the first one is what was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wmmadiag.subject.card import Case

_MOST = 4


def further_sizes(cases: Sequence[Case], case: Case) -> list[Case]:
    """The case with one of its numbers at another value: another case's, or one and a half or two times its own."""
    found: dict[tuple[tuple[str, object], ...], Case] = {}
    known = {tuple(one.symbols.items()) for one in cases}
    for symbols in _varied(cases, case):
        key = tuple(symbols.items())
        if key not in known:
            found.setdefault(key, replace(case, name=f"{case.name}, other sizes", symbols=symbols))
    return list(found.values())[:_MOST]


def _varied(cases: Sequence[Case], case: Case) -> Iterator[Mapping[str, str | int | float]]:
    numbers = [name for name, value in case.symbols.items() if isinstance(value, int) and value > 1]
    for name in numbers:
        value = int(case.symbols[name])
        for other in (value + value // 2, 2 * value):
            if other != value:
                yield {**case.symbols, name: other}
        for one in cases:
            if one.symbols.get(name, value) != value:
                yield {**case.symbols, name: one.symbols[name]}
