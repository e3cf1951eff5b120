"""Which reading fits the scores, weights and sums of each line of an attention.

A right kernel may keep scores unscaled, scaled or in base 2, weights relative to any reference of their row, partial
outputs relative to another: whatever one reading explains uniformly is consistent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Where
from wmmadiag.ops.parts.score_terms import HIDDEN
from wmmadiag.ops.stages import readings
from wmmadiag.ops.stages.model import (
    INNER,
    Coverage,
    ExpectedOutput,
    ExpectedProduct,
    Judged,
    Observed,
    SampleRole,
    StageReading,
    StageWords,
)
from wmmadiag.ops.stages.products import StageValues, gathered
from wmmadiag.ops.stages.softmax_values import SoftmaxValues

LOG2E = math.log2(math.e)


class SoftmaxJudge:
    """Reads the values of lines, in the order of execution."""

    def __init__(
        self,
        inner: SoftmaxValues,
        expected: Sequence[ExpectedOutput],
        coverage: Callable[[int], Coverage],
        lines: Sequence[Observed],
    ) -> None:
        self._inner, self._expected, self._coverage, self._lines = inner, expected, coverage, lines

    def judged(self) -> Iterator[Judged]:
        """Every line."""
        for seen in self._lines:
            if seen.kind != INNER:
                yield self._sums(seen)
            else:
                yield self._weights(seen) if seen.role is SampleRole.OPERAND else self._scores_or_weights(seen)

    # Values of the operation, one per sample

    def _allowed(self, seen: Observed) -> Where:
        """Whether the masks leave the key."""
        result = np.empty(len(seen.values), bool)
        for number in np.unique(seen.output):
            here = seen.output == number
            output = self._expected[number]
            result[here] = self._inner.allowed(output, output.product.extent)[seen.row[here], seen.column[here]]
        return result

    def _raw_scores(self, seen: Observed) -> tuple[Doubles, Doubles]:
        def product(output: ExpectedOutput) -> StageValues:
            assert isinstance(output.product.left, ExpectedProduct)
            return self._inner.product(output.product.left)

        return gathered(seen, self._expected, product)

    @cached_property
    def _modified(self) -> bool:
        """Whether softcap, bias or ALiBi change the scores."""
        return self._inner.terms_of(self._expected[0], self._expected[0].product.extent).modifies

    def _final_scores(self, seen: Observed, factor: float) -> tuple[Doubles, Doubles]:
        """Scores with everything but masks at the samples' indices, and their error bounds."""
        return gathered(seen, self._expected, lambda output: self._inner.scores(output, factor))

    @cached_property
    def _chunks(self) -> tuple[readings.Groups, readings.Groups]:
        """(sorted codes of weights that a multiplication read, the group of each): they share a reference."""
        codes, groups = [], []
        for seen in self._lines:
            if seen.kind == INNER and seen.role is SampleRole.OPERAND:
                codes.append(_code(seen))
                groups.append(seen.group)
        if not codes:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        unique, first = np.unique(np.concatenate(codes), return_index=True)
        return unique, np.concatenate(groups)[first]

    def _groups(self, seen: Observed) -> readings.Groups:
        """Values of one row that were made with one reference."""
        if seen.role is SampleRole.OPERAND:
            return readings.groups_of(seen.output, seen.row, seen.group)
        codes, groups = self._chunks
        wanted = _code(seen)
        at = np.searchsorted(codes, wanted)
        found = at < len(codes)
        found[found] = codes[at[found]] == wanted[found]
        chunk = -1 - seen.column // 16
        chunk[found] = groups[at[found]]
        return readings.groups_of(seen.output, seen.row, chunk)

    # Scores and weights

    def _scores_or_weights(self, seen: Observed) -> Judged:
        scores = list(self._score_readings(seen))
        best = next((one for one in scores if one.fits), None)
        if best is None and seen.role is SampleRole.STORE:
            weights = self._weights(seen)
            less = None if weights.fits else self._less_maximum(seen)
            if less is not None:
                return Judged(seen, less)
            if weights.best.fit.departs < min(one.fit.departs for one in scores):
                return weights
        return Judged(seen, best or min(scores, key=lambda one: one.fit.departs))

    def _score_readings(self, seen: Observed) -> Iterator[StageReading]:
        values, errors = self._raw_scores(seen)
        allowed = self._allowed(seen)
        scale = self._inner.scale

        def fit(values: Doubles, errors: Doubles, factor: float) -> readings.Fit:
            return readings.scaled(seen.values, values, errors, factor, seen.rounding, allowed, HIDDEN)

        for factor, words in (
            (1.0, "Q·Kᵀ"), (scale, "scale·Q·Kᵀ"), (scale * LOG2E, "scale·log2(e)·Q·Kᵀ"), (LOG2E, "log2(e)·Q·Kᵀ")
        ):  # fmt: skip
            yield StageReading(words, fit(values, errors, factor), of="scores")
        if self._modified:
            final, bounds = self._final_scores(seen, scale)
            for factor, words in ((1.0, "scores"), (LOG2E, "log2(e)·scores")):
                yield StageReading(words, fit(final, bounds, factor), of="scores")
        other = readings.uniform_factor(seen.values, values, HIDDEN)
        if other is not None:
            yield StageReading(f"{other:.4g}·Q·Kᵀ", fit(values, errors, other), of="scores")

    def _less_maximum(self, seen: Observed) -> StageReading | None:
        if self._modified:
            return None
        values, errors = self._raw_scores(seen)
        allowed, groups = self._allowed(seen), self._groups(seen)
        for factor, words in ((self._inner.scale, "scale·"), (self._inner.scale * LOG2E, "scale·log2(e)·"), (1.0, "")):
            bound = 2.0 * errors * abs(factor) + seen.rounding * np.abs(np.nan_to_num(seen.values))
            fit = readings.shifted(seen.values, values * factor, bound, groups, allowed, HIDDEN)
            if fit.departs == 0:
                return StageReading(f"{words}Q·Kᵀ - row reference", fit, of="scores")
        return None

    def _weight_fit(self, seen: Observed, factor: float, allowed: Where) -> readings.Fit:
        if self._modified:
            final, score_errors = self._final_scores(seen, factor)
        else:
            values, errors = self._raw_scores(seen)
            final = values * factor
            score_errors = errors * abs(factor) + np.abs(final) * (4 * self._inner.model.unit)
        relative = self._inner.weight_error(score_errors)
        return readings.proportional_weights(
            seen.values, final, relative + seen.rounding * (seen.role is SampleRole.STORE),
            self._inner.weight_floor, self._groups(seen), allowed,
        )  # fmt: skip

    def _weights(self, seen: Observed) -> Judged:
        scale = self._inner.scale
        fit = self._weight_fit(seen, scale, self._allowed(seen))
        return Judged(seen, StageReading("exp(scale·Q·Kᵀ - row reference)", fit, of="weights"))

    # Sums

    def _sums(self, seen: Observed) -> Judged:
        values, errors = self._partial(seen)
        groups = readings.groups_of(seen.output, seen.row, seen.matrix)
        fit = readings.proportional_sums(seen.values, values, errors, groups, seen.rounding)
        words = "row factor·P·V" if seen.role is not SampleRole.STORE else "row factor·softmax(Q·Kᵀ)·V"
        return Judged(seen, StageReading(words, fit))

    def _partial(self, seen: Observed) -> tuple[Doubles, Doubles]:
        values, errors = np.zeros(len(seen.values)), np.zeros(len(seen.values))
        for number in np.unique(seen.output):
            of_output = np.flatnonzero(seen.output == number)
            rows = slice(int(seen.row[of_output].min()), int(seen.row[of_output].max()) + 1)
            order = of_output[np.argsort(seen.matrix[of_output], kind="stable")]
            matrices, starts = np.unique(seen.matrix[order], return_index=True)
            for matrix, here in zip(matrices, np.split(order, starts[1:]), strict=True):
                one = self._inner.partial(self._expected[number], self._coverage(int(matrix)), rows)
                values[here] = one.values[seen.row[here] - rows.start, seen.column[here]]
                errors[here] = one.errors[seen.row[here] - rows.start, seen.column[here]]
        return values, errors


def _code(seen: Observed) -> readings.Groups:
    return (seen.output << 40) + (seen.row << 20) + seen.column


class SoftmaxStages(SoftmaxValues):
    """What is known of one case."""

    words = StageWords(inner="the weights", inner_axes="(query, key)")
    hidden = HIDDEN

    def judge(
        self, expected: Sequence[ExpectedOutput], coverage: Callable[[int], Coverage], lines: Sequence[Observed]
    ) -> Iterator[Judged]:
        """See `Stages`."""
        return SoftmaxJudge(self, expected, coverage, lines).judged()
