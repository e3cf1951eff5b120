"""Derivatives of activations, by what the forward pass kept: its argument, or for ReLU its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles


def _gelu(x: Doubles) -> Doubles:
    phi = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    return np.asarray(0.5 * (1.0 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2.0))) + x * phi)


def _gelu_tanh(x: Doubles) -> Doubles:
    root = math.sqrt(2.0 / math.pi)
    tanh = np.tanh(root * (x + 0.044715 * x**3))
    return np.asarray(0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * root * (1.0 + 3 * 0.044715 * x * x))


def _silu(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        sigma = 1.0 / (1.0 + np.exp(-x))
    return np.asarray(sigma * (1.0 + x * (1.0 - sigma)))


@dataclass(frozen=True, slots=True)
class Derivative:
    """The derivative of an activation by what the forward pass kept."""

    apply: Callable[[Doubles], Doubles]
    error: float  # of computing it at an exact argument x, in units of u·(1 + |x|)
    exact: bool = False  # whether it is 0 or 1


# gelu, silu: σ, Φ or tanh have 16 units of themselves (`epilogue_bounds`), all of them below 1; products of them with
# one another and with x, whose factors φ(x), 1 − tanh² and 1 − σ keep it below 1 + |x|, have as many once more.
DERIVATIVES: Mapping[str, Derivative] = {
    "none": Derivative(lambda values: np.ones_like(values), 0.0, exact=True),  # numpy is read when it is needed
    "relu": Derivative(lambda x: (x > 0).astype(np.float64), 0.0, exact=True),
    "gelu": Derivative(_gelu, 48.0),
    "gelu_tanh": Derivative(_gelu_tanh, 48.0),
    "silu": Derivative(_silu, 48.0),
}
