"""Where the elements of a fragment lie in memory, for a layout and a leading dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.fragments.map import FragmentMap
from wmmadiag.fragments.memory_access import FragmentAccess

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
