"""How many floating-point operations a case's operation needs, whatever the kernel does."""

from __future__ import annotations

from collections.abc import Mapping

Shape = tuple[int, ...]


def operations(
    operation: str, shapes: Mapping[str, Shape], *, causal: bool = False, transpose_a: bool = False
) -> float:
    """Multiplications and additions of the matrix products; 0.0 for what has none or is not known.

    Args:
        operation: as in a card, "attention", "qkt", "pv" or "gemm".
        shapes: by role: q, k, v, p [B, H, S, D], a and b [(batch,) rows, columns].
        causal: half of the scores are masked (the usual way of counting attention).
    """
    if operation == "attention":
        *outer, rows, depth = shapes["q"]
        keys, width = shapes["v"][-2:]
        return 2.0 * _product(outer) * rows * keys * (depth + width) * (0.5 if causal else 1.0)
    if operation == "qkt":
        *outer, rows, depth = shapes["q"]
        return 2.0 * _product(outer) * rows * shapes["k"][-2] * depth
    if operation == "pv":
        *outer, rows, keys = shapes["p"]
        return 2.0 * _product(outer) * rows * keys * shapes["v"][-1]
    if operation == "gemm":
        output = next((shape for role, shape in shapes.items() if role in ("d", "c")), None)
        if output is None:
            return 0.0
        return 2.0 * _product(output) * shapes["a"][-2 if transpose_a else -1]
    return 0.0


def _product(extents: list[int] | Shape) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
