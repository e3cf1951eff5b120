"""Scores and their softmax in float64, over the inputs as the kernel reads them (already rounded).

Rows are taken in chunks, so that S = 2048 needs megabytes, not gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.score_terms import ScoreTerms

_CHUNK_ELEMENTS = 1 << 20


def as_heads(array: NDArray[Any]) -> NDArray[Any]:
    """A tensor of 2 to 4 dimensions as (B, H, rows, columns); missing leading axes become 1."""
    return array.reshape((1,) * (4 - array.ndim) + array.shape) if array.ndim < 4 else array


@dataclass(frozen=True, slots=True)
class ScoreRows:
    """Some rows of one head's scores."""

    head: tuple[int, int]  # (batch, head) of the query
    kv_head: tuple[int, int]  # (batch, head) of the key and value
    rows: slice  # which query rows
    q: Doubles  # (rows, D); k: (Skv, D)
    k: Doubles
    scores: Doubles  # (rows, Skv), masked entries -inf
    scaled: Doubles | None = None  # scale·Q·Kᵀ of these rows; None where the scores are just that, masked


def score_rows(q: NDArray[Any], k: NDArray[Any], *, scale: float, terms: ScoreTerms) -> Iterator[ScoreRows]:
    """Scores in chunks of rows: scaled, and with what else is done to them.

    Args:
        q: (B, H, Sq, D); k: (B, Hkv, Skv, D) with Hkv a divisor of H: query head h uses key head h // (H / Hkv).
        terms: masks, and what else is done to scores.
    """
    batches, heads, queries, _ = q.shape
    keys = k.shape[2]
    group = heads // k.shape[1]
    step = max(16, _CHUNK_ELEMENTS // max(keys, 1))
    for batch in range(batches):
        for head in range(heads):
            keys64 = k[batch, head // group].astype(np.float64)
            for start in range(0, queries, step):
                rows = slice(start, min(start + step, queries))
                q64 = q[batch, head, rows].astype(np.float64)
                scaled = (q64 @ keys64.T) * scale
                index = np.arange(rows.start, rows.stop)
                scores = terms.score(scaled, (batch, head), index) if terms.modifies else scaled
                before = scaled if terms.modifies else None
                if terms.masks:
                    scores[~terms.allowed((batch, head), index)] = -np.inf
                yield ScoreRows((batch, head), (batch, head // group), rows, q64, keys64, scores, before)


def softmax_rows(scores: Doubles) -> tuple[Doubles, Doubles]:
    """(weights, log of the sum of exponentials) of each row; a row of only -inf gives weights 0 and -inf."""
    largest = scores.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    weights = np.exp(scores - shift)
    total = weights.sum(axis=-1, keepdims=True)
    empty = total == 0
    weights /= np.where(empty, 1.0, total)
    lse = np.where(empty, -np.inf, shift + np.log(np.where(empty, 1.0, total)))
    return weights, lse[..., 0]
