"""Where two runs of one launch left different bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ArrayDifference:
    """One array that differs."""

    argument: int  # its index in the launch
    name: str  # for messages
    # count, total: elements that differ, and elements
    count: int
    total: int
    first: int  # flat index of the first one
    # emulator, gpu: that element's values, as text
    emulator: str
    gpu: str
    byte: int  # offset of the element in the array
    item: int  # bytes of an element

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.count:,} of {self.total:,} elements differ; the first, {self.name}[{self.first}], "
            f"is {self.emulator} on the emulator and {self.gpu} on the GPU"
        )


def differences(
    emulator: Mapping[int, NDArray[Any]], gpu: Mapping[int, NDArray[Any]], names: Mapping[int, str]
) -> tuple[ArrayDifference, ...]:
    """The arrays (by argument index) whose bits differ, in order."""
    found = []
    for index in sorted(emulator):
        ours, theirs = (_bits(one[index]) for one in (emulator, gpu))
        wrong = np.flatnonzero((ours != theirs).any(axis=1))
        if not wrong.size:
            continue
        first = int(wrong[0])
        item = emulator[index].dtype.itemsize
        found.append(
            ArrayDifference(
                index, names[index], int(wrong.size), len(ours), first, _text(emulator[index], first),
                _text(gpu[index], first), first * item, item,
            )
        )  # fmt: skip
    return tuple(found)


def _bits(array: NDArray[Any]) -> NDArray[np.uint8]:
    """[elements, bytes of an element]."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(-1, array.dtype.itemsize)


def _text(array: NDArray[Any], index: int) -> str:
    """Value and bits of an element."""
    element = array.reshape(-1)[index : index + 1]
    bits = int.from_bytes(element.tobytes(), "little")
    return f"{element[0]} ({bits:#0{2 + 2 * element.dtype.itemsize}x})"
