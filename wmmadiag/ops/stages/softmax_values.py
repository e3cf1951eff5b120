"""Scores, softmax weights and partial outputs of attention, in float64."""

from __future__ import annotations

from typing import Any

from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, sum_error
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import ScoreRows
from wmmadiag.ops.stages.model import Coverage, ExpectedOutput, ExpectedProduct, StageCase
from wmmadiag.ops.stages.products import ProductStages, StageValues


def keys_of(coverage: Coverage) -> slice | NDArray[np.int64]:
    """The indices of a coverage."""
    if len(coverage) == 1:
        return slice(*coverage[0])
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(first, end) for first, end in coverage)])


class SoftmaxValues(ProductStages):
    """Scores, weights and sums of a case, each made when asked for and kept."""

    def __init__(self, case: StageCase) -> None:
        super().__init__(case)
        self._partial: dict[tuple[int, int, Coverage, int, int], StageValues] = {}
        self._last: tuple[Any, StageValues] = (None, StageValues(np.zeros(0), np.zeros(0)))
        self._right: dict[int, Doubles] = {}
        self._allowed: dict[tuple[int, int, tuple[int, int]], NDArray[np.bool_]] = {}
        self._terms: dict[tuple[int, int], ScoreTerms] = {}

    def allowed(self, output: ExpectedOutput, keys: int) -> NDArray[np.bool_]:
        """Which keys each row's masks leave, (rows, keys)."""
        terms = self.terms_of(output, keys)
        head = self._head(output) if terms.masks_otherwise else (0, 0)
        key = len(output.needed), keys, head
        if key not in self._allowed:
            self._allowed[key] = terms.allowed(head, np.arange(len(output.needed)))
        return self._allowed[key]

    def terms_of(self, output: ExpectedOutput, keys: int) -> ScoreTerms:
        """What is done to an output's scores."""
        key = len(output.needed), keys
        if key not in self._terms:
            self._terms[key] = score_terms(self.case.parameters, self.case.inputs, *key)
        return self._terms[key]

    @staticmethod
    def _head(output: ExpectedOutput) -> tuple[int, int]:
        batch, head = (0, 0, *output.lead)[-2:]
        return batch, head

    def scores(self, output: ExpectedOutput, factor: float | None = None) -> StageValues:
        """Scores of an attention output's head, not masked; `factor` in place of the scale."""
        assert isinstance(output.product.left, ExpectedProduct)
        raw = self.product(output.product.left)
        by = self.scale if factor is None else factor
        scaled = raw.values * by
        errors = raw.errors * abs(by) + np.abs(raw.values) * (abs(by) * 4 * self.model.unit)
        terms = self.terms_of(output, scaled.shape[1])
        if not terms.modifies:
            return StageValues(scaled, errors)
        head, rows = self._head(output), np.arange(len(scaled))
        part = ScoreRows(head, head, slice(0, len(scaled)), scaled, scaled, np.zeros(scaled.shape), scaled)
        errors = errors + terms_error(part, terms, self.case.parameters, self.model, 64 * self.model.unit)
        return StageValues(terms.score(scaled, head, rows), errors)

    def right(self, product: ExpectedProduct, keys: slice | NDArray[np.int64]) -> Doubles:
        """Rows of a product's right operand along the contracted axis, (keys, columns)."""
        if product.right not in self._right:
            self._right[product.right] = self.argument(product.right, product.right_axis).T
        return self._right[product.right][keys]

    def weight_error(self, score_error: Doubles) -> Doubles:
        """Relative error of exp(score - reference), before and after rounding to the operand's type."""
        model = self.model
        narrow = 0.0 if model.p_type is None else 2.0**-10 if model.p_type.name == "tf32" else model.p_type.unit
        stored = 0.0 if model.score_type is None else model.score_type.unit * 32.0
        total: Doubles = 2.0 * (score_error + model.exp_argument * 16.0 + stored) + model.exp_unit + narrow + 2.0**-18
        return total

    @property
    def weight_floor(self) -> float:
        """Absolute error of a weight below its type's normal range."""
        model = self.model
        return 2.0**-126 if model.p_type is None else 2.0 * model.p_type.half_subnormal

    def partial(self, output: ExpectedOutput, coverage: Coverage, rows: slice) -> StageValues:
        """Some rows of an output's sum over the keys of a coverage.

        Σ exp(s_ij - m_i)·v_jd over those keys j that the mask leaves, m_i being the row's largest score among them.
        """
        product = output.product
        assert isinstance(product.left, ExpectedProduct)
        assert isinstance(product.left.left, int)
        key = product.left.left, product.right, coverage, rows.start, rows.stop
        if key not in self._partial:
            if (product.left, rows.start, rows.stop) != self._last[0]:
                self._last = (product.left, rows.start, rows.stop), self.scores(output)
            scores = self._last[1]
            keys = keys_of(coverage)
            allowed = self.allowed(output, product.extent)[rows][:, keys]
            masked = np.where(allowed, scores.values[rows][:, keys], -np.inf)
            largest = masked.max(axis=1, initial=-np.inf)
            weights = np.exp(masked - np.where(np.isfinite(largest), largest, 0.0)[:, None])
            v = self.right(product, keys)
            size = np.abs(v)
            total = sum_error(len(v), self.model, extra=len(v) // 8 + 8)
            relative = self.weight_error(scores.errors[rows][:, keys]) + total.relative + self.model.operand
            errors = (weights * relative) @ size + (self.weight_floor + total.absolute) * size.sum(axis=0)
            self._partial[key] = StageValues(weights @ v, errors)
        return self._partial[key]
