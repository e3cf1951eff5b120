"""An argument's memory: poisoned storage, logical views into it, and what a run did to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from wmmadiag.numerics.element_types import ElementType, poison_pattern, storage_dtype

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one logical tensor lies in its storage: shape, strides and offset, all in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """One past the last element's position; that of the first where there is none."""
        if 0 in self.shape:
            return self.offset
        return self.offset + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + 1

    def overlaps_itself(self) -> bool:
        """Whether two indices may share an element (conservative: nested strides are recognised)."""
        if 0 in self.shape:
            return False
        reach = 0
        for stride, extent in sorted((s, n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1):
            if stride <= reach:
                return True
            reach += stride * (extent - 1)
        return False

    def view(self, storage: NDArray[Any]) -> NDArray[Any]:
        """The logical tensor as a writeable view of flat storage."""
        size = storage.dtype.itemsize
        return as_strided(storage[self.offset :], self.shape, tuple(s * size for s in self.strides))


def bits(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as unsigned integers."""
    return array.view(_BITS[array.dtype.itemsize])


def poisoned(element: ElementType, count: int, argument: int) -> NDArray[Any]:
    """Flat storage in which no element has been written yet."""
    storage = np.empty(count, storage_dtype(element))
    bits(storage)[...] = poison_pattern(element, argument)
    return storage


def is_poison(values: NDArray[Any], element: ElementType, argument: int) -> NDArray[np.bool_]:
    """Where an array still holds the pattern of `poisoned`."""
    return np.asarray(bits(values) == poison_pattern(element, argument), np.bool_)


@dataclass(frozen=True, slots=True)
class Damage:
    """Elements changed that a kernel must not change."""

    count: int  # how many elements
    first: int  # position of the first, in elements from the start of the storage
    kind: str  # "guard" (storage that no tensor covers) or "input"


def damage(before: NDArray[Any], after: NDArray[Any], writable: Sequence[Placement], kind: str) -> Damage | None:
    """Compare an argument's storage with what it was.

    Args:
        before, after: flat storage, same dtype and size; compared bit for bit.
        writable: the tensors that the kernel may write.
        kind: what to call a change outside them.
    """
    changed = bits(before) != bits(after)
    for placement in writable:
        placement.view(changed)[...] = False
    count = int(np.count_nonzero(changed))
    return Damage(count, int(np.argmax(changed)), kind) if count else None
