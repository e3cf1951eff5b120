"""How far roundings move the weights of softmax rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Arithmetic, Doubles

RowValues: TypeAlias = "NDArray[np.float32] | NDArray[np.float64]"


def rescalings(scores: RowValues) -> Doubles:
    """How often an online softmax may change its running maximum, per row.

    A rescaling by exp(0) is exact, so only changes count. Tiles' and keys' order is the kernel's choice: taken is the
    larger of the records met forward and backward key by key, and of one per 16 keys, plus 8 for maxima that warps
    or lanes keep apart and join at the end.

    Args:
        scores: (rows, keys), masked entries -inf.
    """

    def records(ordered: RowValues) -> Doubles:
        running = np.maximum.accumulate(ordered, axis=-1)
        return np.asarray(np.count_nonzero(running[:, 1:] > running[:, :-1], axis=-1), np.float64)

    most = np.maximum(records(scores), records(scores[:, ::-1]))
    return np.asarray(np.maximum(most, -(-scores.shape[1] // 16)) + 8.0)


@dataclass(frozen=True, slots=True)
class WeightErrors:
    """Softmax weights of some rows, and how far roundings move each before it is rounded to P's type."""

    weights: NDArray[np.float32]  # (rows, keys), float32
    errors: NDArray[np.float32]  # absolute error of each weight, float32, `SLACK` included
    rescale: Doubles  # rescalings per row
    largest: Doubles  # the row's maximum; 0 for a row without keys


# The bound itself is computed in float32, where it takes half the time: its own rounding, at most some 10⁻⁴ relative
# (sums of up to 2048 terms), is covered by this factor.
SLACK = 1.001


def weight_errors(scores: Doubles, score_error: RowValues | float, model: Arithmetic) -> WeightErrors:
    """Errors of exp(s - m) / Σ exp(s - m), numerator by numerator.

    With u the unit of scalar work, m the row's maximum and R the number of rescalings:

    - the argument s - m is off by the score's own error; by the product with the scale (3u|s|: factor, product, and
      one to spare); by a maximum that is scaled apart from its row (2u|m|); by the subtraction, the factor log2(e)
      and the product with it (5u|s - m|, the fused form exp2(s·c - m·c) included); by rounding the score or the
      argument to a narrower type where the card says so. As |s| ≤ |m| + |s - m|, that is δ = error + 5u|m| +
      8u|s - m|;
    - exp(±δ) - 1 is at most δ + δ² for δ ≤ 1 (and exp(δ) - 1 beyond);
    - the exponential itself adds `exp_unit`;
    - each rescaling multiplies by another exponential, of relative error exp_unit + 3u + 3uM, where M is the largest
      |s| of the row (keys more than 40 below the maximum aside: exp(-40) leaves nothing that counts).

    Args:
        scores: (rows, keys), masked entries -inf.
        score_error: absolute error of each score, (rows, keys) or one for all.
    """
    unit = model.unit
    row_max = scores.max(axis=-1, keepdims=True)
    largest = np.where(np.isfinite(row_max), row_max, 0.0)
    distance = (largest - scores).astype(np.float32)  # ≥ 0, inf where masked
    with np.errstate(under="ignore"):
        weights = np.exp(-distance)
    total = weights.sum(axis=-1, keepdims=True)
    weights /= np.where(total == 0, np.float32(1), total)
    nothing = weights == 0  # masked, or too far below the maximum to count
    np.copyto(distance, np.float32(0), where=nothing)
    furthest = np.minimum(distance.max(axis=-1, keepdims=True, initial=0.0), 40.0)
    peak = np.maximum(np.abs(largest), np.abs(largest - furthest))
    narrow = 0.0 if model.score_type is None else model.score_type.unit
    floor = 0.0 if model.score_type is None else model.score_type.half_subnormal
    per_row = (5.0 * unit + narrow) * np.abs(largest) + floor
    with np.errstate(over="ignore", under="ignore"):
        delta = distance * np.float32(8.0 * unit + model.exp_argument + narrow)
        delta += score_error
        delta += per_row.astype(np.float32)
        most = delta.max(axis=-1, keepdims=True, initial=0.0)
        if most.max(initial=0.0) <= 1.0:
            delta *= 1.0 + most
        else:
            delta = np.minimum(np.expm1(delta), np.float32(1e30))
        rescale = rescalings(np.where(nothing, np.float32(-np.inf), -distance))
        changes = rescale[:, None] * (model.exp_unit + 3.0 * unit + 3.0 * unit * peak)
        delta *= np.float32(1.0 + model.exp_unit)
        delta += (model.exp_unit + changes).astype(np.float32)
        delta *= weights
        delta *= np.float32(SLACK)
    return WeightErrors(weights, delta, rescale, largest[:, 0])


def row_sum_error(keys: int, model: Arithmetic, rescale: Doubles) -> Doubles:
    """Relative error of a row's sum of exponentials (all positive): one unit per addition and per rescaling."""
    first = (keys + 8.0 + rescale) * model.unit
    return np.asarray(first / (1.0 - first))
