"""Real numbers that are sought: a literal, or a factor that is missing, so that the results are what they should be.

How far off results are falls and rises again with one number in nearly all expressions that kernels have, so that a few
dozen runs find where it is least: first in quarters of an octave, then ever finer. Nothing is known of the number; what
makes every element right is an interval, of which the simplest decimal is taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.slots import Blank, places
from wmmadiag.diagnose.ranking import Ranked, line_of
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.diagnose.sketching import Scores
from wmmadiag.diagnose.trials.holes import Filling, Sketch, factor, times
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.trial_bench import TrialBench

SOLVED = "solved"
"""The operator of a change whose number was sought."""
_PLACES, _KEPT = 32, 8
"""Places at which a number is sought at first; those at which it helps most go on."""
_COARSE = [step / 4 for step in range(-24, 25) if step] + [-12.0, -10.0, -8.0, 8.0, 10.0, 12.0]
"""Powers of two at first: three digits of a number lie within eight octaves."""
_STEPS = (1 / 16, 1 / 64, 1 / 256, 1 / 1024, 1 / 4096)
_AROUND = 4
"""So many steps to either side."""
_GOOD = 0.3
"""Share of how far off the results are that must be gone at first."""
_REAL = re.compile(r"(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)([fF]?)")
_DIGITS = range(1, 8)
_MOVED = 3
"""Digits by which a decimal point may have slipped."""


@dataclass(slots=True)
class _Sought:
    """One place: the best power of two so far, how much nearer the results are with it, and those that are right."""

    place: Blank
    score: float
    best: float = 0.0
    nearer: float = 0.0
    right: tuple[float, ...] = ()


def solved(
    trials: TrialBench, program: Program, sources: Mapping[str, Source], order: Sequence[Ranked], ledger: Ledger
) -> list[Tried]:
    """Changes of a real literal, and factors of real expressions, with which the case is right; the likeliest first."""
    sought = _likeliest(program, order)
    _look(trials, sought, dict.fromkeys(range(len(sought)), _COARSE), ledger)
    sought = sorted((one for one in sought if one.nearer >= _GOOD), key=lambda one: -one.nearer)[:_KEPT]
    for step in _STEPS:
        if not sought:
            return []
        around = {number: [one.best + step * at for at in range(-_AROUND, _AROUND + 1)]
                  for number, one in enumerate(sought)}  # fmt: skip
        _look(trials, sought, around, ledger)
    drafts = [(one, draft) for one in sought if one.right for draft in _drafts(one)]
    changes = {Change(SOLVED, draft.edits, draft.kind, draft.role, draft.note): one for one, draft in drafts
               if program.may_change(draft.edits)}  # fmt: skip
    outcomes = trials.try_batch(list(changes))
    ledger.note(outcomes)
    found: dict[int, Tried] = {}
    for (change, one), outcome in zip(changes.items(), outcomes, strict=True):
        if outcome.verdict == "right":  # with the fewest digits
            found.setdefault(id(one), Tried(Ranked(change, line_of(change, sources), one.score), outcome))
    return sorted(found.values(), key=lambda each: -each.ranked.score)


def _likeliest(program: Program, order: Sequence[Ranked]) -> list[_Sought]:
    """Where a number may be sought: real literals and expressions, each sum and product once."""
    scores = Scores(order)
    found = []
    for place in places(program):
        value = place.expression
        factors = value.parent is not None and value.parent.kind == "binary" and value.parent.operator in ("*", "/")
        if value.type.kind != "float" or (factors and value.kind != "literal"):
            continue  # a factor of one factor is one of the whole
        score = scores.of(value)
        if score is not None:
            found.append(_Sought(Blank(value, place.slots[:2], 1), score))
    # A number that stands there is wrong or not; a factor may be missing anywhere.
    less = math.log(1 + sum(one.place.expression.kind != "literal" for one in found))
    for one in found:
        one.score -= less if one.place.expression.kind != "literal" else 0.0
    return sorted(found, key=lambda one: -one.score)[:_PLACES]


def _look(trials: TrialBench, sought: Sequence[_Sought], powers: Mapping[int, Sequence[float]], ledger: Ledger) -> None:
    """Run every place with its powers of two, and keep the best of each."""
    fillings: list[dict[Filling, float]] = []
    for number in range(len(sought)):
        made = {times(power): power for power in powers[number]}
        fillings.append(made)
    holes = tuple(one.place.holes for one in sought)
    answer = trials.try_sketch(Sketch(holes, tuple(tuple(some) for some in fillings)))
    ledger.filled += answer.count
    ledger.filling += answer.work
    told: dict[int, list[tuple[float, Outcome]]] = {}
    for hole, filling, outcome in answer.told:
        told.setdefault(hole, []).append((fillings[hole][filling], outcome))
    for number, one in enumerate(sought):
        seen = told.get(number, [])
        right = [power for power, outcome in seen if outcome.verdict == "right"]
        one.right = tuple(sorted({*one.right, *right}))
        for power, outcome in seen:
            if outcome.verdict in ("right", "better", "same", "worse") and outcome.nearer > one.nearer:
                one.best, one.nearer = power, outcome.nearer


def _drafts(one: _Sought) -> Iterator[Draft]:
    """The changes of text that put a number in, those with fewest digits first."""
    least, most = (factor(times(power)) for power in (one.right[0], one.right[-1]))
    expression = one.place.expression
    own = _REAL.fullmatch(expression.text) if expression.kind == "literal" else None
    if own is not None:
        value = float(own[1])
        for text in (*_point_moved(own[1], value * least, value * most), *_decimals(value * least, value * most)):
            yield replaced(expression, Text(f"{text}{own[2]}"), f"{text}{own[2]} for {expression.text}")
    elif expression.kind != "literal":
        for text in _decimals(least, most):
            yield replaced(expression, binary(text_of(expression), "*", Text(f"{text}f")), f"times {text}f")


def _point_moved(number: str, least: float, most: float) -> Iterator[str]:
    """The digits of a number with the decimal point elsewhere, between two numbers."""
    moved = (float(Decimal(number).scaleb(by)) for by in range(-_MOVED, _MOVED + 1))
    return (repr(one) for one in moved if least <= one <= most)


def _decimals(least: float, most: float) -> Iterator[str]:
    """Decimals between two numbers, or of the one that both are, with ever more digits."""
    middle = (least + most) / 2
    seen = set()
    for digits in _DIGITS:
        text = repr(float(f"{middle:.{digits}g}"))
        inside = least <= float(text) <= most or digits >= _DIGITS[-2]
        if inside and text not in seen:
            seen.add(text)
            yield text
