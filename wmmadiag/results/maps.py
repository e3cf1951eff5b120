"""Pictures of an output as data: error, observed and expected per element, and who wrote each tile. Needs no NumPy.

Arrays are zlib-compressed (RFC 1950), then base64, row-major, little-endian. `wmmadiag.recording` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

NumberFormat: TypeAlias = Literal["", "f16", "f32"]
"""How `Plane.observed` and `Plane.expected` hold numbers; "": they are left out."""

# Codes of `Plane.error`, one byte per element.
EXACT = 0
"""No difference at all."""
AT_BOUND = 128
"""|difference| is the bound; each step is a factor of 2^(1/8), smaller ones below, wrong elements above."""
LARGEST = 247
STEPS_PER_OCTAVE = 8
UNBOUNDED = 250
"""Wrong where the bound is 0."""
UNWRITTEN = 251
NAN = 252
"""NaN on one side only."""
INFINITE = 253
"""An infinity that is not on both sides with the same sign."""
ALLOWED = 255
"""Right without a ratio: the same NaN or infinity on both sides, or not finite where the card allows it."""

Special: TypeAlias = Literal["unbounded", "unwritten", "nan", "infinite", "allowed"]
SPECIAL: Mapping[Special, int] = {
    "unbounded": UNBOUNDED, "unwritten": UNWRITTEN, "nan": NAN, "infinite": INFINITE, "allowed": ALLOWED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plane:
    """One matrix of an output.

    Attributes:
        index: of the matrix: (batch, head), or what leading axes there are.
        wrong: elements.
        error: one code per element, see `AT_BOUND`.
        observed, expected: numbers, "" where they are left out for their size.
    """

    index: tuple[int, ...]
    wrong: int
    error: str
    observed: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True)
class TileOwner:
    """Who wrote one tile of an output last.

    Attributes:
        block: (x, y, z) of the block that wrote most of its elements.
        warps: of that block's warps those that wrote some of it, ascending.
        blocks: how many blocks wrote some of it.
        elements: written, of the tile.
    """

    block: tuple[int, int, int]
    warps: tuple[int, ...]
    blocks: int
    elements: int


@dataclass(frozen=True, slots=True)
class OwnedPlane:
    """Owners of one matrix's 16×16 tiles, row by row; None where nobody wrote."""

    index: tuple[int, ...]
    tiles: tuple[tuple[TileOwner | None, ...], ...]


@dataclass(frozen=True, slots=True)
class ErrorMap:
    """One output of one failing case, element by element.

    Attributes:
        variant, case, output: which.
        axes: a letter per axis of the output, or "".
        rows, columns: of each matrix, in elements.
        numbers: format of observed and expected values.
        scale: the value is the stored number times this.
        planes: the matrices that are kept, in index order.
        left_out: how many are not kept, for their size; those without a wrong element first.
        owners: who wrote the tiles; empty where nobody looked (a GPU alone).
    """

    variant: str
    case: str
    output: str
    axes: str
    rows: int
    columns: int
    numbers: NumberFormat
    scale: float
    planes: tuple[Plane, ...]
    left_out: int = 0
    owners: tuple[OwnedPlane, ...] = ()

    def _repr_html_(self) -> str:
        from wmmadiag.report.map_svg import error_map

        return error_map(self)


@dataclass(frozen=True, slots=True)
class FragmentCell:
    """One element of a fragment: which lane holds it, in which of its slots, and what is there.

    Attributes:
        row, column: in the fragment's tile.
        lane, slot: `fragment.x[slot]` of that lane.
        held, wanted: which element of which matrix, "K[0,1] row 3, column 5"; "" if unknown.
    """

    row: int
    column: int
    lane: int
    slot: int
    held: str
    wanted: str


@dataclass(frozen=True, slots=True)
class HeldFragment:
    """What a fragment held against what it should hold, once.

    Attributes:
        title: "B of mma_sync, block (0, 0, 0), warp 1".
        place: "file:line:column".
        rows, columns: of the fragment's tile.
        cells: all of its elements; one that several lanes hold comes once per lane.
    """

    title: str
    place: str
    rows: int
    columns: int
    cells: tuple[FragmentCell, ...] = field(default=())

    def _repr_svg_(self) -> str:
        from wmmadiag.report.map_svg import fragment_map

        return fragment_map(self)
