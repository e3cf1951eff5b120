"""What a launch is, whichever backend runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Dim3: TypeAlias = tuple[int, int, int]

Argument: TypeAlias = "NDArray[Any] | np.generic | bytes | int | float"
"""One kernel argument: an array (passed as a pointer, changed in place), a scalar, or a struct's bytes.

Arrays must be C-contiguous and writeable unless the kernel only reads them. Python ints and floats take the type of
the kernel's parameter; NumPy scalars and bytes must have its size.
"""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        grid, block: (x, y, z) in blocks and threads.
        shared_bytes: dynamic shared memory, bytes.
        arguments: in the kernel's order.
        names: of the arguments, for messages; empty or as long as `arguments`.
        fresh: indices of array arguments whose contents mean nothing until the kernel writes them, for checks.
    """

    grid: Dim3
    block: Dim3
    arguments: Sequence[Argument]
    shared_bytes: int = 0
    names: Sequence[str] = ()
    fresh: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The same launch on a second backend.

    Attributes:
        backend: its name.
        arrays: what it left in each array argument, by the argument's index.
        seconds: of the launch.
        notes: where and why its bits differ, one sentence each; empty when they are the same.
    """

    backend: str
    arrays: Mapping[int, NDArray[Any]]
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunStats:
    """What a finished launch reports besides its arrays.

    Attributes:
        warp_instructions: executed, summed over warps (0 on a GPU).
        seconds: wall time of the launch itself.
        output: text that device `printf` wrote.
        threads: host threads used (0 on a GPU).
        elsewhere: the same launch on other backends.
    """

    warp_instructions: int
    seconds: float
    output: str = ""
    threads: int = 0
    elsewhere: tuple[Elsewhere, ...] = ()


class LoadedKernel(Protocol):
    """A kernel ready to be launched on one backend."""

    def launch(self, launch: Launch) -> RunStats:
        """Run to completion; arrays in `launch.arguments` are changed in place.

        Raises:
            KernelFault: the launch died; the arrays hold what had been written.
            BudgetError, UnsupportedError: the backend cannot decide.
        """
        ...
