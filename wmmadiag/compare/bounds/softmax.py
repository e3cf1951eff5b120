"""Rounding bound of softmax rows; attention builds on it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.bounds.arithmetic import (
    Arithmetic,
    Doubles,
    Judgement,
    Parameters,
    arithmetic,
    oracle_error,
    output_rounding,
)
from wmmadiag.subject.dtypes import ElementType
from wmmadiag.subject.oracles import softmax_rows


def rescalings(scores: Doubles) -> Doubles:
    """How often an online softmax may change its running maximum, per row.

    A rescaling by exp(0) is exact, so only changes count. Tiles' and keys' order is the kernel's choice: taken is the
    larger of the records met forward and backward key by key, and of one per 16 keys, plus 8 for maxima that warps
    or lanes keep apart and join at the end.

    Args:
        scores: (rows, keys), masked entries -inf.
    """

    def records(ordered: Doubles) -> Doubles:
        running = np.maximum.accumulate(ordered, axis=-1)
        return np.asarray(np.count_nonzero(running[:, 1:] > running[:, :-1], axis=-1), np.float64)

    most = np.maximum(records(scores), records(scores[:, ::-1]))
    return np.asarray(np.maximum(most, -(-scores.shape[1] // 16)) + 8.0)


def weight_errors(scores: Doubles, score_error: Doubles, model: Arithmetic) -> Doubles:
    """Relative error of exp(s - m) before it is summed or rounded to P's type, per row and key.

    With u the unit of scalar work, m the row's maximum, M = max|s| and R the number of rescalings:

    - the argument s - m is off by the score's own error; by the product with the scale (2u|s|: factor and product);
      by a maximum that is scaled apart from its row (2uM); by the subtraction, the factor log2(e) and the product
      with it (5u|s - m|, the fused form exp2(s·c - m·c) included); by rounding the score or the argument to a
      narrower type where the card says so;
    - the exponential itself adds `exp_unit`;
    - each rescaling multiplies by another exponential, of relative error exp_unit + 3u + 3uM.

    exp(δ) - 1 ≥ |exp(±δ) - 1| turns the argument's error δ into a relative one.
    """
    unit = model.unit
    kept = np.isfinite(scores)
    s = np.where(kept, scores, 0.0)
    largest = np.max(np.where(kept, scores, -np.inf), axis=-1, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    magnitude = np.abs(s)
    peak = magnitude.max(axis=-1, keepdims=True, initial=0.0)
    argument = np.where(kept, largest - s, 0.0)
    delta = score_error + unit * (3.0 * magnitude + 2.0 * peak + 5.0 * argument)
    delta += model.exp_argument * argument
    if model.score_type is not None:
        delta += model.score_type.unit * magnitude + model.score_type.half_subnormal
    with np.errstate(over="ignore"):
        relative = np.expm1(delta)
    relative = relative + model.exp_unit * (1.0 + relative)
    rescale = rescalings(scores)[:, None] * (model.exp_unit + 3.0 * unit + 3.0 * unit * peak)
    return np.asarray(relative + rescale)


def row_sum_error(keys: int, model: Arithmetic, rescale: Doubles) -> Doubles:
    """Relative error of a row's sum of exponentials (all positive): one unit per addition and per rescaling."""
    first = (keys + 8.0 + rescale) * model.unit
    return np.asarray(first / (1.0 - first))


def bound(
    x: NDArray[Any], expected: Doubles, parameters: Parameters, input_type: ElementType, output: ElementType
) -> Judgement:
    """Bound of softmax(scale·X) along the last axis.

    y = e/Σe with relative errors ε on each e: y's relative error is at most (ε + Σy·ε)/(1 - Σy·ε), plus the sum's
    rounding, the division (4u: approximate reciprocal and product), and the output's rounding. y ≤ 1 caps it.
    """
    model = arithmetic(parameters, input_type)
    scale = float(parameters.get("scale", 1.0))
    scores = x.astype(np.float64).reshape(-1, x.shape[-1]) * scale
    weights, _ = softmax_rows(scores)
    relative = weight_errors(scores, np.zeros_like(scores), model)
    with np.errstate(invalid="ignore"):
        shared = np.sum(np.where(weights > 0, weights * relative, 0.0), axis=-1, keepdims=True)
        total = np.where(shared < 0.5, (relative + shared) / np.maximum(1.0 - shared, 0.5), np.inf)
    total = total + row_sum_error(x.shape[-1], model, rescalings(scores))[:, None] + 4.0 * model.unit
    # Underflow: a flushed exponential is at most 2⁻¹²⁶ of the largest.
    error = np.minimum(np.where(weights > 0, weights * total, 0.0) + 2.0**-126 + oracle_error(x.shape[-1]) * weights, 1)
    return Judgement(output_rounding(error.reshape(x.shape), expected, output))
