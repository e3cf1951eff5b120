"""What a right kernel was taken to mean where its source says nothing and another meaning gives other numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from wmmadiag.errors import WmmadiagError
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import reference
from wmmadiag.ops.model import Alternative, Setting, Values
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Card, Case

_CASES = 2
_MOST = 1 << 20
"""Elements of an input, of cases that are looked at."""


def unsaid_meanings(card: Card, cases: Sequence[Case]) -> tuple[str, ...]:
    """Meanings that a card takes by its operation's defaults alone, where another one that kernels are written for
    gives other numbers in one of some cases: both by name."""
    return tuple(dict.fromkeys(name for case in cases[:_CASES] for name in _taken(card, case)))


def _taken(card: Card, case: Case) -> Iterator[str]:
    operation = OPERATIONS[card.computes.operation]
    asked = [one for one in operation.choices if one.kind == "meaning" and one.question not in card.answered]
    if not asked or operation.oracle is None:
        return
    try:
        bound = bind(card, case, card.variants[0])
    except WmmadiagError:
        return
    said = {*card.computes.parameters, *case.symbols}
    for choice in asked:
        own = next((one for one in choice.alternatives if one.parameters and not _changed(one, bound.parameters)), None)
        if own is choice.alternatives[0]:
            continue  # the commonest goes without saying
        for other in choice.alternatives:
            changed = _changed(other, bound.parameters)
            by_default = other.deliberate and changed and said.isdisjoint(changed)
            if own is not None and by_default and _differs(bound, changed):
                yield f"{own.name}, not {other.name}"
                break


def _changed(one: Alternative, parameters: Values) -> dict[str, Setting]:
    """The settings of an answer that are others than a case's."""
    meant = {name: _value(value) for name, value in one.parameters.items()}
    return {name: value for name, value in meant.items() if parameters.get(name) != value}


def _value(setting: Setting) -> Setting:
    return float(setting) if isinstance(setting, str) and setting.isdecimal() else setting


def _differs(bound: BoundCase, changed: Values) -> bool:
    inputs = bound.inputs()
    if any(one.size > _MOST for one in inputs.values()):
        return False
    operation, own = bound.card.computes.operation, bound.parameters
    try:
        with np.errstate(all="ignore"):
            first, second = (reference(operation, one, inputs) for one in (own, {**own, **changed}))
    except (WmmadiagError, ValueError, IndexError):
        return False
    return any(not np.array_equal(first[role], second[role], equal_nan=True) for role in first if role in second)
