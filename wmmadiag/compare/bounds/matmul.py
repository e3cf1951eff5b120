"""Rounding bounds of Q·Kᵀ, P·V and the general matrix product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.bounds import epilogue
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
from wmmadiag.compare.bounds.scores import terms_error
from wmmadiag.subject import oracles
from wmmadiag.subject.dtypes import ElementType
from wmmadiag.subject.epilogue import SPREAD
from wmmadiag.subject.score_terms import score_terms


def gemm(
    inputs: Mapping[str, NDArray[Any]],
    expected: Doubles,
    parameters: Parameters,
    elements: Mapping[str, ElementType],
    output: ElementType,
) -> Judgement:
    """Bound of activation(alpha·op(A)·op(B)·scales + beta·C + bias), element by element.

    A sum of K products costs `sum_error`·Σ|a||b| (tf32 operands add their truncation); each of alpha, beta, the two
    products with them and their sum one unit of |alpha|Σ|a||b| + |beta||c|; then the output's rounding. Integer
    products and sums are exact. beta·C may be the accumulator's start value: it is one more term of the sum, and so is
    a bias. A bias costs two units more (its conversion and sum), scales four (the conversion of a whole sum, the
    product of both, two products). What the activation adds is in `epilogue.after`.
    """
    model = arithmetic(parameters, elements["a"])
    alpha, beta = float(parameters.get("alpha", 1.0)), float(parameters.get("beta", 0.0))
    transposed = bool(parameters.get("transpose_a")), bool(parameters.get("transpose_b"))
    a, b, c = inputs["a"], inputs["b"], inputs.get("c")
    further = {role: inputs[role] for role in SPREAD if role in inputs}
    depth = a.shape[-2 if transposed[0] else -1]
    if model.exact and epilogue.whole(parameters, further, elements, output):
        return Judgement(np.zeros_like(expected))
    total = oracles.gemm(
        magnitudes(a),
        magnitudes(b),
        None if c is None else magnitudes(c),
        alpha=abs(alpha),
        beta=abs(beta),
        transpose_a=transposed[0],
        transpose_b=transposed[1],
        further={role: magnitudes(one) for role, one in further.items()},
    )
    products = sum_error(depth + 1 + ("bias" in further), model)
    relative = products.relative + operand_error(model) + oracle_error(depth)
    units = 0.0 if (alpha, beta) == (1.0, 0.0) else 4.0
    units += 2.0 * ("bias" in further) + 4.0 * bool({"scale_a", "scale_b"} & set(further))
    factor = epilogue.factors(further, expected.shape) * abs(alpha)
    error = total * (relative + units * model.unit) + products.absolute * factor
    if not epilogue.plain(parameters):
        result = oracles.gemm(
            a, b, c, alpha=alpha, beta=beta, transpose_a=transposed[0], transpose_b=transposed[1], further=further
        )
        added = epilogue.added(inputs, beta, expected.shape)
        error = epilogue.after(error, np.abs(result), added, factor, parameters, model)
    return Judgement(output_rounding(error, expected, output))


def qkt(
    inputs: Mapping[str, NDArray[Any]],
    expected: Doubles,
    parameters: Parameters,
    operand: ElementType,
    output: ElementType,
) -> Judgement:
    """Bound of softcap(scale·Q·Kᵀ) + bias.

    `sum_error`·|scale|Σ|q||k|, two units for the scale and its product; then `scores.terms_error`, and output rounding.
    """
    model = arithmetic(parameters, operand)
    q, k = inputs["q"], inputs["k"]
    scale = float(parameters.get("scale", 1.0))
    products = sum_error(q.shape[-1], model)
    total = oracles.qkt(magnitudes(q), magnitudes(k), scale=abs(scale))
    relative = products.relative + operand_error(model) + oracle_error(q.shape[-1])
    terms = score_terms(parameters, inputs, q.shape[-2], k.shape[-2])
    error = total * relative + products.absolute * abs(scale)
    if terms.modifies:
        added = np.empty((*oracles.as_heads(q).shape[:3], k.shape[-2]))
        for part in oracles.score_rows(oracles.as_heads(q), oracles.as_heads(k), scale=scale, terms=terms):
            added[(*part.head, part.rows)] = terms_error(part, terms, parameters, model, relative)
        error = error + added.reshape(expected.shape)
    else:
        error = error + np.abs(expected) * (0.0 if scale == 1.0 else 3.0 * model.unit)
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
