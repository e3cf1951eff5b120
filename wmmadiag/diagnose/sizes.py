"""Sizes that nobody asked for: on which of them changes that mend every case differ tells which one is general.

A change that replaces a stride by a number that happens to be the stride is right at every size that was tried. Other
sizes are tried for no verdict on the kernel: it may not be made for them. But where one change is right and another is
not, the first one is what was meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wmmadiag.subject.card import Case

_MOST = 4


def further_sizes(cases: Sequence[Case], case: Case) -> list[Case]:
    """The case with one of its numbers at another value: another case's, or one and a half or two times its own."""
    return _made(cases, case, _varied(cases, case))[:_MOST]


def mixed_sizes(cases: Sequence[Case], case: Case) -> list[Case]:
    """The case with one of its numbers as another case has it: each value is one that the kernel is made for."""
    return _made(cases, case, (one for name in case.symbols for one in _others(cases, case, name)))


def _made(cases: Sequence[Case], case: Case, varied: Iterable[tuple[str, int]]) -> list[Case]:
    known = [one.symbols for one in cases]
    found: dict[tuple[str, int], Case] = {}
    for name, value in varied:
        symbols = {**case.symbols, name: value}
        if symbols not in known:
            found.setdefault((name, value), replace(case, name=f"{case.name} with {name}={value}", symbols=symbols))
    return list(found.values())


def _varied(cases: Sequence[Case], case: Case) -> Iterator[tuple[str, int]]:
    for name, value in case.symbols.items():
        if isinstance(value, int) and value > 1:
            yield name, value + value // 2
            yield name, 2 * value
            yield from _others(cases, case, name)


def _others(cases: Sequence[Case], case: Case, name: str) -> Iterator[tuple[str, int]]:
    for one in cases:
        value = one.symbols.get(name)
        if isinstance(value, int) and value != case.symbols[name]:
            yield name, value
