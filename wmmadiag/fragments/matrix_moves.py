"""Fragments of `ldmatrix`, `stmatrix` and `movmatrix` (PTX ISA 9.0, same names): 8×8 matrices of 16-bit elements.

Register r holds (part of) matrix r: lane l has row l >> 2, columns 2(l & 3) and 2(l & 3) + 1, or, with `.trans`, the
same element of the transposed matrix. Lane 8r + i gives the address of row i of matrix r.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from wmmadiag.errors import UnsupportedError
from wmmadiag.fragments.map import FragmentMap, fragment_map, packed_along_k

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}


@cache
def ldmatrix_map(num: str, trans: bool, type: str = "b16", shape: str = "m8n8") -> FragmentMap:
    """Which element of the matrices in memory each lane gets, or gives in `stmatrix`.

    Args:
        num: "x1", "x2" or "x4".
        trans: the instruction has `.trans`.
        type: "b16".
        shape: "m8n8".

    Returns:
        A map in which `tile` is the matrix, (row, col) its element as it lies in memory: row i starts at the address
        that lane 8·tile + i gives, col counts 16-bit elements.

    Raises:
        UnsupportedError: another type or shape (m16n16, m8n16 and m16n8 of b8, b6 and b4).
    """
    if (type, shape) != ("b16", "m8n8"):
        raise UnsupportedError(f"ldmatrix and stmatrix of {shape}.{type} are not emulated", hint="m8n8.b16 is")
    if num not in _COUNTS:
        raise UnsupportedError(f"there is no ldmatrix or stmatrix .{num}", hint="x1, x2 and x4 exist")
    count = _COUNTS[num]
    row, col = packed_along_k(((0, 0),) * count, "f16", "b" if trans else "a")
    tile = np.broadcast_to(np.repeat(np.arange(count), 2)[None, :], row.shape)
    return fragment_map(row, col, (8, 8), "f16", "PTX ISA 9.0, ldmatrix and stmatrix", tile=tile, tiles=count)
