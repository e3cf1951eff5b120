"""A finished run as fault models see it: every operation as matrices per (batch, head), rows taken as needed.

Softmax is attention with V = 1, Q·Kᵀ and P·V are products: two pipelines cover the five operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.bounds import judge, tolerance
from wmmadiag.compare.bounds.arithmetic import arithmetic
from wmmadiag.diagnose.faults.model import Doubles, Value
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.dtypes import ElementType
from wmmadiag.subject.epilogue import finished
from wmmadiag.subject.operations import OPERATIONS
from wmmadiag.subject.oracles import as_heads, reference
from wmmadiag.subject.score_terms import ScoreTerms, score_terms
from wmmadiag.subject.storage import is_poison

Lead: TypeAlias = tuple[int, int]
Source: TypeAlias = "Callable[[Problem, Lead], Doubles]"
"""The matrix that takes an operand's place in one (batch, head) of the output."""

MAIN_OUTPUT: Mapping[str, tuple[str, ...]] = {
    "attention": ("o",),
    "softmax": ("y",),
    "qkt": ("scores",),
    "pv": ("o",),
    "gemm": ("d", "c"),
}


@dataclass(eq=False)
class Problem:
    """One run, its reference and bound.

    Attributes:
        operation: one of `MAIN_OUTPUT`.
        parameters: of the operation, evaluated.
        arrays: operands by role, (B, H, rows, columns) in float64.
        extras: inputs that are spread over the result, likewise, with extents of 1.
        elements: types by role.
        role: the output that is looked at.
        shape: of that output as the card has it.
        observed, expected, allowed: (B, H, rows, columns); `allowed` is the bound.
        wrong, unwritten: likewise; what nobody wrote is NaN in `observed`, and no prediction explains it.
    """

    operation: str
    parameters: Mapping[str, float | int | bool | str]
    arrays: Mapping[str, Doubles]
    extras: Mapping[str, Doubles]
    elements: Mapping[str, ElementType]
    role: str
    shape: tuple[int, ...]
    observed: Doubles
    expected: Doubles
    allowed: Doubles
    wrong: NDArray[np.bool_]
    unwritten: NDArray[np.bool_]
    bound: BoundCase

    @property
    def attends(self) -> bool:
        """Whether the operation has a softmax."""
        return self.operation in ("attention", "softmax")

    @property
    def scale(self) -> float:
        """Factor of the scores, or alpha of a product."""
        name = "alpha" if self.operation == "gemm" else "scale"
        return float(self.parameters.get(name, 1.0))

    def allowed_under(self, changes: Mapping[str, Value]) -> Doubles:
        """The bound with other parameters of the operation (coarser arithmetic, say); shaped as `allowed`."""
        key = tuple(sorted(changes.items()))
        if key not in self._bounds:
            inputs, parameters = self.bound.inputs(), {**self.parameters, **changes}
            expected = reference(self.operation, self.parameters, inputs)
            judged = judge(self.operation, parameters, inputs, expected, self.elements)[self.role].bound
            self._bounds[key] = judged.reshape(self.allowed.shape)
        return self._bounds[key]

    @cached_property
    def _bounds(self) -> dict[tuple[tuple[str, Value], ...], Doubles]:
        return {}

    @cached_property
    def terms(self) -> ScoreTerms:
        """What is done to scores beyond scaling them."""
        if self.operation not in ("attention", "qkt"):
            return ScoreTerms(self.observed.shape[2], 0)
        keys = self.arrays["k"].shape[2]
        return score_terms(self.parameters, self.bound.inputs(), self.observed.shape[2], keys)

    @cached_property
    def weight_rounding(self) -> float:
        """What rounding P and the exponentials moves an output at least, relative to the largest of its row."""
        model = arithmetic(self.parameters, self.elements["q" if self.operation == "attention" else "x"])
        return 4.0 * (model.p_type.unit if model.p_type else 0.0) + 64.0 * model.unit

    @cached_property
    def leads(self) -> tuple[Lead, ...]:
        """Every (batch, head) of the output."""
        return tuple((b, h) for b, h in np.ndindex(self.observed.shape[:2]))

    def source_lead(self, role: str, lead: Lead) -> Lead:
        """Which (batch, head) of an input belongs to one of the output: grouped heads, broadcast batches."""
        batches, heads = self.arrays[role].shape[:2]
        outer = self.observed.shape[1]
        return lead[0] % batches, lead[1] * heads // outer

    def matrix(self, role: str, lead: Lead) -> Doubles:
        """The input of a role that belongs to one (batch, head) of the output, as stored."""
        matrix: Doubles = self.arrays[role][self.source_lead(role, lead)]
        return matrix

    def rows(self, lead: Lead, index: NDArray[np.intp]) -> Rows:
        """Some rows of one (batch, head)."""
        return Rows(self, lead, index)

    def all_rows(self, lead: Lead) -> Rows:
        """Every row of one (batch, head); kept with its stages where that takes little memory."""
        if lead in self._kept:
            return self._kept[lead]
        rows = Rows(self, lead, np.arange(self.observed.shape[2]))
        keys = max(array.shape[-2] for array in self.arrays.values())
        if self.observed.shape[2] * keys * len(self.leads) <= _KEPT_ELEMENTS:
            self._kept[lead] = rows
        return rows

    @cached_property
    def _kept(self) -> dict[Lead, Rows]:
        return {}

    def tiles(self, extent: int) -> tuple[int, ...]:
        """Tile sizes that cut this extent: 8 to 256."""
        return tuple(t for t in TILES if t < extent)


_KEPT_ELEMENTS = 1 << 19
TILES = (16, 32, 64, 128, 8, 48, 96, 256, 24, 40, 56, 80, 112, 160, 192, 224)


def problem_of(bound: BoundCase) -> Problem | None:
    """What fault models need of a finished run; None for operations without models, or an output that is not 2-D to
    4-D."""
    operation = bound.card.computes.operation
    outputs = bound.outputs()
    role = next((r for r in MAIN_OUTPUT.get(operation, ()) if r in outputs), None)
    inputs = bound.inputs()
    if role is None or not 2 <= outputs[role].ndim <= 4 or any(a.ndim > 4 for a in inputs.values()):
        return None
    expected = reference(operation, bound.parameters, inputs)
    if bound.tolerance is not None:
        judged = tolerance(expected[role], bound.tolerance)
    else:
        judged = judge(operation, bound.parameters, inputs, expected, bound.elements())[role]
    observed = outputs[role].astype(np.float64)
    argument = bound.argument_of(role)
    poison = np.zeros(observed.shape, np.bool_)
    if argument.spec.direction == "out" and argument.spec.initial == "poison":
        poison = is_poison(outputs[role], argument.spec.element, argument.index)
    observed = np.where(poison, np.nan, observed)
    with np.errstate(invalid="ignore"):
        right = np.abs(observed - expected[role]) <= judged.bound
    right |= np.isnan(expected[role]) & np.isnan(observed) & ~poison
    right |= np.isinf(observed) & (observed == expected[role])
    if judged.nonfinite_ok is not None:
        right |= judged.nonfinite_ok & ~np.isfinite(observed) & ~poison

    def heads(array: NDArray[Any]) -> NDArray[Any]:
        # A 3-D product's leading axis is a batch.
        return array[:, None] if array.ndim == 3 and operation == "gemm" else as_heads(array)

    roles = OPERATIONS[operation].roles
    wide = {name: heads(array).astype(np.float64) for name, array in inputs.items()}
    return Problem(
        operation,
        bound.parameters,
        {name: array for name, array in wide.items() if not roles[name].usual},
        {name: array for name, array in wide.items() if roles[name].usual},
        bound.elements(),
        role,
        observed.shape,
        heads(observed),
        heads(expected[role]),
        heads(judged.bound),
        heads(~right),
        heads(poison),
        bound,
    )


class Rows:
    """Some rows of one (batch, head) of the output, with every stage that leads to them.

    Attributes:
        problem, lead: whose.
        index: which rows.
    """

    def __init__(
        self, problem: Problem, lead: Lead, index: NDArray[np.intp], sources: Mapping[str, Source] | None = None
    ) -> None:
        self.problem = problem
        self.lead = lead
        self.index = index
        self._sources = sources or {}
        self.memory: dict[object, object] = {}
        """For models: what several candidates share about these rows."""

    def using(self, **sources: Source) -> Rows:
        """The same rows with other operands."""
        return Rows(self.problem, self.lead, self.index, {**self._sources, **sources})

    def operand(self, role: str) -> Doubles:
        """An operand's matrix for this (batch, head)."""
        source = self._sources.get(role)
        return self.problem.matrix(role, self.lead) if source is None else source(self.problem, self.lead)

    @property
    def expected(self) -> Doubles:
        """The oracle's rows."""
        rows: Doubles = self.problem.expected[self.lead][self.index]
        return rows

    @cached_property
    def left(self) -> Doubles:
        """Rows of the (first) product's left operand: Q, P, op(A); (rows, depth)."""
        match self.problem.operation:
            case "attention" | "qkt":
                return self.operand("q")[self.index]
            case "pv":
                return self.operand("p")[self.index]
        a = self.operand("a")
        return a.T[self.index] if self.problem.parameters["transpose_a"] else a[self.index]

    @cached_property
    def right(self) -> Doubles:
        """The (first) product's right operand: Kᵀ, V, op(B); (depth, columns)."""
        match self.problem.operation:
            case "attention" | "qkt":
                return self.operand("k").T
            case "pv":
                return self.operand("v")
        b = self.operand("b")
        return b.T if self.problem.parameters["transpose_b"] else b

    @cached_property
    def products(self) -> Doubles:
        """Left · right, neither scaled nor masked; softmax's X."""
        if self.problem.operation == "softmax":
            return self.operand("x")[self.index]
        return self.left @ self.right

    def finish(self, products: Doubles) -> Doubles:
        """A product operation's output: of a GEMM with scales, beta · C, bias and activation."""
        result = products * self.problem.scale if self.problem.scale != 1.0 else products
        if self.problem.operation == "qkt":
            return self.scored(result)
        if self.problem.operation != "gemm":
            return result
        parameters = self.problem.parameters
        return finished(result, self.further, beta=float(parameters["beta"]), activation=str(parameters["activation"]))

    @cached_property
    def further(self) -> dict[str, Doubles]:
        """What a GEMM's product meets, by role: its own rows of C, scales and bias, (rows or 1, columns or 1)."""
        found = {role: self._rows_of(self.extra(role)) for role in self.problem.extras}
        if "c" in self.problem.arrays:
            found["c"] = self.operand("c")[self.index]
        return found

    def extra(self, role: str) -> Doubles:
        """An extra input's matrix for this (batch, head), with extents of 1 where it is spread."""
        array = self.problem.extras[role]
        matrix: Doubles = array[self.lead[0] % array.shape[0], self.lead[1] % array.shape[1]]
        return matrix

    def _rows_of(self, matrix: Doubles) -> Doubles:
        return matrix if matrix.shape[0] == 1 else matrix[self.index]

    @cached_property
    def keys(self) -> int:
        """Columns of the products."""
        return int(self.products.shape[1])

    @property
    def corner(self) -> int:
        """Key that the causal mask lets row 0 see last."""
        bottom = self.problem.parameters.get("alignment") == "bottom-right"
        return self.keys - int(self.problem.observed.shape[2]) if bottom else 0

    @property
    def causal(self) -> bool:
        """Whether the oracle masks."""
        return self.problem.terms.masks

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """Where the oracle's masks let through."""
        if not self.causal:
            return np.ones(self.products.shape, np.bool_)
        return self.problem.terms.allowed(self.lead, self.index)

    @cached_property
    def otherwise(self) -> NDArray[np.bool_]:
        """Where the oracle's masks other than the causal one let through."""
        return self.problem.terms.otherwise(self.lead, self.index)

    def scored(self, scaled: Doubles) -> Doubles:
        """Scores before masking, of scaled products."""
        terms = self.problem.terms
        return terms.score(scaled, self.lead, self.index) if terms.modifies else scaled

    @cached_property
    def scores(self) -> Doubles:
        """Scaled, with softcap and bias, masked."""
        scaled = self.scored(self.products * self.problem.scale)
        return np.where(self.allowed, scaled, -np.inf) if self.causal else scaled

    @cached_property
    def largest(self) -> Doubles:
        """Each row's largest score; 0 for a row without keys; (rows, 1)."""
        return row_maximum(self.scores)

    @cached_property
    def exponentials(self) -> Doubles:
        """exp(score - largest)."""
        return np.asarray(np.exp(self.scores - self.largest))

    @cached_property
    def sums(self) -> Doubles:
        """Row sums of the exponentials, (rows, 1)."""
        return np.asarray(self.exponentials.sum(axis=1, keepdims=True))

    @cached_property
    def values(self) -> Doubles | None:
        """V of this head; None for softmax alone (V = 1)."""
        return self.operand("v") if self.problem.operation == "attention" else None

    def combine(self, weights: Doubles) -> Doubles:
        """Weights · V."""
        return weights if self.values is None else weights @ self.values

    def attend(self, scores: Doubles) -> Doubles:
        """softmax(scores) · V; rows without a key are NaN."""
        exponentials = np.exp(scores - row_maximum(scores))
        total = exponentials.sum(axis=1, keepdims=True)
        return self.combine(exponentials) / self._divisor(total)

    def weighted(self, over: Doubles | None, under: Doubles | None) -> Doubles:
        """The oracle with the numerator's and the denominator's exponentials multiplied by factors (rows, keys)."""
        top = self.exponentials if over is None else self.exponentials * over
        total = self.sums if under is None else (self.exponentials * under).sum(axis=1, keepdims=True)
        return self.combine(top) / self._divisor(total)

    def _divisor(self, total: Doubles) -> Doubles:
        """NaN for rows that a change leaves without a key; 1 for those that have none anyway: their result is 0."""
        if not (total == 0).any():
            return total
        return np.where(total == 0, np.where(self.allowed.any(axis=1, keepdims=True), np.nan, 1.0), total)

    @cached_property
    def output(self) -> Doubles:
        """The unchanged oracle, computed from the operands in use."""
        return self.attend(self.scores) if self.problem.attends else self.finish(self.products)


def row_maximum(scores: Doubles) -> Doubles:
    """Each row's largest score, 0 where there is none; (rows, 1)."""
    largest = scores.max(axis=1, keepdims=True)
    return np.where(np.isfinite(largest), largest, 0.0)
