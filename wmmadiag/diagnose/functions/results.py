"""What the function returns, stored at other places than meant, or multiplied by something."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import numpy as np

from wmmadiag.diagnose.faults.model import Doubles
from wmmadiag.diagnose.functions.model import Arrays, Change, Task

_SHIFTS = (1, -1, 8, -8, 16, -16, 32, -32)
_FACTORS = (2.0, 0.5, 4.0, 0.25, -1.0)


def stored_elsewhere(task: Task) -> Iterator[Change]:
    """Two axes exchanged, or an axis shifted, in one output."""
    for role, shape in task.shapes.items():
        for a, b in combinations(range(len(shape)), 2):
            if shape[a] > 1 and shape[b] > 1:
                words = f"axes {a} and {b} of {role} are taken for each other where it is stored"
                yield _change("tensor-strides", f"stored-axes-{role}-{a}-{b}", words, role, partial(_moved, a=a, b=b))
        for axis, extent in enumerate(shape):
            for shift in _SHIFTS:
                if abs(shift) < extent:
                    words = f"{role} is stored {shift:+d} off along axis {axis}"
                    apply = partial(np.roll, shift=shift, axis=axis)
                    yield _change("index-arithmetic", f"stored-shifted-{role}-{axis}", words, role, apply)
        for factor in _FACTORS:
            words = f"{role} is {factor:g} times what it must be"
            yield _change("card-mismatch", f"times-{role}", words, role, partial(np.multiply, factor))


def _moved(array: Doubles, a: int, b: int) -> Doubles:
    moved = np.ascontiguousarray(array.swapaxes(a, b))
    return moved.reshape(array.shape)


def _change(hypothesis: str, model: str, words: str, role: str, apply: Callable[[Doubles], Doubles]) -> Change:
    def predict(task: Task) -> tuple[Arrays, Arrays]:
        outputs, bounds = task.call()
        return {**outputs, role: apply(outputs[role])}, bounds

    return Change(hypothesis, model, words, predict, {"operand": role})
