"""Online softmax whose running output or sum is rescaled wrongly when the row maximum grows.

With tiles j = 0 … n-1 in the order in which they are met, running maxima M_j and α_j = exp(M_{j-1} - M_j), tile j's
part must end up multiplied by A_j = α_{j+1}·…·α_{n-1}. Each fault multiplies it by another power or product instead; as
the oracle's exponentials are relative to the last maximum, the fault is a factor per tile and row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model


@dataclass(frozen=True, slots=True)
class Online:
    """One pass over tiles of keys; arrays are (rows, tiles), tiles in ascending order of keys.

    Attributes:
        running: M of each tile, -inf where a row has met no key yet.
        before: M of the tile met before; -inf for the first.
        last: the last M, (rows, 1).
        own: each tile's own maximum.
        local: each tile's sum of exponentials relative to `last`.
        counts: keys of each tile.
        backwards: whether tiles are met from the last to the first.
    """

    running: Doubles
    before: Doubles
    last: Doubles
    own: Doubles
    local: Doubles
    counts: tuple[int, ...]
    backwards: bool

    def per_key(self, factors: Doubles) -> Doubles:
        """(rows, tiles) → (rows, keys); 0 where a row has met no key yet: its weights are 0."""
        safe = np.where(np.isneginf(self.running), 0.0, factors)
        return np.repeat(safe, self.counts, axis=1)


def online(rows: Rows, tile: int, backwards: bool) -> Online:
    """The running maxima of an online softmax over tiles of `tile` keys."""
    starts = np.arange(0, rows.keys, tile)
    own = np.maximum.reduceat(rows.scores, starts, axis=1)
    met = own[:, ::-1] if backwards else own
    running = np.maximum.accumulate(met, axis=1)
    before = np.concatenate([np.full((len(running), 1), -np.inf), running[:, :-1]], axis=1)
    if backwards:
        running, before = running[:, ::-1], before[:, ::-1]
    counts = tuple(int(n) for n in np.diff([*starts, rows.keys]))
    local = np.add.reduceat(rows.exponentials, starts, axis=1)
    return Online(running, before, rows.largest, own, local, counts, backwards)


def _kept(rows: Rows, tile: int, backwards: bool) -> Online:
    key = ("online", tile, backwards)
    found = rows.memory.get(key)
    if not isinstance(found, Online):
        found = rows.memory[key] = online(rows, tile, backwards)
    return found


def _alpha(pass_: Online) -> Doubles:
    """α of each tile; 1 for the first that a row meets."""
    return np.where(np.isneginf(pass_.before), 1.0, np.exp(pass_.before - pass_.running))


def _owed(pass_: Online) -> Doubles:
    """A of each tile: what its part must be multiplied by."""
    return np.asarray(np.exp(pass_.running - pass_.last))


def _missing(p: Online) -> Doubles:
    return np.asarray(1.0 / _owed(p))


def _inverted(p: Online) -> Doubles:
    return np.asarray(_owed(p) ** -2.0)


def _twice(p: Online) -> Doubles:
    return _owed(p)


def _base_two(p: Online) -> Doubles:
    return np.asarray(_owed(p) ** (np.log(2.0) - 1.0))


def _base_two_scaled(p: Online) -> Doubles:
    return np.asarray(_owed(p) ** (1.0 / np.log(2.0) - 1.0))


def _stale(p: Online) -> Doubles:
    return np.asarray(1.0 / _alpha(p))


def _after(p: Online) -> Doubles:
    return _alpha(p)


def _after_zeroed(p: Online) -> Doubles:
    return np.where(np.isneginf(p.before), 0.0, _alpha(p))


def _tile_maximum(p: Online) -> Doubles:
    return np.asarray(np.exp(p.last - p.own))


def _tile_maximum_rescaled(p: Online) -> Doubles:
    # P relative to the tile's own maximum, but the output rescaled with the running one.
    return np.asarray(np.exp(p.running - p.own))


def _tile_alpha(p: Online) -> Doubles:
    # α from the previous tile's own maximum instead of the running one.
    order = p.own[:, ::-1] if p.backwards else p.own
    steps = order[:, :-1] - np.maximum(order[:, :-1], order[:, 1:])
    owed = np.concatenate([np.cumsum(steps[:, ::-1], axis=1)[:, ::-1], np.zeros((len(order), 1))], axis=1)
    relative = np.maximum(order, np.concatenate([np.full((len(order), 1), -np.inf), order[:, :-1]], axis=1))
    result = np.exp(p.last - (relative[:, ::-1] if p.backwards else relative))
    return np.asarray(result * np.exp(owed[:, ::-1] if p.backwards else owed))


def _own_sums(p: Online) -> Doubles:
    return np.asarray(p.local.sum(axis=1, keepdims=True) / p.local)


Factors: TypeAlias = Callable[[Online], Doubles]
# (model, words, factors, whether it can hit the output and the sum apart from each other)
_KINDS: tuple[tuple[str, str, Factors, str], ...] = (
    ("alpha-missing", "{what} is not rescaled when the row maximum grows", _missing, "olb"),
    ("maximum-not-carried", "each tile is relative to its own maximum, and nothing is rescaled", _tile_maximum, "b"),
    ("alpha-stale", "P is taken relative to the maximum before the tile", _stale, "olb"),
    ("alpha-inverted", "{what} is divided by the rescaling factor instead of multiplied", _inverted, "olb"),
    ("alpha-twice", "{what} is rescaled twice", _twice, "olb"),
    ("alpha-after-tile", "{what} is rescaled after the tile is added instead of before", _after, "olb"),
    (
        "alpha-after-tile-first-lost",
        "{what} is rescaled after the tile is added, which clears the first tile",
        _after_zeroed,
        "olb",
    ),
    ("alpha-base-2", "{what} is rescaled with exp2 where P uses exp", _base_two, "olb"),
    ("alpha-base-e", "{what} is rescaled with exp where P uses exp2", _base_two_scaled, "olb"),
    (
        "tile-maximum",
        "P is relative to the tile's own maximum instead of the running one",
        _tile_maximum_rescaled,
        "olb",
    ),
    ("alpha-of-tile-maximum", "the running maximum is replaced by that of the last two tiles", _tile_alpha, "b"),
    ("tile-normalised", "each tile is divided by its own row sum, and the tiles are added", _own_sums, "o"),
)
_WHAT = {"o": "the running output", "l": "the running sum", "b": "neither the running output nor the sum"}


def with_factors(factors: Factors, tile: int, backwards: bool, target: str) -> Prediction:
    """The oracle with each tile's part of the output ("o"), of the sum ("l") or of both ("b") multiplied."""

    def predict(rows: Rows) -> Doubles:
        pass_ = _kept(rows, tile, backwards)
        per_key = pass_.per_key(factors(pass_))
        return rows.weighted(per_key if target in "ob" else None, per_key if target in "lb" else None)

    return predict


@fault_model("attention", "softmax", rank=30)
def wrong_rescaling(problem: Problem) -> Iterator[Candidate]:
    """Every fault of the rescaling, for every tile size and both orders of keys."""
    keys = problem.rows(problem.leads[0], np.zeros(1, np.intp)).keys
    # The plain kinds first: with two tiles some of the others predict the same.
    for model, words, factors, targets in _KINDS:
        for tile in problem.tiles(keys):
            for backwards in (False, True):
                for target in targets:
                    yield _candidate(model, words, factors, tile, backwards, target)


def _candidate(model: str, words: str, factors: Factors, tile: int, backwards: bool, target: str) -> Candidate:
    suffix = (
        {"o": "-of-output", "l": "-of-sum", "b": ""}[target] if "{what}" in words or model == "tile-maximum" else ""
    )
    what = "the running output and sum" if target == "b" else _WHAT[target]
    said = words.format(what=what).replace("output and sum is", "output and sum are")
    where = f" (tiles of {tile} keys{', from the last to the first' if backwards else ''})"
    hypothesis = "normalisation" if model == "tile-normalised" else "rescale-missing"
    return Candidate(
        hypothesis,
        model + suffix,
        said + where,
        with_factors(factors, tile, backwards, target),
        {"tile": tile, "order": "descending" if backwards else "ascending"},
    )
