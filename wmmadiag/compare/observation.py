"""What a comparison saw, as data."""

from __future__ import annotations

from dataclasses import dataclass

TILE = 16
"""Rows and columns of one tile in the maps: the fragment size of the commonest WMMA shape."""


@dataclass(frozen=True, slots=True)
class ElementDifference:
    """One element: its logical index, both values, and how much rounding explains."""

    index: tuple[int, ...]
    observed: float
    expected: float
    bound: float
    unwritten: bool = False


@dataclass(frozen=True, slots=True)
class TileMap:
    """Wrong elements per 16×16 tile of one matrix of the output.

    Attributes:
        index: of the matrix: (batch, head), or what leading axes there are.
        rows, columns: of the matrix, in elements.
        counts: wrong elements of each tile, a row of tiles after the other; tiles at the edge may be smaller.
    """

    index: tuple[int, ...]
    rows: int
    columns: int
    counts: tuple[tuple[int, ...], ...]

    def _repr_svg_(self) -> str:
        from wmmadiag.report.map_svg import tile_map

        return tile_map(self)


@dataclass(frozen=True, slots=True)
class Axis:
    """Which indices of one axis hold wrong elements.

    Attributes:
        name: the axis's letter or number.
        extent: how many indices there are.
        wrong: how many of them hold a wrong element.
        ranges: those indices as half-open ranges, ascending; at most `MAX_RANGES`, then cut.
        per_index: the largest number of wrong elements at one index.
    """

    name: str
    extent: int
    wrong: int
    ranges: tuple[tuple[int, int], ...]
    per_index: int


MAX_RANGES = 16


@dataclass(frozen=True, slots=True)
class Observation:
    """One output compared with what is expected.

    Attributes:
        output: the argument's role or name.
        dtype: element type's name.
        shape: logical shape.
        against: what it was compared with: "reference", or another variant's name.
        criterion: "rounding bound", "tolerance" or "exact".
        elements: how many.
        wrong: outside the bound; unwritten, NaN and Inf mismatches included.
        unwritten: wrong elements that still hold the poison pattern.
        nan: wrong elements with a NaN on one side only (unwritten ones apart).
        inf: wrong elements with an infinity that is not on both sides with the same sign (NaN apart).
        signed_zero: elements whose expected value is exactly 0 and whose zero has the other sign; not wrong.
        max_difference, mean_difference: absolute, over elements finite on both sides.
        max_in_bounds: the largest |difference| / bound over those; None when every bound is 0 (integers).
        typical_in_bounds: the median of it over them; None likewise.
        max_bound: the largest bound.
        first: the first wrong element in index order.
        worst: the wrong element furthest outside its bound (NaN and Inf last: the finite ones say more).
        tiles: maps of the matrices with a wrong element, in index order.
        matrices: how many matrices there are in all.
        axes: which indices are affected, per axis; empty when nothing is wrong.
    """

    output: str
    dtype: str
    shape: tuple[int, ...]
    against: str
    criterion: str
    elements: int
    wrong: int
    unwritten: int
    nan: int
    inf: int
    signed_zero: int
    max_difference: float
    mean_difference: float
    max_in_bounds: float | None
    typical_in_bounds: float | None
    max_bound: float
    first: ElementDifference | None
    worst: ElementDifference | None
    tiles: tuple[TileMap, ...]
    matrices: int
    axes: tuple[Axis, ...]

    @property
    def passed(self) -> bool:
        """Nothing wrong."""
        return self.wrong == 0

    def _repr_html_(self) -> str:
        from wmmadiag.report.notebook import observation_html

        return observation_html(self)
