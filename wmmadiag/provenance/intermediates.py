"""What an operation's inner matrices must hold: products, softmax weights and partial outputs, in float64.

Every value comes with a bound for what rounding can explain, made of the same parts as `wmmadiag.ops`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops.model import ROW
from wmmadiag.ops.parts.epilogue import FUNCTIONS, SPREAD, finished
from wmmadiag.ops.parts.rounding import Arithmetic, arithmetic, product_error, sum_error
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import ScoreRows
from wmmadiag.provenance.expected import ExpectedOutput, ExpectedProduct
from wmmadiag.provenance.tags import ArgumentMatrix
from wmmadiag.subject.binding import BoundCase

Doubles: TypeAlias = NDArray[np.float64]
Coverage: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ProductValues:
    """A product of two arguments, not scaled: values and error bounds, (rows, columns)."""

    values: Doubles
    errors: Doubles


@dataclass(frozen=True, slots=True)
class PartialOutput:
    """Σ exp(s_ij - m_i)·v_jd over some keys j that the mask leaves, m_i being the row's largest score among them.

    Values and error bounds, (rows, columns).
    """

    values: Doubles
    errors: Doubles


def keys_of(coverage: Coverage) -> slice | NDArray[np.int64]:
    """The indices of a coverage."""
    if len(coverage) == 1:
        return slice(*coverage[0])
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(first, end) for first, end in coverage)])


class Intermediates:
    """Inner matrices of a case, each made when asked for and kept."""

    def __init__(self, case: BoundCase, matrices: Sequence[ArgumentMatrix]) -> None:
        self._matrices: Mapping[int, ArgumentMatrix] = {matrix.number: matrix for matrix in matrices}
        self._inputs = case.inputs()
        self.parameters = case.parameters
        elements = case.elements()
        first = next(role for role in ("q", "a", "p") if role in elements)
        self.element = elements[first]
        self.model: Arithmetic = arithmetic(case.parameters, self.element)
        self.scale = float(case.parameters.get("scale", case.parameters.get("alpha", 1.0)))
        parts = [role for role in ("c", *SPREAD) if role in self._inputs and (role != "c" or case.parameters["beta"])]
        activation = str(case.parameters.get("activation", "none"))
        # Whether something follows a GEMM's product, and its activation: none before it is applied.
        self.finishes = first == "a" and (bool(parts) or activation != "none")
        self.endings = tuple(dict.fromkeys(("none", activation)))
        scales = "".join(f"·{role}" for role in parts if role.startswith("scale"))
        terms = [
            f"alpha·A·B{scales}",
            *("beta·C" if role == "c" else role for role in parts if f"·{role}" not in scales),
        ]
        self.sum_words = " + ".join(terms)
        self._whole: dict[tuple[ExpectedOutput, str], ProductValues] = {}
        self._products: dict[tuple[int, int], ProductValues] = {}
        self._partial: dict[tuple[int, int, Coverage, int, int], PartialOutput] = {}
        self._last: tuple[Any, ProductValues] = (None, ProductValues(np.zeros(0), np.zeros(0)))
        self._right: dict[int, Doubles] = {}
        self._allowed: dict[tuple[int, int, tuple[int, int]], NDArray[np.bool_]] = {}
        self._terms: dict[tuple[int, int], ScoreTerms] = {}

    def _argument(self, number: int, contracted: int) -> Doubles:
        """An argument's matrix with the contracted axis last."""
        one = self._matrices[number]
        values = self._inputs[one.role].astype(np.float64)[one.lead].reshape(one.rows, one.columns)
        return np.ascontiguousarray(values.T if contracted == ROW else values)

    def product(self, wanted: ExpectedProduct) -> ProductValues:
        """The product of two arguments."""
        assert isinstance(wanted.left, int)
        key = wanted.left, wanted.right
        if key not in self._products:
            left = self._argument(wanted.left, wanted.left_axis)
            right = self._argument(wanted.right, wanted.right_axis)
            total = product_error(wanted.extent, self.model)
            relative = total.relative + self.model.scaled_query
            errors = relative * (np.abs(left) @ np.abs(right).T) + total.absolute
            self._products[key] = ProductValues(left @ right.T, errors)
        return self._products[key]

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
            self._terms[key] = score_terms(self.parameters, self._inputs, *key)
        return self._terms[key]

    @staticmethod
    def _head(output: ExpectedOutput) -> tuple[int, int]:
        batch, head = (0, 0, *output.lead)[-2:]
        return batch, head

    def whole(self, output: ExpectedOutput, activation: str) -> ProductValues:
        """A GEMM's output with an activation."""
        if (output, activation) not in self._whole:
            self._whole[output, activation] = self._finished(output, activation)
        return self._whole[output, activation]

    def _finished(self, output: ExpectedOutput, name: str) -> ProductValues:
        product = self.product(output.product)

        def own(role: str) -> Doubles:
            """What of an input meets this matrix, (rows or 1, columns or 1)."""
            array = self._inputs[role].astype(np.float64)
            array = array.reshape((1,) * (2 - array.ndim) + array.shape)
            outer = array.shape[:-2]
            lead = output.lead[max(0, len(output.lead) - len(outer)) :]
            picked: Doubles = array[(0,) * (len(outer) - len(lead))][
                tuple(min(at, extent - 1) for at, extent in zip(lead, outer[len(outer) - len(lead) :], strict=True))
            ]
            return picked

        further = {role: own(role) for role in ("c", *SPREAD) if role in self._inputs}
        beta = float(self.parameters["beta"])
        values = finished(self.scale * product.values, further, beta=beta, activation=name)
        scales = {role: array for role, array in further.items() if role in ("scale_a", "scale_b")}
        errors = np.abs(finished(np.abs(self.scale) * product.errors, scales))
        sizes = finished(self.scale * product.values, further, beta=beta)
        errors = FUNCTIONS[name].slope * errors + (np.abs(sizes) + np.abs(values)) * (32 * self.model.unit)
        return ProductValues(values, errors)

    def scores(self, output: ExpectedOutput, factor: float | None = None) -> ProductValues:
        """Scores of an attention output's head, not masked; `factor` in place of the scale."""
        assert isinstance(output.product.left, ExpectedProduct)
        raw = self.product(output.product.left)
        by = self.scale if factor is None else factor
        scaled = raw.values * by
        errors = raw.errors * abs(by) + np.abs(raw.values) * (abs(by) * 4 * self.model.unit)
        terms = self.terms_of(output, scaled.shape[1])
        if not terms.modifies:
            return ProductValues(scaled, errors)
        head, rows = self._head(output), np.arange(len(scaled))
        part = ScoreRows(head, head, slice(0, len(scaled)), scaled, scaled, np.zeros(scaled.shape), scaled)
        errors = errors + terms_error(part, terms, self.parameters, self.model, 64 * self.model.unit)
        return ProductValues(terms.score(scaled, head, rows), errors)

    def right(self, product: ExpectedProduct, keys: slice | NDArray[np.int64]) -> Doubles:
        """Rows of a product's right operand along the contracted axis, (keys, columns)."""
        if product.right not in self._right:
            self._right[product.right] = self._argument(product.right, product.right_axis).T
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

    def partial(self, output: ExpectedOutput, coverage: Coverage, rows: slice) -> PartialOutput:
        """Some rows of an attention output's sum over the keys of a coverage."""
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
            self._partial[key] = PartialOutput(weights @ v, errors)
        return self._partial[key]
