"""What a launch is, whichever backend runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Dim3: TypeAlias = tuple[int, int, int]

ArraysByIndex: TypeAlias = "Mapping[int, NDArray[Any]]"
"""Arrays of a launch by their position, as `Launch.writable` has it."""
Argument: TypeAlias = "NDArray[Any] | np.generic | bytes | int | float"
"""One kernel argument: an array (passed as a pointer, changed in place), a scalar, or a struct's bytes.

Arrays must be C-contiguous and writeable unless the kernel only reads them. Python ints and floats take the type of
the kernel's parameter; NumPy scalars and bytes must have its size.
"""


@dataclass(frozen=True, slots=True)
class ArgumentView:
    """A logical tensor in an array argument, for checks and messages.

    Attributes:
        argument: its index.
        name: to be shown: the argument's, or of several tensors in one argument the role.
        shape, strides, offset: where its elements lie, in elements of the array.
        written: whether the kernel may write it.
        complete: whether the kernel must write all of it.
    """

    argument: int
    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    written: bool = False
    complete: bool = False


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory at an address of its own, which pointers in a launch's arguments, or in memory itself, hold.

    Attributes:
        address: on the device.
        data: its bytes, uint8 (n,), changed in place; empty for what is gone and shall only be named.
        name: for messages.
        item: bytes of an element, 1 where nobody knows.
        written: where 64-bit words hold a bit of each byte: whether something, launches included, has written it; 0:
            all of it is.
        size: bytes; of what is gone, those that it had.
    """

    address: int
    data: NDArray[np.uint8]
    name: str
    item: int = 1
    written: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        grid, block: (x, y, z) in blocks and threads.
        shared_bytes: dynamic shared memory, bytes.
        arguments: in the kernel's order.
        names: of the arguments, for messages; empty or as long as `arguments`.
        fresh: of array arguments, by index, the bytes that mean nothing until the kernel writes them, for checks.
        views: the logical tensors in array arguments, where they are known; of an argument that has any, the rest is
            padding that the kernel must not write.
        structs: (first, count) of arguments that are the fields of one parameter, a struct passed by value.
        tables: array arguments, by index, for which the kernel gets a table of pointers into the array in its place:
            how many, and how many bytes apart.
        memory: what else there is on the device, at addresses of its own; a variable of the module that lies there has
            the contents that it has there.
        cluster: blocks of a cluster in (x, y, z); None: what the kernel was compiled for, else one.
        displaced: bytes by which every array's address lies behind a multiple of 512, on the emulator.
    """

    grid: Dim3
    block: Dim3
    arguments: Sequence[Argument]
    shared_bytes: int = 0
    names: Sequence[str] = ()
    fresh: Sequence[tuple[int, range]] = ()
    views: Sequence[ArgumentView] = ()
    structs: Sequence[tuple[int, int]] = ()
    tables: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    memory: Sequence[DeviceMemory] = ()
    cluster: Dim3 | None = None
    displaced: int = 0

    def parameters(self) -> list[range]:
        """Indices of the arguments that each parameter of the kernel is made of: one, or a struct's fields."""
        counts = dict(self.structs)
        found: list[range] = []
        index = 0
        while index < len(self.arguments):
            found.append(range(index, index + counts.get(index, 1)))
            index = found[-1].stop
        return found

    def name(self, index: int) -> str:
        """Of an argument, or of what `writable` names by an index behind theirs, for messages."""
        behind = index - len(self.arguments)
        if 0 <= behind < len(self.memory):
            return self.memory[behind].name.partition(",")[0]
        return self.names[index] if index < len(self.names) else f"argument {index}"

    def writable(self) -> dict[int, NDArray[Any]]:
        """The arrays that it may change, by their position among its arguments, then among `memory`."""
        found = {i: one for i, one in enumerate(self.arguments) if isinstance(one, np.ndarray) and one.flags.writeable}
        return found | {len(self.arguments) + i: one.data for i, one in enumerate(self.memory) if one.data.size}

    def contents(self) -> dict[int, NDArray[Any]]:
        """Copies of the arrays that it may change, by position."""
        return {index: array.copy() for index, array in self.writable().items()}

    def restore(self, contents: ArraysByIndex) -> None:
        """Put back what `contents` gave; arrays that it may not change stay as they are."""
        for index, array in self.writable().items():
            if index in contents:
                array[...] = contents[index]

    def copied(self) -> Launch:
        """The same launch on copies of all that it may change."""
        arguments = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in self.arguments)
        memory = tuple(replace(m, data=m.data.copy(), written=0) for m in self.memory)
        return replace(self, arguments=arguments, memory=memory)

    def unnoted(self) -> Launch:
        """The same launch, of whose writes nobody takes a note in `DeviceMemory.written`."""
        return replace(self, memory=tuple(replace(m, written=0) for m in self.memory)) if self.memory else self


def field_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offset of each field of a struct, and the struct's size, from the fields' sizes in bytes.

    Each field stands at a multiple of its size, the whole at one of the largest (Itanium C++ ABI, 2.2; arrays in a
    struct are so many fields).
    """
    offsets: list[int] = []
    end = 0
    for size in sizes:
        offsets.append(-(-end // size) * size)
        end = offsets[-1] + size
    largest = max(sizes, default=1)
    return offsets, -(-end // largest) * largest


def struct_bytes(fields: Sequence[bytes]) -> bytes:
    """A struct passed by value, of the bytes of its fields; padding is 0."""
    offsets, size = field_offsets([len(one) for one in fields])
    content = bytearray(size)
    for offset, one in zip(offsets, fields, strict=True):
        content[offset : offset + len(one)] = one
    return bytes(content)


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
