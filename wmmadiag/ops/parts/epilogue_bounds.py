"""What a GEMM's epilogue adds to the bound of its sum: a narrower type, an activation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmmadiag.numerics.element_types import TYPES, ElementType
from wmmadiag.ops.parts.epilogue import FUNCTIONS, Activation, spread
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Arithmetic, Doubles, Parameters, magnitudes

# Roundings of a sum that is kept in a narrow type from the accumulator on: conversion, alpha, two scales, beta·C, C,
# the bias's conversion, bias.
_NARROW_STEPS = 8.0
# Error of an activation computed at an exact argument x, in units of u·|x|. With c = 1 + erf(x/√2), c = 1 + tanh(z) or
# 1/(1 + exp(-x)), the result is x·c or x·c/2, so an error of c counts as |x| times it (halved for the first two):
# - erf: two roundings of the argument move it by 2u·max z·erf'(z) < u, erff by 2 ulp < 2u, the sum with 1 by u;
# - tanh: six roundings of z move it by 6u·max z·tanh'(z) < 2.7u, tanhf by 2 ulp < 2u, the sum with 1 by u; by
#   exponentials it is 1 - 2/(1 + exp(2z)), whose exponential of relative error 4u + 3u|2z| moves it by
#   2u + 3u·max 4z·e²ᶻ/(1 + e²ᶻ)² < 4u, and whose two divisions and sums by 4u more;
# - 1/(1 + exp(-x)): likewise 4u·max σ(1 - σ) + 3u·max |x|σ(1 - σ) < 2u; sum and division 4u.
# The products with x and 1/2 are exact or cost u|x| each. Every form is below 12; exponentials that overflow leave 0,
# which is within u|x| of the result. (tanh.approx is worse, 2⁻¹¹: as much as an f16 epilogue.)
_EVALUATION = 16.0


def whole(
    parameters: Parameters, further: Mapping[str, object], elements: Mapping[str, ElementType], output: ElementType
) -> bool:
    """Whether an integer sum stays one to the end."""
    factors = (float(parameters.get("alpha", 1.0)), float(parameters.get("beta", 0.0)))
    return (
        all(one.is_integer() for one in factors)
        and not output.is_float
        and not any(elements[role].is_float for role in (*further, "c") if role in elements)
        and FUNCTIONS[str(parameters.get("activation", "none"))].exact
        and narrow(parameters) is None
    )


def narrow(parameters: Parameters) -> ElementType | None:
    """The type that the sum is rounded to before the epilogue; None for the working type."""
    name = str(parameters.get("epilogue_dtype", "auto"))
    return None if name == "auto" else TYPES[name]


def plain(parameters: Parameters) -> bool:
    """Whether nothing but products and sums in the working type follows."""
    return narrow(parameters) is None and parameters.get("activation", "none") == "none"


def factors(further: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> Doubles:
    """|scale_a·scale_b| of each element."""
    product = np.ones(shape)
    for role in ("scale_a", "scale_b"):
        if role in further:
            product = product * np.abs(spread(further[role], shape))
    return product


def added(inputs: Mapping[str, NDArray[Any]], beta: float, shape: tuple[int, ...]) -> Doubles:
    """|beta·C| + |bias| of each element."""
    total = np.zeros(shape)
    if "c" in inputs:
        total += abs(beta) * magnitudes(inputs["c"])
    if "bias" in inputs:
        total += np.abs(spread(inputs["bias"], shape))
    return total


def after(
    error: Doubles,
    result: Doubles,
    added: Doubles,
    factor: Doubles,
    kind: ElementType | None,
    activation: Activation,
    model: Arithmetic,
) -> Doubles:
    """The bound of activation(x), from that of x.

    Let |x̂ - x| ≤ error. A narrow epilogue rounds partial sums, none larger than |x| + 2·added, at most `_NARROW_STEPS`
    times. Then |f̂(x̂) - f(x)| ≤ |f̂(x̂) - f(x̂)| + |f(x̂) - f(x)| ≤ `_EVALUATION`·u·(|x| + error) + slope·error, where
    relu is exact and `slope` is the largest of |f'|. What is not relative to x is the activation's `constant`, of the
    same forms: 1/(1 + exp(-x)) itself is off by what is counted above, without the factor |x|.

    Args:
        error: of x, the sum with bias.
        result: |x|; added: |beta·C| + |bias|; factor: |alpha·scales|. All are shaped as the output.
        kind: the type that the sum is rounded to before, or None.
    """
    unit = model.unit
    if kind is not None:
        unit = kind.unit
        least = _NARROW_STEPS * kind.half_subnormal * np.maximum(1.0, factor)
        error = error + _NARROW_STEPS * unit * (1.0 + _NARROW_STEPS * unit) * (result + 2.0 * added + error) + least
    if activation.exact:
        return error
    tiny = 0.0 if kind is None else 4.0 * kind.half_subnormal
    evaluation = unit * (_EVALUATION * (result + error) + activation.constant)
    return activation.slope * error + evaluation + 2.0**-118 + tiny
