"""Another mask: missing, shifted, at the wrong corner, inverted, by whole tiles, with tile-local indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction, Value
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model

Mask: TypeAlias = Callable[[Rows, "NDArray[np.intp]", "NDArray[np.intp]"], NDArray[np.bool_]]
"""(rows, query index (rows, 1), key index (1, keys)) → where scores are kept."""


def with_mask(mask: Mask) -> Prediction:
    """softmax(scale · Q·Kᵀ where the mask lets through) · V; rows without a key are NaN."""

    def predict(rows: Rows) -> Doubles:
        kept = mask(rows, rows.index[:, None], np.arange(rows.keys)[None, :])
        if rows.problem.terms.masks_otherwise:
            kept = kept & rows.otherwise
        return rows.attend(np.where(kept, rows.scored(rows.products * rows.problem.scale), -np.inf))

    return predict


def _masked_by_zero(rows: Rows) -> Doubles:
    return rows.attend(np.where(rows.allowed, rows.scored(rows.products * rows.problem.scale), 0.0))


def _masked_after_softmax(rows: Rows) -> Doubles:
    scores = rows.scored(rows.products * rows.problem.scale)
    exponentials: Doubles = np.exp(scores - scores.max(axis=1, keepdims=True))
    result: Doubles = rows.combine(np.where(rows.allowed, exponentials, 0.0)) / exponentials.sum(axis=1, keepdims=True)
    return result


def _candidate(model: str, words: str, mask: Mask, **parameters: Value) -> Candidate:
    return Candidate("causal-mask", model, words, with_mask(mask), parameters)


def _everything(_: Rows, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.bool_]:
    return np.ones((i.shape[0], j.shape[1]), np.bool_)


def _shifted(offset: int) -> Mask:
    return lambda rows, i, j: np.asarray(j <= i + rows.corner + offset)


def _other_corner(rows: Rows, i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.bool_]:
    bottom = rows.keys - rows.problem.observed.shape[2]
    return np.asarray(j <= i + (0 if rows.corner else bottom))


@fault_model("attention", rank=20)
def causal_masks(problem: Problem) -> Iterator[Candidate]:
    """The mask that the card states, changed."""
    if not problem.parameters["causal"]:
        yield _candidate("causal-added", "a causal mask is applied that should not be", lambda _, i, j: j <= i)
        if problem.arrays["k"].shape[2] != problem.observed.shape[2]:
            yield _candidate(
                "causal-added-bottom-right",
                "a causal mask (bottom-right) is applied that should not be",
                lambda r, i, j: j <= i + r.keys - r.problem.observed.shape[2],
            )
        return
    yield _candidate("causal-missing", "the causal mask is missing", _everything)
    yield _candidate(
        "causal-strict", "a query does not see its own key: key j is masked where j >= i", _shifted(-1), offset=-1
    )
    for offset in (1, -2, 2, -3, 3, 4, -4, 8, -8, 15, -15, 16, -16):
        yield _candidate(
            "causal-offset", f"the causal mask is off by {offset:+d} keys", _shifted(offset), offset=offset
        )
    yield _candidate("causal-corner", "the causal mask is aligned to the wrong corner", _other_corner)
    yield _candidate(
        "causal-inverted",
        "the causal mask is inverted: keys before the query are masked",
        lambda r, i, j: j >= i + r.corner,
    )
    yield _candidate(
        "causal-inverted",
        "the causal mask is inverted: a query sees only later keys",
        lambda r, i, j: j > i + r.corner,
        strict=1,
    )
    yield Candidate("causal-mask", "causal-zero", "masked scores are set to 0 instead of -inf", _masked_by_zero)
    yield Candidate(
        "causal-mask", "causal-after-softmax", "the mask is applied after the normalisation", _masked_after_softmax
    )
    extent = max(problem.arrays["k"].shape[2], problem.observed.shape[2])
    for tile in problem.tiles(extent):
        yield from _by_tiles(tile)


def _by_tiles(t: int) -> Iterator[Candidate]:
    yield _candidate(
        "causal-whole-tiles",
        f"only whole tiles of {t} keys are masked; the tile on the diagonal is not",
        lambda r, i, j: j // t <= (i + r.corner) // t,
        tile=t,
    )
    yield _candidate(
        "causal-diagonal-tile-dropped",
        f"the tile of {t} keys on the diagonal is skipped",
        lambda r, i, j: j // t < (i + r.corner) // t,
        tile=t,
    )
    yield _candidate(
        "causal-local-row",
        f"the mask compares a key with the row inside its tile of {t}",
        lambda _, i, j: j <= i % t,
        tile=t,
    )
    yield _candidate(
        "causal-local-key",
        f"the mask compares the key inside its tile of {t} with the row",
        lambda _, i, j: j % t <= i,
        tile=t,
    )
    yield _candidate(
        "causal-local",
        f"the mask compares indices inside tiles of {t} instead of the whole ones",
        lambda _, i, j: j % t <= i % t,
        tile=t,
    )
    ended = f", in the tiles of {t} that a loop to the diagonal's visits"
    yield _candidate(
        "causal-local",
        f"the mask compares indices inside tiles instead of the whole ones{ended}",
        lambda r, i, j: (j % t <= i % t) & (j // t <= (i + r.corner) // t),
        tile=t,
    )
    yield _candidate(
        "causal-local-key",
        f"the mask compares the key inside its tile with the row{ended}",
        lambda r, i, j: (j % t <= i) & (j // t <= (i + r.corner) // t),
        tile=t,
    )
    yield _candidate(
        "causal-tile-end",
        f"the loop over tiles of {t} keys ends one tile after the diagonal's and nothing inside is masked",
        lambda r, i, j: j // t <= (i + r.corner) // t + 1,
        tile=t,
    )
