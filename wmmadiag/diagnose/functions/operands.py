"""The function with one input changed: read at another index, in another order, by another pitch, or not at all.

The kernel's memory holds what the card says; a kernel that addresses it wrongly sees what the function sees here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Doubles
from wmmadiag.diagnose.functions.model import Arrays, Change, Predict, Task

_TILES = (16, 32, 64, 8, 128)
_LARGEST = 1 << 20
"""Elements of an operand: rearranging larger ones takes too long."""
_ALSO_CONSTANTS = (0.0, 1.0)

Apply = Callable[[Doubles], Doubles]


def _with(role: str, apply: Apply) -> Predict:
    def predict(task: Task) -> tuple[Arrays, Arrays]:
        return task.call({**task.inputs, role: apply(task.inputs[role])})

    return predict


def other_indices(task: Task) -> Iterator[Change]:
    """One axis of an operand indexed otherwise."""
    for role, array in task.inputs.items():
        if array.size > _LARGEST:
            continue
        for axis, extent in enumerate(array.shape):
            for words, index in _indices(extent) if extent > 1 else ():
                yield Change(
                    "index-arithmetic",
                    f"index-{words}-{role}-{axis}",
                    f"{role} is read with {words} as index {axis} instead of i",
                    _with(role, partial(_taken, index=index, axis=axis)),
                    {"operand": role, "axis": axis},
                )


def _taken(array: Doubles, index: NDArray[np.int64], axis: int) -> Doubles:
    return np.take(array, index, axis)


def _indices(extent: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
    i = np.arange(extent)
    for tile in _TILES:
        if tile < extent:
            yield f"i % {tile}", i % tile
    yield "0", np.zeros(extent, np.int64)
    yield "i + 1", (i + 1) % extent
    yield "i - 1", (i - 1) % extent
    for tile in _TILES:
        if tile < extent:
            yield f"i / {tile} * {tile}", i // tile * tile
            yield f"i + {tile}", (i + tile) % extent
            yield f"i ^ {tile}", np.where((i ^ tile) < extent, i ^ tile, i)
    yield "the opposite", i[::-1].copy()


def other_tables(task: Task) -> Iterator[Change]:
    """Integers that say where something lies, or how much of it there is: one more, one less, or not looked at."""
    for role in sorted(task.whole):
        array = task.inputs[role]
        counted = np.broadcast_to(np.arange(array.shape[-1]), array.shape) if array.ndim else array
        ways: list[tuple[str, str, Doubles]] = [
            ("index-arithmetic", "not looked up: the index itself is used in its place", counted.astype(np.float64)),
            ("index-arithmetic", "taken as 0", np.zeros_like(array)),
            ("loop-extent", "taken one too large", array + 1),
            ("loop-extent", "taken one too small", array - 1),
            ("loop-extent", "taken as its largest value everywhere", np.full_like(array, array.max(initial=0))),
        ]
        ways += [
            ("tail-masking", f"rounded up to a multiple of {tile}", np.ceil(array / tile) * tile) for tile in _TILES
        ]
        ways += [("loop-extent", f"rounded down to a multiple of {tile}", array // tile * tile) for tile in _TILES]
        for hypothesis, words, changed in ways:
            if np.array_equal(changed, array):
                continue
            yield Change(
                hypothesis,
                f"table-{words}-{role}",
                f"{role} is {words}",
                _with(role, lambda _, changed=changed: changed),  # type: ignore[misc]
                {"operand": role},
            )


def other_numbers(task: Task) -> Iterator[Change]:
    """One number that the function is given, changed."""
    for name in sorted(task.used):
        value = task.symbols.get(name)
        if value is None:
            continue
        others = (value + 1, value - 1, 0, 2 * value, value / 2) if isinstance(value, float) else (value + 1, value - 1)
        for other in dict.fromkeys((*others, 0, 1)):
            if other != value:
                yield Change(
                    "card-mismatch",
                    f"number-{name}",
                    f"the kernel computes with {name} = {other:g} instead of {value:g}",
                    lambda task, name=name, other=other: task.call(symbols={**task.symbols, name: other}),  # type: ignore[misc]
                    {"value": other},
                )


def other_order(task: Task) -> Iterator[Change]:
    """Two axes of an operand, or its pitch, taken for others; the memory stays as it is."""
    for role, array in task.inputs.items():
        if array.size > _LARGEST:
            continue
        for a, b in combinations(range(array.ndim), 2):
            if array.shape[a] == 1 or array.shape[b] == 1:
                continue
            last = b == array.ndim - 1 and a == b - 1
            yield Change(
                "operand-layout" if last else "tensor-strides",
                f"axes-{role}-{a}-{b}",
                f"axes {a} and {b} of {role} are taken for each other",
                _with(role, partial(_reordered, a=a, b=b)),
                {"operand": role, "axis": a},
            )
        for axis in range(array.ndim - 1):
            true = int(np.prod(array.shape[axis + 1 :]))
            for stride in _strides(task, true) if array.shape[axis] > 1 else ():
                yield Change(
                    "tensor-strides" if axis < array.ndim - 2 else "leading-dimension",
                    f"stride-{role}-{axis}",
                    f"{role} is read with {stride} elements from one index {axis} to the next instead of {true}",
                    _with(role, partial(_strided, axis=axis, stride=stride)),
                    {"operand": role, "value": stride, "true": true},
                )


def _reordered(array: Doubles, a: int, b: int) -> Doubles:
    shape = list(array.shape)
    shape[a], shape[b] = shape[b], shape[a]
    return np.ascontiguousarray(np.ascontiguousarray(array).reshape(shape).swapaxes(a, b))


def _strides(task: Task, true: int) -> Iterator[int]:
    found = {a * b for a in (1, *task.extents) for b in (1, *task.extents)} - {true}
    yield from sorted(value for value in found if true // 16 <= value <= 16 * true)[:24]


def _strided(array: Doubles, axis: int, stride: int) -> Doubles:
    inner = int(np.prod(array.shape[axis + 1 :]))
    outer = int(np.prod(array.shape[:axis]))
    flat = np.ascontiguousarray(array).reshape(-1)
    rows = array.shape[axis]
    at = np.arange(outer)[:, None, None] * rows * inner + np.arange(rows)[:, None] * stride + np.arange(inner)
    inside = at < flat.size
    return np.where(inside, flat[np.where(inside, at, 0)], np.nan).reshape(array.shape)


def other_operands(task: Task) -> Iterator[Change]:
    """An operand read in place of another of its shape, two exchanged, or one left out."""
    floats = [role for role in task.inputs if role not in task.whole]
    for a, b in combinations(floats, 2):
        if task.inputs[a].shape != task.inputs[b].shape:
            continue
        for instead, words in (
            ({a: b, b: a}, f"{a} and {b} are exchanged"), ({a: b}, f"{b} is read in place of {a}"),
            ({b: a}, f"{a} is read in place of {b}"),
        ):  # fmt: skip

            def predict(task: Task, instead: dict[str, str] = instead) -> tuple[Arrays, Arrays]:
                return task.call({**task.inputs, **{one: task.inputs[other] for one, other in instead.items()}})

            yield Change("operand-order", f"instead-{a}-{b}", words, predict, {"operand": a})
    for role in floats:
        for value in _ALSO_CONSTANTS:
            words = f"{role} is left out: the kernel computes as if it were {value:g} everywhere"
            yield Change(
                "card-mismatch",
                f"left-out-{role}",
                words,
                _with(role, partial(np.full_like, fill_value=value)),
                {"operand": role},
            )


def parts_left_out(task: Task) -> Iterator[Change]:
    """A tile of an operand that takes no part, at the start or the end of an axis; or the only one that does."""
    for role, array in task.inputs.items():
        if array.size > _LARGEST or role in task.whole:
            continue
        for axis, extent in enumerate(array.shape):
            for tile in _TILES:
                if tile >= extent:
                    continue
                rest = extent // tile * tile
                ends = {"the first": slice(0, tile), "all but the first": slice(tile, None)}
                ends["all that is no whole tile behind the last" if rest < extent else "the last"] = slice(
                    rest if rest < extent else extent - tile, None
                )
                for words, part in ends.items():
                    yield Change(
                        "loop-extent",
                        f"part-{role}-{axis}",
                        f"{words} {tile} of axis {axis} of {role} take no part"
                        if "whole" not in words
                        else f"what is behind the last whole {tile} of axis {axis} of {role} takes no part",
                        _with(role, partial(_zeroed, axis=axis, part=part)),
                        {"operand": role, "axis": axis, "tile": tile},
                    )


def _zeroed(array: Doubles, axis: int, part: slice) -> Doubles:
    changed = array.copy()
    changed[(slice(None),) * axis + (part,)] = 0.0
    return changed
