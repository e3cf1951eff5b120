"""Tags: 64 bits that say which element of which matrix a value is; as native/provenance/tag.hpp lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.errors import UnsupportedError
from wmmadiag.subject.binding import BoundArgument, BoundCase
from wmmadiag.subject.storage import Placement

Tags = NDArray[np.uint64]

INDEX_BITS = 20
_INDEX = (1 << INDEX_BITS) - 1
_ROW, _MATRIX = 20, 40
_ROW_KNOWN, _COLUMN_KNOWN = 1 << 60, 1 << 61
FULL = _ROW_KNOWN | _COLUMN_KNOWN
_BAD = 2


@dataclass(frozen=True, slots=True)
class DecodedTag:
    """A tag in parts."""

    matrix: int  # number, 0 for none
    # row, column: of the element; None where it stands for a whole row or column
    row: int | None
    column: int | None
    # number of the record of what went wrong, 0 for memory that nothing wrote; None for a good tag
    bad: int | None = None
    mixed: bool = False  # of several matrices, not followed


def decode(tag: int) -> DecodedTag:
    """The parts of a tag (signed or unsigned 64 bits)."""
    tag &= (1 << 64) - 1
    matrix = tag >> _MATRIX & _INDEX
    if matrix == 0:
        kind = tag >> _ROW & _INDEX
        return DecodedTag(0, None, None, tag & _INDEX if kind == _BAD else None, kind == 1)
    row = tag >> _ROW & _INDEX if tag & _ROW_KNOWN else None
    column = tag & _INDEX if tag & _COLUMN_KNOWN else None
    return DecodedTag(matrix, row, column)


@dataclass(frozen=True, slots=True)
class Parts:
    """Tags of an array in parts, each with the array's shape: see `DecodedTag`. `whole`: it is one element."""

    matrix: NDArray[np.int64]
    row: NDArray[np.int64]
    column: NDArray[np.int64]
    whole: NDArray[np.bool_]
    bad: NDArray[np.int64]
    mixed: NDArray[np.bool_]


def parts(tags: Tags) -> Parts:
    """All tags of an array in parts; `bad` is -1 for good ones."""
    matrix = (tags >> np.uint64(_MATRIX) & np.uint64(_INDEX)).astype(np.int64)
    row = (tags >> np.uint64(_ROW) & np.uint64(_INDEX)).astype(np.int64)
    column = (tags & np.uint64(_INDEX)).astype(np.int64)
    whole = (tags & np.uint64(FULL)) == np.uint64(FULL)
    bad = np.where((matrix == 0) & (row == _BAD), column, -1)
    return Parts(matrix, row, column, whole & (matrix != 0), bad, (matrix == 0) & (row == 1))


@dataclass(frozen=True, slots=True)
class ArgumentMatrix:
    """One matrix of an argument: a head, a batch."""

    number: int  # in tags
    role: str  # of the tensor
    lead: tuple[int, ...]  # its leading indices, such as (batch, head)
    # rows, columns: extents
    rows: int
    columns: int

    @property
    def name(self) -> str:
        """`Q[0,1]`; `A` where there is only one."""
        return self.role.upper() + (f"[{','.join(map(str, self.lead))}]" if self.lead else "")


@dataclass(frozen=True, slots=True)
class TaggedArgument:
    """An array argument and the tags of its memory, one per granule."""

    argument: BoundArgument
    granules: Tags
    per_element: int

    def of(self, role: str) -> Tags:
        """Tags of a role's elements, in its logical shape (a copy)."""
        elements = np.ascontiguousarray(self.granules.reshape(-1, self.per_element)[:, 0])
        return self.argument.placements[role].view(elements).copy()


def granule_shift(case: BoundCase) -> int:
    """Tags are per 2 bytes (1), or per byte (0) where an argument has elements of one byte."""
    return 0 if any(a.storage is not None and a.storage.dtype.itemsize == 1 for a in case.arguments) else 1


def number_matrices(case: BoundCase) -> tuple[ArgumentMatrix, ...]:
    """The matrices of all tensors that the kernel reads, numbered from 1 in the order of the arguments.

    Raises:
        UnsupportedError: an extent or the number of matrices does not fit a tag.
    """
    found: list[ArgumentMatrix] = []
    for argument in case.arguments:
        if argument.spec.direction not in ("in", "inout"):
            continue
        for role, placement in argument.placements.items():
            lead, rows, columns = _matrix_shape(placement.shape)
            if max(rows, columns) > _INDEX or len(found) + int(np.prod(lead)) > _INDEX // 4:
                raise UnsupportedError(
                    f"provenance: tensor {role} of shape {placement.shape} is too large",
                    hint=f"extents up to {_INDEX} can be followed; take a smaller case",
                )
            for index in np.ndindex(*lead):
                found.append(ArgumentMatrix(len(found) + 1, role, tuple(map(int, index)), rows, columns))
    return tuple(found)


def _matrix_shape(shape: Sequence[int]) -> tuple[tuple[int, ...], int, int]:
    if len(shape) >= 2:
        return tuple(shape[:-2]), shape[-2], shape[-1]
    return (), 1, shape[0] if shape else 1


def tag_arguments(case: BoundCase, matrices: Sequence[ArgumentMatrix]) -> Iterator[TaggedArgument]:
    """Tags of each array argument's memory before the launch; padding and outputs have none."""
    shift = granule_shift(case)
    first: dict[str, int] = {}
    for matrix in matrices:
        first.setdefault(matrix.role, matrix.number)
    for argument in case.arguments:
        if argument.storage is None:
            continue
        size = argument.storage.dtype.itemsize
        per_element = max(1, size >> shift)
        elements = np.zeros(argument.storage.size, np.uint64)
        for role, placement in argument.placements.items():
            if role in first:
                placement.view(elements)[...] = _tags_of(placement, first[role])
        yield TaggedArgument(argument, np.repeat(elements, per_element), per_element)


def _tags_of(placement: Placement, number: int) -> Tags:
    lead, rows, columns = _matrix_shape(placement.shape)
    matrix = np.arange(number, number + int(np.prod(lead)), dtype=np.uint64).reshape(*lead, 1, 1)
    row = np.arange(rows, dtype=np.uint64)[:, None]
    column = np.arange(columns, dtype=np.uint64)[None, :]
    tags: Any = np.uint64(FULL) | matrix << np.uint64(_MATRIX) | row << np.uint64(_ROW) | column
    return np.asarray(tags, np.uint64).reshape(placement.shape)
