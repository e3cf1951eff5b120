"""How `wmma.load` and `wmma.store` reach memory: alignment, and what becomes of an odd leading dimension.

The PTX ISA asks for more (32 bytes, and a leading dimension that is a multiple of 16 bytes); code that gives less is
undefined. What happens then was measured on an H200 (driver 580.159, CUDA 13.0), with every load and store, shape,
type, layout and space, bases 1 to 32 bytes off, and leading dimensions 1 to 32 bytes too long. Fragments are read and
written in granules. A base that is not aligned to the granule dies with "misaligned address". A leading dimension that
is no multiple of it mostly does not die: the chip computes addresses in granules and drops the rest, so that lines come
from somewhere else. `tests/vectors/wmma_alignment_sm_90.json` holds the answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.fragments.map import ELEMENT_BITS, FragmentMap

_HALF = frozenset({"f16", "bf16"})
_NARROW = frozenset({"s4", "u4", "b1"})
_LDSM_ROW = 16  # ldmatrix reads rows of 16 bytes


@dataclass(frozen=True, slots=True)
class FragmentAccess:
    """How one fragment is read or written."""

    granule: int  # bytes to which the base must be aligned, a power of two
    # elements of a granule if leading dimensions are cut to it, else 1 (and every line must be aligned)
    ldm_unit: int = 1
    # the leading dimension is cut before it is multiplied by the line number; otherwise 8 lines' worth is cut
    # separately: line i lies at (i mod 8)·⌊ldm/u⌋ + ⌊i/8⌋·⌊8·ldm/u⌋ units
    whole: bool = False


def memory_access(shape: str, matrix: str, type_: str, layout: str, space: str) -> FragmentAccess:
    """The rule for one `wmma.load` or `wmma.store`.

    Args:
        shape: such as "m16n16k16".
        matrix: "a", "b", "c" or "d".
        type_: element type.
        layout: "row" or "col".
        space: "shared", "global" or "generic" (as global).
    """
    bits = ELEMENT_BITS[type_]
    if matrix in ("a", "b"):
        along = (layout == "row") == (matrix == "a")
        if type_ in ("tf32", "f64"):
            return FragmentAccess(bits // 8)
        if bits == 8 and not along:
            return FragmentAccess(1)
        if space == "shared":
            return FragmentAccess(_LDSM_ROW)
        cut = type_ in _HALF or type_ in _NARROW
        return FragmentAccess(4, 32 // bits if cut else 1)
    whole = shape.startswith("m16n16")
    if type_ == "f16":
        return FragmentAccess(4, 2, whole)
    pairs_along_rows = shape != "m8n32k16"
    if (layout == "row") != pairs_along_rows:
        return FragmentAccess(bits // 8)
    return FragmentAccess(2 * bits // 8, 1 if type_ == "f64" else 2, whole)


Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class AccessFootprint:
    """The bytes that one `wmma.load` or `wmma.store` touches."""

    # int64[lines], where each memory line starts, in bytes from the base: a row of the matrix if the layout is "row",
    # else a column
    lines: Offsets
    line_elements: int  # elements of one line; they lie side by side
    element_bits: int  # of one element
    bits: Offsets  # int64[rows, columns], where each element of the matrix starts, in bits from the base

    @property
    def line_bytes(self) -> int:
        """Bytes of one line."""
        return self.line_elements * self.element_bits // 8


def footprint(fragment: FragmentMap, layout: str, ldm: int, access: FragmentAccess) -> AccessFootprint:
    """The footprint of a fragment.

    A leading dimension that is no multiple of `access.ldm_unit` is cut as the chip cuts it (`memory_access`).

    Args:
        fragment: of one matrix (`tiles` is 1).
        layout: "row" or "col".
        ldm: elements from one line's start to the next one's.
        access: how the chip reaches memory.
    """
    rows, columns = fragment.shape
    count, width = (rows, columns) if layout == "row" else (columns, rows)
    line, unit = np.arange(count, dtype=np.int64), access.ldm_unit
    units = line * (ldm // unit) if access.whole else line % 8 * (ldm // unit) + line // 8 * (8 * ldm // unit)
    starts = units * unit * fragment.element_bits
    bits = starts[:, None] + np.arange(width, dtype=np.int64)[None, :] * fragment.element_bits
    return AccessFootprint(starts // 8, width, fragment.element_bits, bits if layout == "row" else bits.T)
