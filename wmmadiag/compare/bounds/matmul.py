"""Rounding bounds of Q·Kᵀ, P·V and the general matrix product."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.bounds.arithmetic import (
    Doubles,
    Judgement,
    Parameters,
    arithmetic,
    magnitudes,
    operand_error,
    oracle_error,
    output_rounding,
    sum_error,
)
from wmmadiag.subject import oracles
from wmmadiag.subject.dtypes import ElementType


def gemm(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any] | None,
    expected: Doubles,
    parameters: Parameters,
    operand: ElementType,
    output: ElementType,
) -> Judgement:
    """Bound of alpha·op(A)·op(B) + beta·C, element by element.

    A sum of K products costs `sum_error`·Σ|a||b| (tf32 operands add their truncation); each of alpha, beta, the two
    products with them and their sum one unit of |alpha|Σ|a||b| + |beta||c|; then the output's rounding. Integer
    products and sums are exact. beta·C may be the accumulator's start value: it is one more term of the sum.
    """
    model = arithmetic(parameters, operand)
    alpha, beta = float(parameters.get("alpha", 1.0)), float(parameters.get("beta", 0.0))
    depth = a.shape[-2] if parameters.get("transpose_a") else a.shape[-1]
    if model.exact:
        whole = alpha.is_integer() and beta.is_integer() and not output.is_float
        if whole:
            return Judgement(np.zeros_like(expected))
    total = oracles.gemm(
        magnitudes(a),
        magnitudes(b),
        None if c is None else magnitudes(c),
        alpha=abs(alpha),
        beta=abs(beta),
        transpose_a=bool(parameters.get("transpose_a")),
        transpose_b=bool(parameters.get("transpose_b")),
    )
    products = sum_error(depth + 1, model)
    relative = products.relative + operand_error(model) + oracle_error(depth)
    scaling = 0.0 if (alpha, beta) == (1.0, 0.0) else 4.0 * model.unit
    error = total * (relative + scaling) + products.absolute * abs(alpha)
    return Judgement(output_rounding(error, expected, output))


def qkt(
    q: NDArray[Any],
    k: NDArray[Any],
    expected: Doubles,
    parameters: Parameters,
    operand: ElementType,
    output: ElementType,
) -> Judgement:
    """Bound of scale·Q·Kᵀ: `sum_error`·|scale|Σ|q||k|, two units for the scale and its product, output rounding."""
    model = arithmetic(parameters, operand)
    scale = float(parameters.get("scale", 1.0))
    products = sum_error(q.shape[-1], model)
    total = oracles.qkt(magnitudes(q), magnitudes(k), scale=abs(scale))
    relative = products.relative + operand_error(model) + oracle_error(q.shape[-1])
    scaling = 0.0 if scale == 1.0 else 3.0 * model.unit
    error = total * relative + np.abs(expected) * scaling + products.absolute * abs(scale)
    return Judgement(output_rounding(error, expected, output))


def pv(
    p: NDArray[Any],
    v: NDArray[Any],
    expected: Doubles,
    parameters: Parameters,
    operand: ElementType,
    output: ElementType,
) -> Judgement:
    """Bound of P·V: `sum_error`·Σ|p||v|, then the output's rounding."""
    model = arithmetic(parameters, operand)
    products = sum_error(p.shape[-1], model)
    total = oracles.pv(magnitudes(p), magnitudes(v))
    error = total * (products.relative + operand_error(model) + oracle_error(p.shape[-1])) + products.absolute
    return Judgement(output_rounding(error, expected, output))
