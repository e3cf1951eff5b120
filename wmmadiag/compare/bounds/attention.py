"""Rounding bound of attention, whichever way the kernel orders it (one pass, online, split over warps)."""

from __future__ import annotations

from collections.abc import Mapping
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
from wmmadiag.compare.bounds.scores import terms_error
from wmmadiag.compare.bounds.softmax import SLACK, row_sum_error, weight_errors
from wmmadiag.subject.dtypes import ElementType
from wmmadiag.subject.oracles import ScoreRows, as_heads, score_rows
from wmmadiag.subject.score_terms import ScoreTerms, score_terms


def bound(
    inputs: Mapping[str, NDArray[Any]],
    expected: dict[str, Doubles],
    parameters: Parameters,
    elements: dict[str, ElementType],
) -> dict[str, Judgement]:
    """Bounds of O and of the log-sum-exp.

    Inputs are exact: the reference reads the rounded ones. With w the reference's weights and o its output,

    1. Scores. A sum of D products costs `sum_error`·Σ|q||k|·|scale|; tf32 operands add their
       truncation, a scaled Q in a narrow type its rounding. What follows it is in `scores.terms_error`.
    2. Weights. `softmax.weight_errors` gives ε_ij relative to each. Numerator and denominator share them, so they
       move o by Σ w ε (v - o) / (1 - Σ w ε), at most Σ w ε (|v| + |o|) / (1 - Σ w ε); and never beyond the range of
       the v's, as any weights average them.
    3. P in a narrower type: u_P·w, and below its normal range 2⁻²⁵ (f16). (P is stored relative to the running
       maximum or normalised; both are at least w, so the absolute part is largest for the latter.)
       The row sum may be taken before or after this rounding: both |v| and |o| count.
    4. P·V. A sum of Skv products, each rescaling rounding it once more: `sum_error`·Σ w|v|.
    5. Row sum and division: (Skv + R + 8)·u and 4u, relative to |o|.
    6. Rounding to the output's type.

    A row without any key is expected to be 0 or not finite, unless `masked_rows` says which.

    Args:
        inputs: logical tensors by role; q, k, v as in `oracles.attention`.
        expected: "o" and "lse" as the reference gives them.
        parameters: evaluated parameters of the operation.
        elements: types of q, v, o and, if there is one, lse.

    Returns:
        By role, shaped as the reference.
    """
    model = arithmetic(parameters, elements["q"])
    scale = float(parameters["scale"])
    q4, k4, v4 = (as_heads(inputs[role]) for role in "qkv")
    terms = score_terms(parameters, inputs, q4.shape[2], k4.shape[2])
    o4 = as_heads(expected["o"])
    error_o = np.empty(o4.shape)
    error_lse = np.empty(o4.shape[:3])
    for part in score_rows(q4, k4, scale=scale, terms=terms):
        where = (*part.head, part.rows)
        v64 = v4[part.kv_head].astype(np.float64)
        error_o[where], error_lse[where] = _rows(part, v64, o4[where], scale, model, terms, parameters)
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


def _rows(
    part: ScoreRows,
    v: Doubles,
    o: Doubles,
    scale: float,
    model: Arithmetic,
    terms: ScoreTerms,
    parameters: Parameters,
) -> tuple[Doubles, Doubles]:
    """Errors of O (rows, Dv) and of the log-sum-exp (rows,) for some rows of one head, outputs' rounding aside."""
    depth, keys = part.q.shape[1], part.k.shape[0]
    dot = sum_error(depth, model)
    relative_dot = dot.relative + operand_error(model) + model.scaled_query + oracle_error(depth)
    factor = abs(scale) * SLACK
    score_error = (np.abs(part.q) * (relative_dot * factor)).astype(np.float32) @ np.abs(part.k).astype(np.float32).T
    score_error += np.float32(dot.absolute * factor)
    if terms.modifies:
        score_error += terms_error(part, terms, parameters, model, relative_dot).astype(np.float32)
    found = weight_errors(part.scores, score_error, model)
    size = np.abs(v)
    narrow = size.astype(np.float32)
    average = (found.weights @ narrow).astype(np.float64) * SLACK
    reach = v.max(axis=0) - v.min(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = found.errors.sum(axis=-1, keepdims=True, dtype=np.float64)
        first = (found.errors @ narrow) * SLACK + np.abs(o) * total
        moved = np.minimum(np.where(total < 0.5, first / np.maximum(1.0 - total, 0.5), np.inf), reach)
        relative, floor = _p_rounding(model)
        lost = relative * (average + np.abs(o)) + floor * (size.sum(axis=0) + keys * np.abs(o))
        products = sum_error(keys, model, extra=int(found.rescale.max(initial=0.0)))
        within = np.minimum(average + moved, size.max(axis=0))
        summed = within * (products.relative + model.operand + oracle_error(keys)) + products.absolute
        sum_part = row_sum_error(keys, model, found.rescale)
        error = moved + lost + summed
        error = error + (np.abs(o) + error) * (sum_part[:, None] + 4.0 * model.unit)
        share = np.minimum(total[:, 0] + relative + keys * floor, 1e300)
        # log: the relative error of its argument, and roundings of the scaled maximum, the logarithm and their sum.
        log_error = np.where(share < 0.5, share / np.maximum(1.0 - share, 0.5), np.inf) + sum_part
        log_error = log_error + 16.0 * model.unit * (1.0 + np.abs(found.largest) + np.log(keys + 1.0))
    return error, log_error


def _p_rounding(model: Arithmetic) -> tuple[float, float]:
    """Relative and absolute error of each weight when P is rounded to its type: step 3 of the derivation."""
    if model.p_type is None:
        return 0.0, 0.0
    unit = 2.0**-10 if model.p_type.name == "tf32" else model.p_type.unit  # tf32 may be truncated
    return unit, model.p_type.half_subnormal
