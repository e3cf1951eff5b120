"""Values that a traced run saw where they were multiplied, accumulated or stored; native/provenance/samples.hpp."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_DTYPE = np.dtype(
    [("pc", "<u4"), ("group", "<u4"), ("tag", "<u8"), ("bits", "<u8"), ("where", "<u4"), ("block", "<u4")]
)
_CAPACITY = 1 << 19
_MOST = 1 << 15


class SampleSpace:
    """Memory for the engine's samples.

    Args:
        capacity: samples of a run.
        most: samples of one instruction in one role.
    """

    def __init__(self, capacity: int = _CAPACITY, most: int = _MOST) -> None:
        self.capacity, self.most = capacity, most
        self._array: NDArray[Any] = np.empty(capacity, _DTYPE)

    @property
    def address(self) -> int:
        """Of the first sample, for the engine."""
        return int(self._array.ctypes.data)

    def taken(self, count: int) -> NDArray[Any]:
        """The first `count` samples, in the order of execution."""
        return self._array[:count]
