"""Which lane holds which element of a dense `mma.sync` fragment (PTX ISA 9.0, "Matrix Fragments for mma.…")."""

from __future__ import annotations

from functools import cache

import numpy as np

from wmmadiag.errors import UnsupportedError
from wmmadiag.fragments.map import ELEMENT_BITS, LANES, FragmentMap, accumulator, fragment_map, packed_along_k
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape


@cache
def mma_map(shape: str, operand: str, type: str, layout: str = "") -> FragmentMap:
    """The map of an `mma.sync` fragment.

    Args:
        shape: such as "m16n8k16".
        operand: "a", "b", "c" or "d".
        type: element type of that operand.
        layout: "row" or "col"; only mma.m8n8k4 f16 has a choice (and there A and B need it). Elsewhere A is row, B
            is col, as `.row.col` says, and this may stay empty.

    Raises:
        UnsupportedError: no such fragment.
    """
    source = f"PTX ISA 9.0, Matrix Fragments for mma.{shape}"
    forms = [form for form in FORMS if form.instruction == "mma" and form.shape == shape]
    if operand in ("a", "b"):
        known = any(type in form.a for form in forms)
    else:
        known = operand in ("c", "d") and any(type == pair["cd".index(operand)] for form in forms for pair in form.cd)
    if not known:
        raise UnsupportedError(
            f"there is no mma.sync {shape} fragment {operand} of type {type}",
            hint="`wmmadiag shapes` lists what there is",
        )
    m, n, k = parse_shape(shape)
    extent = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    if shape == "m8n8k4" and type != "f64":
        return _four_tiles(operand, type, layout, extent, source)
    if layout not in ("", "col" if operand == "b" else "row"):
        raise UnsupportedError(f"mma.sync {shape} takes A as row and B as col only", hint="leave the layout out")
    if operand in ("c", "d"):
        pairs = ((0, 0),) if m == 8 else ((0, 0), (8, 0))
        return fragment_map(*accumulator(pairs), extent, type, source)
    span = 4 * max(32, ELEMENT_BITS[type]) // ELEMENT_BITS[type]  # k of one register over the four threads of a group
    outer = (0,) if operand == "b" or m == 8 else (0, 8)
    offsets = tuple((o, p) for p in range(0, k, span) for o in outer)
    return fragment_map(*packed_along_k(offsets, type, operand), extent, type, source)


def _four_tiles(operand: str, type: str, layout: str, extent: tuple[int, int], source: str) -> FragmentMap:
    """mma.m8n8k4 with f16 operands: four matrices, each in lanes 4q … 4q+3 and 16+4q … 16+4q+3."""
    lane = np.arange(LANES)[:, None]
    element = np.arange(4 if operand in ("a", "b") else 8)[None, :]
    high = 4 * (lane >= 16)
    if operand in ("a", "b"):
        if layout not in ("row", "col"):
            raise UnsupportedError(
                f"mma.sync m8n8k4 fragment {operand} needs its layout, row or col",
                hint="add --layout row or --layout col",
            )
        inner, outer = lane % 4 + high, element + high
        if operand == "a":
            row, col = (inner, element) if layout == "row" else (outer, lane % 4)
        else:
            row, col = (lane % 4, outer) if layout == "row" else (element, inner)
    elif type == "f16":
        row, col = lane % 4 + high, element
    else:
        row = (lane & 1) + (element & 2) + high
        col = (element & 4) + (lane & 2) + (element & 1)
    row, col = np.broadcast_arrays(row, col)
    tile = np.broadcast_to((lane % 16) // 4, row.shape)
    return fragment_map(row, col, extent, type, source, tile=tile, tiles=4)


# Fragments of `ldmatrix`, `stmatrix` and `movmatrix` (PTX ISA 9.0, same names): 8×8 matrices of 16-bit elements.
#
# Register r holds (part of) matrix r: lane l has row l >> 2, columns 2(l & 3) and 2(l & 3) + 1, or, with `.trans`, the
# same element of the transposed matrix. Lane 8r + i gives the address of row i of matrix r.


_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


@cache
def ldmatrix_map(num: str, trans: bool) -> FragmentMap:
    """Which element of the 8×8 matrices of 16 bits in memory each lane gets, or gives in `stmatrix`.

    Args:
        num: "x1", "x2" or "x4".
        trans: the instruction has `.trans`.

    Returns:
        A map in which `tile` is the matrix, (row, col) its element as it lies in memory: row i starts at the address
        that lane 8·tile + i gives, col counts 16-bit elements.

    Raises:
        UnsupportedError: another count.
    """
    if num not in _COUNTS:
        raise UnsupportedError(f"there is no ldmatrix or stmatrix .{num}", hint="x1, x2 and x4 exist")
    count = _COUNTS[num]
    row, col = packed_along_k(((0, 0),) * count, "f16", "b" if trans else "a")
    tile = np.broadcast_to(np.repeat(np.arange(count), 2)[None, :], row.shape)
    return fragment_map(row, col, (8, 8), "f16", "PTX ISA 9.0, ldmatrix and stmatrix", tile=tile, tiles=count)
