"""How many floating-point operations an operation needs, whatever the kernel does."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ops.expressions import ExpressionError, evaluate
from wmmadiag.ops.model import Operation, Values
from wmmadiag.ops.shapes import Shape, ShapeMismatch, extents_of, numbers_of


def floating_operations(operation: Operation, shapes: Mapping[str, Shape], parameters: Values) -> float:
    """Multiplications and additions of the matrix products; 0.0 for what has none or is not known.

    Args:
        shapes: logical shape by role.
        parameters: evaluated.
    """
    if not operation.work:
        return 0.0
    try:
        extents = extents_of(operation, shapes, parameters)
        return float(evaluate(operation.work, {**numbers_of(parameters), **extents}.__getitem__))
    except (ShapeMismatch, ExpressionError, KeyError):
        return 0.0
