"""What a fragment load or store asks of shared memory, request by request, and how many passes that takes.

Shared memory serves 32 words of 4 bytes from 32 banks in one pass; lanes that want different words of one bank wait for
each other, lanes that want the same word share it. Requests of 8 bytes per lane are served for half a warp at a time,
those of 16 for a quarter; so are the rows of `ldmatrix`, 8 at a time (CUDA C++ Best Practices, "Shared Memory").

Which instructions `wmma.load` and `wmma.store` become was read from the SASS of ptxas 13.0 for sm_75, sm_80, sm_90,
sm_100 and sm_120, of every shape, type and layout: A and B of 16-bit and narrower elements are `LDSM` (8 rows of 16
bytes per register), except 8-bit matrices whose lines run across k: one byte per lane. All else is one access per lane
and register, or per two neighbouring elements of a lane where they lie side by side in memory; f16 accumulators across
their pairs are moved as 8×8 blocks along the lines (`MOVM` turns them).

Measured on an H200 (CUDA 13.0), one warp, for eight of these forms (`LDSM`, `LDS` of 1, 4, 8 and 16 bytes, `MOVM`) and
twelve leading dimensions: a load takes 2 cycles more for each pass more that is counted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.fragments.map import FragmentMap
from wmmadiag.fragments.memory_access import AccessFootprint

BANKS = 32
WORD = 4  # bytes that a bank serves per pass
ROW = 16  # bytes of a row of ldmatrix
_ROWS = 8  # of one matrix of ldmatrix


@dataclass(frozen=True, slots=True, eq=False)
class SharedRequest:
    """One instruction of a warp, or the rows of one 8×8 matrix."""

    name: str  # as assembled: "LDSM", "LDS.64", "STS"
    addresses: NDArray[np.int64]  # int64[lanes or rows], bytes
    bytes: int  # that each lane (or row) wants
    about: str  # which elements, "x[2..3]", or which matrix

    def passes(self) -> Iterator[NDArray[np.int64]]:
        """For each group of lanes that is served together: int64[32], different words wanted of each bank.

        A group takes as many passes as the largest of these numbers.
        """
        at_once = 32 if self.bytes <= WORD else 8 * ROW // self.bytes
        for first in range(0, len(self.addresses), at_once):
            start = self.addresses[first : first + at_once]
            words = start[:, None] // WORD + np.arange((self.bytes + WORD - 1) // WORD)[None, :]
            yield np.bincount(np.unique(words) % BANKS, minlength=BANKS)


def matrix_rows(starts: NDArray[np.int64], what: str = "LDSM") -> list[SharedRequest]:
    """Requests of `ldmatrix` or `stmatrix`: eight row addresses (bytes) per matrix."""
    return [
        SharedRequest(what, starts[first : first + _ROWS], ROW, f"matrix {first // _ROWS}")
        for first in range(0, len(starts), _ROWS)
    ]


def fragment_requests(
    fragment: FragmentMap, where: AccessFootprint, matrix: str, layout: str, base: int
) -> list[SharedRequest]:
    """Requests of one `wmma.load` (matrix a, b or c) or `wmma.store` (d) in shared memory, in register order.

    Args:
        fragment: its map.
        where: its footprint.
        matrix: "a", "b", "c" or "d".
        layout: "row" or "col".
        base: address of element (0, 0) in bytes.
    """
    used = fragment.used_registers * fragment.per_register
    row, col = fragment.row[:, :used].astype(np.int64), fragment.col[:, :used].astype(np.int64)
    bits = where.bits[row, col] + 8 * base
    operand, move = matrix in ("a", "b"), "STS" if matrix == "d" else "LDS"
    along = layout == ("col" if matrix == "b" else "row")
    pairs = bits.shape[1] > 1 and bool((bits[:, 1::2] - bits[:, 0::2] == fragment.element_bits).all())
    if (operand and fragment.element_bits < 32 and (along or fragment.element_bits == 16)) or (
        not operand and fragment.element_bits == 16 and not pairs
    ):
        line = row if layout == "row" else col
        return list(_blocks(bits // 8, line, fragment.per_register, "LDSM" if operand else move))
    step = 2 if pairs and not operand else 1
    width = step * fragment.element_bits // 8
    name = move + {1: ".U8", 8: ".64", 16: ".128"}.get(width, "")
    return [SharedRequest(name, bits[:, e] // 8, width, _elements(e, step)) for e in range(0, used, step)]


def _blocks(
    addresses: NDArray[np.int64], line: NDArray[np.int64], per_register: int, name: str
) -> Iterator[SharedRequest]:
    """One request per register: the 16 bytes of each of the eight memory lines that its elements lie in."""
    for first in range(0, addresses.shape[1], per_register):
        here, lines = addresses[:, first : first + per_register], line[:, first : first + per_register]
        starts = [here[lines == one].min() for one in np.unique(lines)]
        yield SharedRequest(name, np.array(starts, np.int64), ROW, _elements(first, per_register))


def _elements(first: int, count: int) -> str:
    return f"x[{first}]" if count == 1 else f"x[{first}..{first + count - 1}]"
