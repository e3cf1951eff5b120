"""Where a program's variables lie: shared offsets, local frames, and device addresses of global and constant data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.native import SHARED_WINDOW
from wmmadiag.errors import UnsupportedError
from wmmadiag.ptx.calls import function_address
from wmmadiag.ptx.ir import Module, PtxVariable, Space

GRID_WORKSPACE_BASE = 0x7A00_0000_0000
"""What `%envreg1` and `%envreg2` point to in a cooperative launch: 4 bytes of size, 4 of the grid's barrier
(cooperative_groups/details/driver_abi.h)."""
GRID_WORKSPACE_BYTES = 8
PARAMETER_BASE = 0x7B00_0000_0000
GLOBAL_BASE = 0x7C00_0000_0000
TABLE_BASE = 0x7E00_0000_0000
ARGUMENT_BASE = 0x7F00_0000_0000
"""Device addresses of the parameter block, of module variables, of tables of pointers, and of the launch's arrays."""

LENT_SHARED = 512
"""Bytes of the system's shared memory at `%reserved_smem_offset_1`; cooperative_groups/details/memory.h needs 288."""

_SHARED_ALIGN = 128
_GLOBAL_ALIGN = 256
_GUARD = 1 << 16  # unmapped bytes between variables, so that running past one is seen


def align_up(offset: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return -(-offset // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Placed:
    """A variable and its address: an offset in shared or local memory, a device address otherwise."""

    variable: PtxVariable
    address: int


@dataclass(slots=True)
class MemoryLayout:
    """Places variables as they are first used.

    Shared arrays are aligned generously, as ptxas in practice does, whatever their declaration promises.
    `reserved_shared`: bytes at the start of shared memory that belong to the system.
    `opened_shared`: the last of those that the kernel asks for by a special register, as cooperative groups do.
    `grid_workspace`: the kernel asks for the workspace of a cooperative launch.
    `addresses`: where variables lie whose place is given.
    `least_aligned`: static shared arrays lie at addresses that have the declared alignment and no more.
    """

    module: Module
    reserved_shared: int
    least_aligned: bool = False
    addresses: Mapping[str, int] = field(default_factory=dict)
    shared: dict[str, Placed] = field(default_factory=dict)
    dynamic: dict[str, PtxVariable] = field(default_factory=dict)
    static: dict[str, Placed] = field(default_factory=dict)
    static_bytes: int = 0
    opened_shared: int = 0
    grid_workspace: bool = False
    _next_global: int = GLOBAL_BASE

    def shared_address(self, key: str, variable: PtxVariable) -> int | None:
        """Offset of a shared variable; None for dynamic shared memory, whose place is known at the end."""
        if variable.extern and variable.size == 0:
            self.dynamic[key] = variable
            return None
        if key not in self.shared:
            if self.least_aligned and variable.align < _SHARED_ALIGN:
                offset = align_up(self.static_bytes, _SHARED_ALIGN) + variable.align
            else:
                offset = align_up(self.static_bytes, max(variable.align, _SHARED_ALIGN))
            self.static_bytes = offset + variable.size
            self.shared[key] = Placed(variable, self.reserved_shared + offset)
        return self.shared[key].address

    def open_reserved(self) -> int:
        """Let the kernel use what the system lends of its shared memory; returns the offset."""
        self.opened_shared = LENT_SHARED
        return self.reserved_shared - LENT_SHARED

    @property
    def shared_begin(self) -> int:
        """Offset of the first byte of shared memory that the kernel may use."""
        return self.reserved_shared - self.opened_shared

    @property
    def declared_static_bytes(self) -> int:
        """Static shared memory as ptxas counts it: with the declared alignments only."""
        size = 0
        for placed in sorted(self.shared.values(), key=lambda p: -p.variable.align):
            size = align_up(size, placed.variable.align) + placed.variable.size
        return size

    @property
    def dynamic_offset(self) -> int:
        """Offset of dynamic shared memory from the first usable byte."""
        alignment = max([_SHARED_ALIGN, *(variable.align for variable in self.dynamic.values())])
        return align_up(self.static_bytes, alignment) if self.static_bytes else 0

    def global_address(self, variable: PtxVariable) -> int:
        """Device address of a `.global` or `.const` variable of the module.

        Raises:
            UnsupportedError: it is only declared here.
        """
        if variable.name not in self.static and variable.name in self.addresses:
            self.static[variable.name] = Placed(variable, self.addresses[variable.name])
        if variable.name not in self.static:
            if variable.extern:
                raise UnsupportedError(
                    f"variable {variable.name} is declared extern and defined in another module",
                    place=variable.place,
                    hint="give a source or PTX that defines it",
                )
            address = align_up(self._next_global, max(variable.align, _GLOBAL_ALIGN))
            self._next_global = address + variable.size + _GUARD
            self.static[variable.name] = Placed(variable, address)
        return self.static[variable.name].address

    def address_of(self, name: str) -> int:
        """Generic address of a module variable, or of a function, for initialisers."""
        variable = self.module.variables.get(name)
        if variable is None and name in self.module.functions:
            return function_address(name)
        if variable is None:
            raise UnsupportedError(
                f"initial value refers to {name}, which is no variable of this module",
                hint="compile the whole program into one PTX",
            )
        if variable.space is Space.SHARED:
            return SHARED_WINDOW + (self.shared_address(name, variable) or self.reserved_shared)
        return self.global_address(variable)

    def images(self) -> list[tuple[int, NDArray[np.uint8], bool, str]]:
        """(device address, initial bytes, writable, name) of each placed module variable."""
        done: dict[str, NDArray[np.uint8]] = {}
        while len(done) < len(self.static):  # an initialiser may place further variables
            for name, placed in list(self.static.items()):
                if name not in done:
                    done[name] = self._image(placed.variable)
        return [
            (self.static[name].address, image, self.static[name].variable.space is Space.GLOBAL, name)
            for name, image in done.items()
        ]

    def _image(self, variable: PtxVariable) -> NDArray[np.uint8]:
        image = np.zeros(variable.size, np.uint8)
        if variable.initializer is not None:
            image[:] = np.frombuffer(variable.initializer.data, np.uint8)
            for offset, width, shift, symbol, _generic in variable.initializer.relocations:
                value = (self.address_of(symbol.name) + symbol.offset) >> shift
                image[offset : offset + width] = np.frombuffer(value.to_bytes(8, "little")[:width], np.uint8)
        return image
