"""What follows a GEMM's product: scales of rows and columns, C, bias and an activation, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles

SPREAD = ("scale_a", "scale_b", "bias")
"""Roles that are spread over the result, in the order in which they are applied."""


@cache
def _erfc() -> np.ufunc:
    return np.frompyfunc(math.erfc, 1, 1)


def _relu(x: Doubles) -> Doubles:
    return np.maximum(x, 0.0)


def _gelu(x: Doubles) -> Doubles:
    return 0.5 * x * np.asarray(_erfc()(x * -math.sqrt(0.5)), np.float64)


def _gelu_tanh(x: Doubles) -> Doubles:
    return np.asarray(0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))))


def _sigmoid(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _silu(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        return np.asarray(x / (1.0 + np.exp(-x)))


@dataclass(frozen=True, slots=True)
class Activation:
    """One activation."""

    meaning: str  # its formula
    apply: Callable[[Doubles], Doubles]  # to float64 values of any shape
    # no smaller than the derivative's largest magnitude (gelu: Φ(√2) + √2·φ(√2) = 1.12891; its form by tanh: 1.12900;
    # silu: 1.09984)
    slope: float
    constant: float = 0.0  # error of computing it at an exact argument that is not relative to that, in units
    exact: bool = False  # whether it is computed without any rounding


FUNCTIONS: Mapping[str, Activation] = {
    "none": Activation("x", lambda x: x, 1.0, exact=True),
    "relu": Activation("max(x, 0)", _relu, 1.0, exact=True),
    "relu6": Activation("min(max(x, 0), 6)", lambda x: np.minimum(_relu(x), 6.0), 1.0, exact=True),
    "gelu": Activation("x·Φ(x), by the error function", _gelu, 1.13),
    "gelu_tanh": Activation("x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2", _gelu_tanh, 1.13),
    "silu": Activation("x/(1 + exp(-x))", _silu, 1.1),
}
"""Activations of a product, by name."""

GATES: Mapping[str, Activation] = {
    "swiglu": FUNCTIONS["silu"],
    "geglu": FUNCTIONS["gelu"],
    "geglu_tanh": FUNCTIONS["gelu_tanh"],
    "reglu": FUNCTIONS["relu"],
    "glu": Activation("1/(1 + exp(-x))", _sigmoid, 0.25, constant=12.0),
    "bilinear": FUNCTIONS["none"],
}
"""Activations of a gate, by the names of Shazeer, GLU Variants Improve Transformer, 2020 (arXiv 2002.05202)."""


FORMULAS: Mapping[str, str] = {
    "gelu_tanh": r"0?\.0447",
    "gelu": r"\berf[cf]*\s*\(|\bnormcdff?\s*\(",
    "silu": r"1(?:\.0*)?f?\)?\s*\+\s*(?:__)?exp2?f?\s*\(\s*-|\b(?:silu|swish)\w*\s*\(",
    "relu6": r"\brelu6\w*\s*\(|min\w*\s*\((?:\s*6\.0*f?\s*,[^;{}]*max|[^;{}]*max[^;{}]*,\s*6\.0*f?\s*\))",
    "relu": r"\brelu\w*\s*\(|max\w*\s*\((?:\s*0\.0*f?\s*,|[^;{}]*,\s*0\.0*f?\s*\))"
    r"|(?<![\w.\]])(?P<kept>[a-z_][\w.\[\]]{0,60})\s{0,8}>=?\s*0\.0*f?\s*\?\s*(?P=kept)\s*:\s*0\.0*f?(?![\w.])"
    r"|(?<![\w.\]])(?P<cut>[a-z_][\w.\[\]]{0,60})\s{0,8}<=?\s*0\.0*f?\s*(?:\?\s*0\.0*f?\s*:\s*(?P=cut)|\)\s*(?P=cut)\s*=\s*0\.0*f?)(?![\w.])",
}
"""What a source has that computes an activation, as patterns; case does not matter."""


def spread(array: NDArray[Any], shape: tuple[int, ...]) -> Doubles:
    """A tensor whose axes have extent 1 or the result's, over a result of that shape; surplus leading 1s go."""
    extents = array.shape[max(0, array.ndim - len(shape)) :]
    return np.broadcast_to(array.reshape(extents).astype(np.float64), shape)


def finished(
    product: Doubles, inputs: Mapping[str, NDArray[Any]], *, beta: float = 0.0, activation: str = "none"
) -> Doubles:
    """activation(product · scale_a · scale_b + beta · C + bias), of what `inputs` has of these roles.

    Args:
        product: alpha·op(A)·op(B), (…, M, N).
        inputs: logical tensors by role; "scale_a", "scale_b" and "bias" as `spread` takes them, "c" as the product.
    """
    result = product
    for role in ("scale_a", "scale_b"):
        if role in inputs:
            result = result * spread(inputs[role], product.shape)
    if "c" in inputs and beta != 0:
        result = result + beta * inputs["c"].astype(np.float64)
    if "bias" in inputs:
        result = result + spread(inputs["bias"], product.shape)
    return FUNCTIONS[activation].apply(result)


def bias_of(inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The bias alone, where there is one, as `finished` takes it."""
    return {"bias": inputs["bias"]} if "bias" in inputs else {}
