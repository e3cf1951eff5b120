"""Rounding bound of attention, whichever way the kernel orders it (one pass, online, split over warps)."""

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
    operand_error,
    oracle_error,
    output_rounding,
    sum_error,
)
from wmmadiag.compare.bounds.softmax import rescalings, row_sum_error, weight_errors
from wmmadiag.subject.dtypes import ElementType
from wmmadiag.subject.oracles import ScoreRows, as_heads, score_rows, softmax_rows


def bound(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    expected: dict[str, Doubles],
    parameters: Parameters,
    elements: dict[str, ElementType],
) -> dict[str, Judgement]:
    """Bounds of O and of the log-sum-exp.

    Inputs are exact: the reference reads the rounded ones. With w the reference's weights and o its output,

    1. Scores. A sum of D products costs `sum_error`·Σ|q||k|·|scale|; tf32 operands add their
       truncation, a scaled Q in a narrow type its rounding.
    2. Weights. `softmax.weight_errors` gives ε_ij relative to each. Numerator and denominator share them, so they
       move o by Σ w ε (v - o) / (1 - Σ w ε), at most Σ w ε (|v| + |o|) / (1 - Σ w ε); and never beyond the range of
       the v's, as any weights average them.
    3. P in a narrower type: u_P·w, below its normal range 2⁻²⁵ (f16) but not more than w. (P is stored relative to
       the running maximum or normalised; both are at least w, so the absolute part is largest for the latter.)
       The row sum may be taken before or after this rounding: both |v| and |o| count.
    4. P·V. A sum of Skv products, each rescaling rounding it once more: `sum_error`·Σ w|v|.
    5. Row sum and division: (Skv + R + 8)·u and 4u, relative to |o|.
    6. Rounding to the output's type.

    A row without any key is expected to be 0 or not finite, unless `masked_rows` says which.

    Args:
        q, k, v: logical tensors as in `oracles.attention`.
        expected: "o" and "lse" as the reference gives them.
        parameters: evaluated parameters of the operation.
        elements: types of q, v, o and, if there is one, lse.

    Returns:
        By role, shaped as the reference.
    """
    model = arithmetic(parameters, elements["q"])
    scale = float(parameters["scale"])
    q4, k4, v4 = as_heads(q), as_heads(k), as_heads(v)
    o4 = as_heads(expected["o"])
    error_o = np.empty(o4.shape)
    error_lse = np.empty(o4.shape[:3])
    masked = bool(parameters["causal"])
    for part in score_rows(q4, k4, scale=scale, causal=masked, alignment=str(parameters["alignment"])):
        where = (*part.head, part.rows)
        v64 = v4[part.kv_head].astype(np.float64)
        error_o[where], error_lse[where] = _rows(part, v64, o4[where], scale, model)
    empty = np.isneginf(expected["lse"])
    error_o = error_o.reshape(expected["o"].shape)
    error_lse = error_lse.reshape(expected["lse"].shape)
    error_o[empty] = 0.0
    error_lse[empty] = 0.0
    free = empty if parameters["masked_rows"] == "any" and empty.any() else None
    o_bound = output_rounding(error_o, expected["o"], elements["o"])
    judged = {"o": Judgement(o_bound, None if free is None else np.broadcast_to(free[..., None], o_bound.shape))}
    if "lse" in elements:
        judged["lse"] = Judgement(output_rounding(error_lse, expected["lse"], elements["lse"]), free)
    return judged


def _rows(part: ScoreRows, v: Doubles, o: Doubles, scale: float, model: Arithmetic) -> tuple[Doubles, Doubles]:
    """Errors of O (rows, Dv) and of the log-sum-exp (rows,) for some rows of one head, outputs' rounding aside."""
    depth, keys = part.q.shape[1], part.k.shape[0]
    dot = sum_error(depth, model)
    relative_dot = dot.relative + operand_error(model) + model.scaled_query + oracle_error(depth)
    score_error = np.abs(part.q) @ np.abs(part.k).T * (relative_dot * abs(scale)) + dot.absolute * abs(scale)
    weights, lse = softmax_rows(part.scores)
    rescale = rescalings(part.scores)
    shared = weight_errors(part.scores, score_error, model)
    # 0·inf where a hopelessly uncertain score has no weight at all
    shared = np.where(weights > 0, weights * np.minimum(shared, 1e300), 0.0)
    rounding = _p_rounding(weights, model)
    size = np.abs(v)
    reach = v.max(axis=0) - v.min(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = _moved(shared, size, o, reach)
        lost = rounding @ size + np.abs(o) * rounding.sum(axis=-1, keepdims=True)
        average = np.minimum(weights @ size + moved, size.max(axis=0))
        products = sum_error(keys, model, extra=int(rescale.max(initial=0.0)))
        summed = average * (products.relative + model.operand + oracle_error(keys)) + products.absolute
        sum_part = row_sum_error(keys, model, rescale)
        error = moved + lost + summed
        error = error + (np.abs(o) + error) * (sum_part[:, None] + 4.0 * model.unit)
        share = np.minimum(shared.sum(axis=-1) + rounding.sum(axis=-1), 1e300)
        # log: the relative error of its argument, 2⁻²⁰ for the fast logarithm, and roundings of m, log and their sum.
        peak = np.abs(np.where(np.isfinite(part.scores), part.scores, 0.0)).max(axis=-1)
        log_error = np.where(share < 0.5, share / np.maximum(1.0 - share, 0.5), np.inf) + sum_part
        log_error = log_error + 16.0 * model.unit * (1.0 + peak + np.abs(np.where(np.isfinite(lse), lse, 0.0)))
    return error, log_error


def _moved(shared: Doubles, size: Doubles, o: Doubles, reach: Doubles) -> Doubles:
    """What errors common to numerator and denominator do to o: step 2 of the derivation."""
    total = shared.sum(axis=-1, keepdims=True)
    first = shared @ size + np.abs(o) * total
    return np.minimum(np.where(total < 0.5, first / np.maximum(1.0 - total, 0.5), np.inf), reach)


def _p_rounding(weights: Doubles, model: Arithmetic) -> Doubles:
    """Absolute error of each weight when P is rounded to its type: step 3 of the derivation."""
    if model.p_type is None:
        return np.zeros_like(weights)
    unit = 2.0**-10 if model.p_type.name == "tf32" else model.p_type.unit  # tf32 may be truncated
    floor = np.minimum(model.p_type.half_subnormal, weights)
    # Twice the floor: P may also have been flushed, and its neighbour's rounding moves the subnormal border.
    return np.asarray(unit * weights + np.where(weights < 2.0 ** (model.p_type.min_exponent + 1), floor, 0.0))
