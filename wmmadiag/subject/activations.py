"""Activations that follow a product: names and meanings; `epilogue.py` computes them. Needs no NumPy."""

from __future__ import annotations

from collections.abc import Mapping

ACTIVATIONS: Mapping[str, str] = {
    "none": "x",
    "relu": "max(x, 0)",
    "gelu": "x·Φ(x), by the error function",
    "gelu_tanh": "x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2",
    "silu": "x/(1 + exp(-x))",
}
