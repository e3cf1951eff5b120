"""What is done to scaled scores before the softmax: softcap, bias, ALiBi, and every mask, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Where

Rows: TypeAlias = "slice | NDArray[np.intp]"

ROLES = ("bias", "mask", "alibi_slopes", "lengths")
"""Inputs that are spread over the scores (B, H, Sq, Skv), or over their leading axes."""


HIDDEN = -5000.0
"""A score at least as low as this is masked: masks assign -1e4, -1e9, -inf, …, or add that to a score."""


def _wide(array: NDArray[Any], axes: int) -> NDArray[Any]:
    """As many axes: leading ones of extent 1 are added, or dropped."""
    kept = array.shape[max(0, array.ndim - axes) :]
    return array.reshape((1,) * (axes - len(kept)) + kept)


@dataclass(frozen=True, slots=True)
class ScoreTerms:
    """How an operation changes its scaled scores. None, 0 and -1 are for what it does not have."""

    # queries, keys: extents of a head's scores
    queries: int
    keys: int
    causal: bool = False  # key j is masked for query i unless j ≤ i + corner
    corner: int = 0  # 0 for a mask aligned to the top-left corner, keys - queries for the bottom-right one
    # window_left, window_right: keys before and after the query's own (i + corner) that it sees; -1 for all
    window_left: int = -1
    window_right: int = -1
    softcap: float = 0.0  # c of c·tanh(s / c), applied to the scaled score
    bias: NDArray[Any] | None = None  # (B, H, Sq, Skv) with extents of 1, added to that
    slopes: NDArray[Any] | None = None  # (B, H) with extents of 1: slope·|i + corner - j| is subtracted from that
    # as bias; a key is seen where it is not 0. lengths: (B,) or (1,): keys from there on are masked.
    mask: NDArray[Any] | None = None
    lengths: NDArray[Any] | None = None

    @property
    def modifies(self) -> bool:
        """Whether scores are anything but scaled products."""
        return self.softcap != 0.0 or self.bias is not None or self.slopes is not None

    @property
    def masks(self) -> bool:
        """Whether any key is masked by its place."""
        return self.causal or self.masks_otherwise

    @property
    def masks_otherwise(self) -> bool:
        """Whether there is another mask than the causal one."""
        windows = self.window_left >= 0 or self.window_right >= 0
        return windows or self.mask is not None or self.lengths is not None

    def capped(self, scaled: Doubles) -> Doubles:
        """The softcap alone."""
        return np.asarray(self.softcap * np.tanh(scaled / self.softcap)) if self.softcap else scaled

    def distance(self, rows: NDArray[np.intp]) -> Doubles:
        """|i + corner - j| of some rows, (rows, keys)."""
        return np.asarray(np.abs(rows[:, None] + self.corner - np.arange(self.keys)[None, :]), np.float64)

    def bias_of(self, head: tuple[int, int], rows: NDArray[np.intp]) -> Doubles:
        """A head's rows of the bias, (rows or 1, keys or 1)."""
        assert self.bias is not None
        return np.asarray(_head_rows(self.bias, head, rows), np.float64)

    def slope_of(self, head: tuple[int, int]) -> float:
        """A head's ALiBi slope."""
        assert self.slopes is not None
        return float(self.slopes[tuple(min(at, n - 1) for at, n in zip(head, self.slopes.shape, strict=True))])

    def score(self, scaled: Doubles, head: tuple[int, int], rows: NDArray[np.intp]) -> Doubles:
        """Scores of some rows of one head before masking, (rows, keys).

        Args:
            scaled: scale·Q·Kᵀ of these rows.
        """
        result = self.capped(scaled)
        if self.bias is not None:
            result = result + self.bias_of(head, rows)
        if self.slopes is not None:
            result = result - self.slope_of(head) * self.distance(rows)
        return result

    def added(self, head: tuple[int, int], rows: NDArray[np.intp]) -> Doubles:
        """|bias| + |slope|·(Sq + Skv): no smaller than what any form of ALiBi adds, whatever it counts from."""
        total = np.zeros((len(rows), self.keys))
        if self.bias is not None:
            total += np.abs(self.bias_of(head, rows))
        if self.slopes is not None:
            total += abs(self.slope_of(head)) * (self.queries + self.keys)
        return total

    def within(self, rows: NDArray[np.intp]) -> Where:
        """Keys that the causal mask lets through, (rows, keys)."""
        if not self.causal:
            return np.ones((len(rows), self.keys), np.bool_)
        return np.asarray(np.arange(self.keys)[None, :] <= rows[:, None] + self.corner)

    def otherwise(self, head: tuple[int, int], rows: NDArray[np.intp]) -> Where:
        """Keys that all other masks let through, (rows, keys)."""
        i, j = rows[:, None] + self.corner, np.arange(self.keys)[None, :]
        seen = np.ones((len(rows), self.keys), np.bool_)
        if self.window_left >= 0:
            seen &= j >= i - self.window_left
        if self.window_right >= 0:
            seen &= j <= i + self.window_right
        if self.lengths is not None:
            seen &= j < int(self.lengths[min(head[0], len(self.lengths) - 1)])
        if self.mask is not None:
            seen &= _head_rows(self.mask, head, rows) != 0
        return seen

    def allowed(self, head: tuple[int, int], rows: NDArray[np.intp]) -> Where:
        """Keys that every mask lets through, (rows, keys)."""
        return self.within(rows) & self.otherwise(head, rows) if self.masks_otherwise else self.within(rows)


def _head_rows(array: NDArray[Any], head: tuple[int, int], rows: NDArray[np.intp]) -> NDArray[Any]:
    matrix = array[min(head[0], array.shape[0] - 1), min(head[1], array.shape[1] - 1)]
    return np.asarray(matrix if matrix.shape[0] == 1 else matrix[rows])


def score_terms(
    parameters: Mapping[str, float | int | bool | str], inputs: Mapping[str, NDArray[Any]], queries: int, keys: int
) -> ScoreTerms:
    """Of an operation's evaluated parameters and logical inputs; what it does not have is absent."""
    corner = keys - queries if parameters.get("alignment") == "bottom-right" else 0

    def given(role: str, axes: int) -> NDArray[Any] | None:
        return _wide(inputs[role], axes) if role in inputs else None

    mask = given("mask", 4)
    if mask is not None and parameters.get("mask_hides"):
        mask = mask == 0
    return ScoreTerms(
        queries,
        keys,
        bool(parameters.get("causal", False)),
        corner,
        int(parameters.get("window_left", -1)),
        int(parameters.get("window_right", -1)),
        float(parameters.get("softcap", 0.0)),
        given("bias", 4),
        given("alibi_slopes", 2),
        mask,
        given("lengths", 1),
    )
