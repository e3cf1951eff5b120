"""One case on both: how many outputs there are, how many differ, and the first that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wmmadiag import emulator, gpu
from wmmadiag.errors import CompileError, UndecidedError
from wmmadiag.fidelity.cases import Array, Comparable
from wmmadiag.fidelity.families import FAMILIES
from wmmadiag.gpu.assemble import Assembly
from wmmadiag.launch import LoadedKernel

GpuLoader = Callable[[str, str, str, Assembly], LoadedKernel]
"""A kernel of (PTX, entry, architecture, assembly) on a GPU; `on_gpu`, and in tests what stands in for one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task compares: a case of a family."""

    arch: str
    family: str
    key: str
    seed: int  # of its operands; size: as `Family.make` takes it
    size: int


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """The first output that differs."""

    output: str  # its array; row: what the row is; element: its index in the row
    row: str
    element: int
    # emulator, gpu: bit patterns
    emulator: int
    gpu: int

    def __str__(self) -> str:
        return (
            f"{self.row}, {self.output}[{self.element}]: {self.emulator:#x} on the emulator, {self.gpu:#x} on the GPU"
        )


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of a piece."""

    piece: Piece
    outputs: int = 0  # elements compared; differing: of these
    differing: int = 0
    first: OutputDifference | None = None  # the first that differs
    left_out: str = ""  # why nothing was compared, as the assembler says it


def compared(piece: Piece, load_gpu: GpuLoader | None = None) -> Compared:
    """Run a piece on both.

    Raises:
        WmmadiagError: the emulator cannot run it, or no GPU is there.
    """
    family = FAMILIES[piece.family]
    case = family.make(piece.arch, piece.key, piece.seed, piece.size)
    try:
        theirs = case.run((load_gpu or on_gpu)(case.ptx, case.entry, piece.arch, family.assembly))
    except (CompileError, UndecidedError) as error:
        return Compared(piece, left_out=error.message)
    return difference(piece, case, case.run(emulated(case.ptx, case.entry, piece.arch)), theirs)


def difference(piece: Piece, case: Comparable, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> Compared:
    """What two runs of a case come to: the emulator's outputs and the GPU's."""
    return Compared(
        piece,
        sum(array.size for array in theirs.values()),
        sum(int((ours[name] != array).sum()) for name, array in theirs.items()),
        _first(case, ours, theirs),
    )


def _first(case: Comparable, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> OutputDifference | None:
    for number, (name, array) in enumerate(theirs.items()):
        rows, elements = np.nonzero(ours[name] != array)
        if rows.size:
            row, element = int(rows[0]), int(elements[0])
            shown = case.rows[row] if len(array) == len(case.rows) else case.rows[number]
            return OutputDifference(name, shown, element, int(ours[name][row, element]), int(array[row, element]))
    return None


@lru_cache(maxsize=32)
def emulated(ptx: str, entry: str, arch: str) -> LoadedKernel:
    """A kernel on the emulator, one thread."""
    return emulator.load(ptx, entry, arch=arch, options=emulator.EmulatorOptions(threads=1))


@lru_cache(maxsize=32)
def on_gpu(ptx: str, entry: str, arch: str, assembly: Assembly) -> LoadedKernel:
    """A kernel on this machine's GPU."""
    return gpu.load(ptx, entry, arch=arch, options=gpu.GpuOptions(assembly=assembly))
