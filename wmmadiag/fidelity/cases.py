"""A kernel that a GPU and the emulator run on the same inputs, which come from seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wmmadiag.launch import Launch, LoadedKernel

Array = np.ndarray[Any, Any]


class Comparable(Protocol):
    """What can be run on a GPU and on the emulator alike: `FidelityCase`, or a whole kernel of a card."""

    @property
    def key(self) -> str:
        """Unique in its family."""
        ...

    @property
    def ptx(self) -> str:
        """The module."""
        ...

    @property
    def entry(self) -> str:
        """The kernel in it."""
        ...

    @property
    def rows(self) -> Sequence[str]:
        """What each row of the outputs is."""
        ...

    def run(self, kernel: LoadedKernel) -> dict[str, Array]:
        """The outputs of a fresh run, [rows, elements] by name."""
        ...


@dataclass(frozen=True)
class FidelityCase:
    """One launch of one PTX module with the single kernel `k`."""

    key: str  # unique in its family
    ptx: str  # the module
    inputs: Sequence[Array]  # arrays that the kernel reads; passed first
    outputs: Mapping[str, Array]  # name → array of [rows, elements], passed after the inputs; zeros before the launch
    rows: Sequence[str]  # what each row of the outputs is, for messages
    # grid, block: in x
    grid: int
    block: int
    # elements of a row that a record keeps, evenly spread, besides a digest of the row; 0: all elements, and no digest
    sample: int = 16
    entry: str = "k"  # the kernel

    def run(self, kernel: LoadedKernel) -> dict[str, Array]:
        """The outputs of a fresh run."""
        inputs = [array.copy() for array in self.inputs]
        outputs = {name: np.zeros_like(array) for name, array in self.outputs.items()}
        kernel.launch(Launch((self.grid, 1, 1), (self.block, 1, 1), [*inputs, *outputs.values()]))
        return outputs
