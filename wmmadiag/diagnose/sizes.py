"""Sizes that nobody asked for: on which of them changes that mend every case differ tells which one is general.

A change that replaces a stride by a number that happens to be the stride is right at every size that was tried. Other
sizes are tried for no verdict on the kernel: it may not be made for them. But where one change is right and another is
not, the first one is what was meant. What is a pitch of a number goes with it: no matrix is wider than its pitch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.card import Card, Case, Variant
from wmmadiag.subject.symbols import rendered_entries, rendered_macros

_MOST = 4
_WIDER = 1.25
"""How many times what it is the pitch of a pitch may be."""


def further_sizes(cases: Sequence[Case], case: Case) -> list[Case]:
    """The case with one of its numbers at another value: another case's, or one and a half or two times its own."""
    return _made(cases, case, _varied(cases, case))[:_MOST]


def mixed_sizes(cases: Sequence[Case], case: Case) -> list[Case]:
    """The case with one of its numbers as another case has it: each value is one that the kernel is made for."""
    return _made(cases, case, (one for name in case.symbols for one in _others(cases, case, name)))


def of_known_programs(card: Card, variant: Variant, cases: Sequence[Case], made: Iterable[Case]) -> Iterator[Case]:
    """Of sizes that were made up those that are compiled as one of the cases is: tiles that a program is made of are
    chosen together, and another mix of them may be none."""
    known = {_program(card, variant, one) for one in cases}
    for one in made:
        with suppress(WmmadiagError):  # an entry that has no such size
            if _program(card, variant, one) in known:
                yield one


def _program(card: Card, variant: Variant, case: Case) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    macros = rendered_macros(card, case, variant)
    return rendered_entries(card, case, variant), tuple(sorted(macros.items()))


def _made(cases: Sequence[Case], case: Case, varied: Iterable[tuple[str, int, Mapping[str, int]]]) -> list[Case]:
    """The case with other numbers, each once.

    Args:
        varied: a number's name, its other value, and what comes with it.
    """
    known = [one.symbols for one in cases]
    found: dict[tuple[str, int], Case] = {}
    for name, value, tied in varied:
        symbols = {**case.symbols, **tied, name: value}
        if symbols not in known:
            found.setdefault((name, value), replace(case, name=f"{case.name} with {name}={value}", symbols=symbols))
    return list(found.values())


def _varied(cases: Sequence[Case], case: Case) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    for name, value in case.symbols.items():
        if isinstance(value, int) and value > 1:
            for more in (value // 2, value):
                yield name, value + more, {other: _whole(case, other) + more for other in _tied(cases, name)}
            yield from _others(cases, case, name)


def _others(cases: Sequence[Case], case: Case, name: str) -> Iterator[tuple[str, int, Mapping[str, int]]]:
    for one in cases:
        value = one.symbols.get(name)
        if isinstance(value, int) and value != case.symbols[name]:
            yield name, value, {other: _whole(one, other) for other in _tied(cases, name)}


def _tied(cases: Sequence[Case], name: str) -> list[str]:
    """The numbers that are a pitch of this one, or it of them, and those that are of these: in no case less, in some
    more, and in none much more."""
    found, left = [name], set(cases[0].symbols) - {name}
    for one in found:
        further = sorted(other for other in left if _pitch(cases, one, other) or _pitch(cases, other, one))
        left -= set(further)
        found += further
    return found[1:]


def _pitch(cases: Sequence[Case], extent: str, pitch: str) -> bool:
    pairs = [(one.symbols.get(extent), one.symbols.get(pitch)) for one in cases]
    whole = [(int(few), int(many)) for few, many in pairs if isinstance(few, int) and isinstance(many, int)]
    if len(whole) != len(pairs) or len({few for few, _ in whole}) < 2:
        return False
    return all(few <= many <= _WIDER * few for few, many in whole) and any(few < many for few, many in whole)


def _whole(case: Case, name: str) -> int:
    value = case.symbols[name]
    assert isinstance(value, int)
    return value
