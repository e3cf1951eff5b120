"""What a kernel effectively weights and reads, from outside: one-hot and index-coded inputs through the whole kernel.

Attention is linear in V, and a product in each operand, whatever else is wrong: with one-hot rows in the other place
the output *is* the weights, the scores up to a constant per row, or the elements that were read. A kernel that also
misreads the one-hot operand gives a map that is rearranged by that as well; the other operand's map then shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Doubles
from wmmadiag.diagnose.faults.problem import MAIN_OUTPUT
from wmmadiag.launch import Launch
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.dtypes import ElementType
from wmmadiag.subject.epilogue import NEUTRAL
from wmmadiag.subject.inputs import rounded
from wmmadiag.subject.oracles import as_heads

Run: TypeAlias = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]
"""Inputs by role that replace the case's own (logical tensors) → outputs by role."""


def run_of(bound: BoundCase, launch: Callable[[Launch], object]) -> Run:
    """Runs of a bound case with other inputs; its arrays are as before after each.

    Args:
        launch: runs the kernel on the case's `launch`; what it raises goes through, the arrays restored.
    """

    def run(inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        kept = [(one.storage, one.storage.copy(), one.original) for one in bound.arguments if one.storage is not None]
        try:
            for storage, _, original in kept:
                storage[...] = original
            for role, values in inputs.items():
                bound.argument_of(role).view(role)[...] = values
            launch(bound.launch)
            return {role: array.copy() for role, array in bound.outputs().items()}
        finally:
            for storage, content, _ in kept:
                storage[...] = content

    return run


def effective_weights(run: Run, bound: BoundCase) -> Doubles:
    """The weight that each query effectively gives to each key of its own head: (B, H, Sq, Skv).

    V is the identity, Dv keys at a time: ⌈Skv / Dv⌉ runs. Exact up to the rounding of P and of the output. Divided
    as the kernel divides: rows of a right softmax add up to 1.
    """
    shape = bound.inputs()["v"].shape
    keys, width = shape[-2:]
    element = bound.elements()["v"]
    parts = []
    for start in range(0, keys, width):
        block = np.zeros((keys, width))
        count = min(width, keys - start)
        block[start + np.arange(count), np.arange(count)] = 1.0
        out = run({"v": rounded(np.broadcast_to(block, shape), element)})["o"]
        parts.append(as_heads(out.astype(np.float64))[..., :count])
    return np.concatenate(parts, axis=-1)


def effective_heads(run: Run, bound: BoundCase) -> Doubles:
    """The weight that each query gives to all keys of each V head: (B, H, Sq, B·Hkv); Dv heads at a time."""
    values = bound.inputs()["v"]
    four = as_heads(values)
    heads, width = four.shape[0] * four.shape[1], four.shape[3]
    element = bound.elements()["v"]
    parts = []
    for start in range(0, heads, width):
        block = np.zeros((heads, four.shape[2], width))
        count = min(width, heads - start)
        block[start + np.arange(count), :, np.arange(count)] = 1.0
        out = run({"v": rounded(block.reshape(values.shape), element)})["o"]
        parts.append(as_heads(out.astype(np.float64))[..., :count])
    return np.concatenate(parts, axis=-1)


def effective_scores(weights: Doubles) -> Doubles:
    """Scores up to a constant per row: log of the weights less the row's largest; -inf where a key has no weight.

    NaN where a weight is negative or not finite: no exponential gave it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where((weights >= 0) & np.isfinite(weights), np.log(weights), np.nan)
        largest = np.max(np.where(np.isnan(scores), -np.inf, scores), axis=-1, keepdims=True)
        return np.asarray(scores - np.where(np.isfinite(largest), largest, 0.0))


# The value behind a position that nothing was read for, and one that is no single element's (a sum, a NaN).
NOTHING, SEVERAL = -1, -2


def effective_operands(run: Run, bound: BoundCase) -> dict[str, NDArray[np.int64]]:
    """Which element of each operand a product effectively reads at each place: flat indices into the logical tensor.

    For "gemm", "qkt" and "pv". The operand's elements encode their own index, digit by digit so that every type holds
    them exactly; the other operand selects them one by one. Returned by role, (B, H, rows, depth) for the left operand
    and (B, H, depth, columns) for the right one, as the product is meant (after a transposition that the card states).
    `NOTHING` where nothing was read, `SEVERAL` where a sum of elements, or garbage, came out.

    Raises:
        ValueError: for an operation that is not a product.
    """
    operation = bound.card.computes.operation
    if operation not in _OPERANDS:
        raise ValueError(f"'{operation}' is not a product")
    left, right = _OPERANDS[operation]
    return {left: _read(run, bound, left, True), right: _read(run, bound, right, False)}


_OPERANDS = {"gemm": ("a", "b"), "qkt": ("q", "k"), "pv": ("p", "v")}


def _turned(bound: BoundCase, role: str) -> bool:
    """Whether the operand is stored as its transpose in the product."""
    operation = bound.card.computes.operation
    return (operation == "qkt" and role == "k") or bool(operation == "gemm" and bound.parameters[f"transpose_{role}"])


def _read(run: Run, bound: BoundCase, role: str, is_left: bool) -> NDArray[np.int64]:
    inputs = bound.inputs()
    left, right = _OPERANDS[bound.card.computes.operation]
    other = right if is_left else left
    base = _base(bound.elements()[role], bound)
    size = inputs[role].size
    digits = 1
    while base**digits < size:
        digits += 1
    result = None
    for digit in range(digits):
        coded = np.arange(size) // base**digit % base + 1  # 0 is for nothing
        values = rounded(coded.reshape(inputs[role].shape).astype(np.float64), bound.elements()[role])
        seen = _selected(run, bound, {role: values}, other, is_left)
        whole = np.where(np.isfinite(seen), np.rint(seen), -1.0)
        bad = (np.abs(seen - whole) > 1e-3) | ~np.isfinite(seen) | (whole < 0) | (whole > base)
        number = np.where(bad, SEVERAL, whole.astype(np.int64) - 1)
        if result is None:
            result = number
        else:
            result = np.where((result < 0) | (number < 0), np.minimum(result, number), result + number * base**digit)
    assert result is not None
    return np.where(result >= size, SEVERAL, result)


def _base(element: ElementType, bound: BoundCase) -> int:
    """Digits 1 … base are exact in the operand's and the output's type."""
    output = next(iter(bound.outputs()))
    precision = min(element.precision, bound.elements()[output].precision)
    # Floats wider than tf32 may pass through it on their way to the tensor core.
    digits = min(precision - 1, 20 if element.bytes == 8 or not element.is_float else 10)
    while 2**digits > min(element.largest, bound.elements()[output].largest):
        digits -= 1
    return int(2**digits)


def _selected(run: Run, bound: BoundCase, given: Mapping[str, NDArray[Any]], other: str, is_left: bool) -> Doubles:
    """The given operand as the kernel reads it, through one-hot blocks in the other one."""
    operation = bound.card.computes.operation
    shape = bound.inputs()[other].shape
    element = bound.elements()[other]
    turned = _turned(bound, other)
    # As the product has it: (depth, columns) for a right operand, (rows, depth) for a left one.
    rows, columns = shape[-2:][::-1] if turned else shape[-2:]
    depth, width = (rows, columns) if is_left else (columns, rows)
    role = next(name for name in MAIN_OUTPUT[operation] if name in bound.outputs())
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
        out = as_heads(run({**given, **extra, other: one_hot})[role].astype(np.float64)) / factor
        parts.append(out[..., :count] if is_left else out[..., :count, :])
    return np.concatenate(parts, axis=-1 if is_left else -2)
