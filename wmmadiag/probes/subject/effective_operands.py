"""Which elements a product effectively reads, from outside: index-coded and one-hot inputs through the whole kernel.

A product is linear in each operand, whatever else is wrong: with one-hot rows in the other place the output *is* the
elements that were read. A kernel that also misreads the one-hot operand gives a map that is rearranged by that as well;
the other operand's map then shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.parts.epilogue import NEUTRAL
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.scores import as_heads
from wmmadiag.probes.subject.rerun import Run
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.inputs import rounded

# The value behind a position that nothing was read for, and one that is no single element's (a sum, a NaN).
NOTHING, SEVERAL = -1, -2


def effective_operands(run: Run, bound: BoundCase, output: str) -> dict[str, NDArray[np.int64]]:
    """Which element of each operand a product effectively reads at each place: flat indices into the logical tensor.

    For "gemm", "qkt" and "pv". The operand's elements encode their own index, digit by digit so that every type holds
    them exactly; the other operand selects them one by one. Returned by role, (B, H, rows, depth) for the left operand
    and (B, H, depth, columns) for the right one, as the product is meant (after a transposition that the card states).
    `NOTHING` where nothing was read, `SEVERAL` where a sum of elements, or garbage, came out.

    Args:
        output: role of the product.

    Raises:
        ValueError: for an operation that is not a product.
    """
    operation = bound.card.computes.operation
    if operation not in _OPERANDS:
        raise ValueError(f"'{operation}' is not a product")
    left, right = _OPERANDS[operation]
    return {left: _read(run, bound, output, left, True), right: _read(run, bound, output, right, False)}


_OPERANDS = {"gemm": ("a", "b"), "qkt": ("q", "k"), "pv": ("p", "v")}


def _turned(bound: BoundCase, role: str) -> bool:
    """Whether the operand is stored as its transpose in the product."""
    operation = bound.card.computes.operation
    return (operation == "qkt" and role == "k") or bool(operation == "gemm" and bound.parameters[f"transpose_{role}"])


def _read(run: Run, bound: BoundCase, output: str, role: str, is_left: bool) -> NDArray[np.int64]:
    inputs = bound.inputs()
    left, right = _OPERANDS[bound.card.computes.operation]
    other = right if is_left else left
    base = _base(bound.elements()[role], bound.elements()[output])
    size = inputs[role].size
    digits = 1
    while base**digits < size:
        digits += 1
    result = None
    for digit in range(digits):
        coded = np.arange(size) // base**digit % base + 1  # 0 is for nothing
        values = rounded(coded.reshape(inputs[role].shape).astype(np.float64), bound.elements()[role])
        seen = _selected(run, bound, output, {role: values}, other, is_left)
        whole = np.where(np.isfinite(seen), np.rint(seen), -1.0)
        bad = (np.abs(seen - whole) > 1e-3) | ~np.isfinite(seen) | (whole < 0) | (whole > base)
        number = np.where(bad, SEVERAL, whole.astype(np.int64) - 1)
        if result is None:
            result = number
        else:
            result = np.where((result < 0) | (number < 0), np.minimum(result, number), result + number * base**digit)
    assert result is not None
    return np.where(result >= size, SEVERAL, result)


def _base(element: ElementType, output: ElementType) -> int:
    """Digits 1 … base are exact in the operand's and the output's type."""
    precision = min(element.precision, output.precision)
    # Floats wider than tf32 may pass through it on their way to the tensor core.
    digits = min(precision - 1, 20 if element.bytes == 8 or not element.is_float else 10)
    while 2**digits > min(element.largest, output.largest):
        digits -= 1
    return int(2**digits)


def _selected(
    run: Run, bound: BoundCase, output: str, given: Mapping[str, NDArray[Any]], other: str, is_left: bool
) -> Doubles:
    """The given operand as the kernel reads it, through one-hot blocks in the other one."""
    shape = bound.inputs()[other].shape
    element = bound.elements()[other]
    turned = _turned(bound, other)
    # As the product has it: (depth, columns) for a right operand, (rows, depth) for a left one.
    rows, columns = shape[-2:][::-1] if turned else shape[-2:]
    depth, width = (rows, columns) if is_left else (columns, rows)
    factor = float(bound.parameters.get("alpha", bound.parameters.get("scale", 1.0)))
    inputs, elements = bound.inputs(), bound.elements()
    extra = {
        name: rounded(np.full(inputs[name].shape, value), elements[name])
        for name, value in {**NEUTRAL, "c": 0.0}.items()
        if name in inputs and name != other
    }
    parts = []
    for start in range(0, depth, width):
        count = min(width, depth - start)
        block = np.zeros((depth, width))
        block[start + np.arange(count), np.arange(count)] = 1.0
        stored = block if is_left != turned else block.T
        one_hot = rounded(np.broadcast_to(stored, shape), element)
        out = as_heads(run({**given, **extra, other: one_hot})[output].astype(np.float64)) / factor
        parts.append(out[..., :count] if is_left else out[..., :count, :])
    return np.concatenate(parts, axis=-1 if is_left else -2)
