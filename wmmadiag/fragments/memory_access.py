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

from wmmadiag.fragments.map import ELEMENT_BITS

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
