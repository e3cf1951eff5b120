"""Which reading fits the scores, weights and sums of each line of an attention.

A right kernel may keep scores unscaled, scaled or in base 2, weights relative to any reference of their row, partial
outputs relative to another: whatever one reading explains uniformly is consistent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Where, sum_error
from wmmadiag.ops.parts.score_terms import HIDDEN
from wmmadiag.ops.stages import readings
from wmmadiag.ops.stages.model import (
    INNER,
    Coverage,
    ExpectedOutput,
    ExpectedProduct,
    Fault,
    Judge,
    Judged,
    Observed,
    SampleRole,
    StageReading,
    StageWords,
)
from wmmadiag.ops.stages.products import gathered
from wmmadiag.ops.stages.softmax_values import SoftmaxValues, keys_of

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

    def _allowed(self, seen: Observed, offset: int | None = 0) -> Where:
        """Whether the mask leaves the key; `offset` moves a causal mask, None lifts it."""
        if offset is None:
            return np.ones(len(seen.values), bool)
        result = np.empty(len(seen.values), bool)
        for number in np.unique(seen.output):
            here = seen.output == number
            output = self._expected[number]
            if offset == 0:
                result[here] = self._inner.allowed(output, output.product.extent)[seen.row[here], seen.column[here]]
                continue
            needed = np.array(output.needed) + (offset if self._causal else 0)
            result[here] = seen.column[here] < needed[seen.row[here]]
        return result

    @property
    def _masked_otherwise(self) -> bool:
        return self._inner.terms_of(self._expected[0], self._expected[0].product.extent).masks_otherwise

    @property
    def _causal(self) -> bool:
        return bool(self._inner.case.parameters.get("causal", False))

    def _raw_scores(self, seen: Observed) -> tuple[Doubles, Doubles]:
        def product(output: ExpectedOutput) -> ExpectedProduct:
            assert isinstance(output.product.left, ExpectedProduct)
            return output.product.left

        values = gathered(seen, self._expected, lambda output: self._inner.product(product(output)).values)
        return values, gathered(seen, self._expected, lambda output: self._inner.product(product(output)).errors)

    @cached_property
    def _modified(self) -> bool:
        """Whether softcap, bias or ALiBi change the scores."""
        return self._inner.terms_of(self._expected[0], self._expected[0].product.extent).modifies

    def _final_scores(self, seen: Observed, factor: float) -> tuple[Doubles, Doubles]:
        """Scores with everything but masks at the samples' indices, and their error bounds."""
        values = gathered(seen, self._expected, lambda output: self._inner.scores(output, factor).values)
        return values, gathered(seen, self._expected, lambda output: self._inner.scores(output, factor).errors)

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
            usual = self._usual_weights(seen)
            less = None if usual.departs == 0 else self._less_maximum(seen)
            if less is not None:
                return Judged(seen, less)
            weights = self._weights(seen)
            if weights.fits or weights.faults or usual.departs < min(one.fit.departs for one in scores):
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
            yield StageReading(words, fit(values, errors, factor), factor, of="scores")
        if self._modified:
            final, bounds = self._final_scores(seen, scale)
            for factor, words in ((1.0, "scores"), (LOG2E, "log2(e)·scores")):
                yield StageReading(words, fit(final, bounds, factor), None, of="scores")
        other = readings.uniform_factor(seen.values, values, HIDDEN)
        if other is not None:
            yield StageReading(f"{other:.4g}·Q·Kᵀ", fit(values, errors, other), other, of="scores", usual=False)

    def _less_maximum(self, seen: Observed) -> StageReading | None:
        if self._modified:
            return None
        values, errors = self._raw_scores(seen)
        allowed, groups = self._allowed(seen), self._groups(seen)
        for factor, words in ((self._inner.scale, "scale·"), (self._inner.scale * LOG2E, "scale·log2(e)·"), (1.0, "")):
            bound = 2.0 * errors * abs(factor) + seen.rounding * np.abs(np.nan_to_num(seen.values))
            fit = readings.shifted(seen.values, values * factor, bound, groups, allowed, HIDDEN)
            if fit.departs == 0:
                return StageReading(f"{words}Q·Kᵀ - row reference", fit, factor, of="scores")
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

    def _usual_weights(self, seen: Observed) -> readings.Fit:
        return self._weight_fit(seen, self._inner.scale, self._allowed(seen))

    def _weights(self, seen: Observed) -> Judged:
        allowed, scale = self._allowed(seen), self._inner.scale
        usual = StageReading("exp(scale·Q·Kᵀ - row reference)", self._usual_weights(seen), scale, of="weights")
        return Judged(seen, usual, () if usual.fits else tuple(self._weight_faults(seen, allowed)))

    def _weight_faults(self, seen: Observed, allowed: Where) -> Iterator[Fault]:
        """Readings of a mistake that explain every value."""
        scale = self._inner.scale
        values, _ = self._raw_scores(seen)
        for offset in (1, -1, None) if self._causal and not self._masked_otherwise else ():
            fit = self._weight_fit(seen, scale, self._allowed(seen, offset))
            if fit.departs == 0:
                words = "the mask is missing" if offset is None else f"the mask is off by one: {_off(offset)}"
                reading = StageReading("exp(scale·Q·Kᵀ - row reference), masked otherwise", fit, scale, of="weights")
                yield Fault("mask", words, reading)
                return
        itself = next((one for one in self._score_readings(seen) if one.fits), None)
        if itself is not None:
            words = "the softmax's exponential is missing: these are scores"
            yield Fault("softmax", words, itself, everywhere=True)
            return
        if self._modified:
            return  # a fit of other temperatures says nothing of what else is done to scores
        less = self._less_maximum(seen)
        if less is not None:
            words = "the softmax's exponential is missing: these are scores less their maximum"
            yield Fault("softmax", words, less, everywhere=True)
            return
        accurate = allowed & (seen.values > 64 * self._inner.weight_floor)
        found = readings.temperature(seen.values, values, self._groups(seen), accurate)
        if found is not None and np.isfinite(found) and found != 0.0:
            near = [(x, words) for x, words in self._temperatures() if abs(found / x - 1) < 0.02]
            for factor, words in [*near, (found, f"the exponent is {found / scale:.4g} times what it must be")]:
                for masked in (allowed, np.ones(len(allowed), bool)):
                    fit = self._weight_fit(seen, factor, masked)
                    if fit.departs == 0:
                        reading = StageReading(f"exp({factor:.4g}·Q·Kᵀ - row reference)", fit, factor, of="weights")
                        yield Fault("scale", words, reading, everywhere=True)
                        return

    def _temperatures(self) -> Iterator[tuple[float, str]]:
        scale = self._inner.scale
        depth = next(iter(self._expected)).product.left
        extent = depth.extent if isinstance(depth, ExpectedProduct) else 1
        yield 1.0, f"the scale {scale:.4g} is missing"
        if abs(scale * scale * extent - 1) < 0.02:
            yield scale * scale, f"the scale {scale:.4g} is applied twice, or 1/{extent} in its place"
        else:
            yield scale * scale, f"the scale {scale:.4g} is applied twice"
        yield scale / LOG2E, "base 2 without the factor log2(e): exp2(x) is not exp(x)"
        yield scale * LOG2E, "the factor log2(e) is applied to an exponential of base e"
        yield 1.0 / LOG2E, f"the scale {scale:.4g} is missing, and the factor log2(e) of base 2"
        yield 1.0 / extent, f"scaled by 1/{extent}, not by {scale:.4g}"
        yield math.sqrt(extent), f"multiplied by {math.sqrt(extent):.4g} instead of {scale:.4g}"

    # Sums

    def _sums(self, seen: Observed) -> Judged:
        fit = self._sums_fit(seen)
        words = "row factor·P·V" if seen.role is not SampleRole.STORE else "row factor·softmax(Q·Kᵀ)·V"
        best = StageReading(words, fit)
        if best.fits:
            return Judged(seen, best)
        return Judged(seen, best, tuple(self._not_rescaled(seen, best)))

    def _sums_fit(self, seen: Observed) -> readings.Fit:
        values, errors = self._partial(seen)
        groups = readings.groups_of(seen.output, seen.row, seen.matrix)
        return readings.proportional_sums(seen.values, values, errors, groups, seen.rounding)[0]

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

    @cached_property
    def _observed_weights(self) -> Mapping[int, Doubles]:
        """Per output: the weights that multiplications read, NaN where none was looked at."""
        found: dict[int, Doubles] = {}
        for seen in self._lines:
            if seen.kind == INNER and seen.role is SampleRole.OPERAND:
                for number in np.unique(seen.output):
                    product = self._expected[number].product
                    rows = len(self._expected[number].needed)
                    weights = found.setdefault(int(number), np.full((rows, product.extent), np.nan))
                    here = seen.output == number
                    weights[seen.row[here], seen.column[here]] = seen.values[here]
        return found

    def _not_rescaled(self, seen: Observed, best: StageReading) -> Iterator[Fault]:
        """Whether the sums are those of the weights as they were, whatever reference each had."""
        values, errors = np.full(len(seen.values), np.nan), np.zeros(len(seen.values))
        for number, weights in self._observed_weights.items():
            output = self._expected[number]
            allowed = self._inner.allowed(output, output.product.extent)
            for matrix in np.unique(seen.matrix[seen.output == number]):
                here = (seen.output == number) & (seen.matrix == matrix)
                coverage = self._coverage(int(matrix))
                keys = keys_of(coverage)
                if not np.isfinite(weights[:, keys][allowed[:, keys]]).all():
                    continue
                part = np.where(np.isnan(weights[:, keys]) & ~allowed[:, keys], 0.0, weights[:, keys])
                v = self._inner.right(output.product, keys)
                values[here] = (part @ v)[seen.row[here], seen.column[here]]
                relative = sum_error(len(v), self._inner.model, extra=len(v) // 8 + 8).relative
                errors[here] = (np.abs(part) @ np.abs(v) * relative)[seen.row[here], seen.column[here]]
        known = ~np.isnan(values)
        if not known.any():
            return
        chosen = seen.of(known)
        errors = errors[known]
        groups = readings.groups_of(chosen.output, chosen.row, chosen.matrix)
        fit, factor = readings.proportional_sums(
            chosen.values, values[known], errors, groups, max(seen.rounding, 2.0**-12)
        )
        right = np.ones(len(seen.values), bool)
        # One part of a row may be rescaled, and the other not.
        as_stored = readings.scaled(chosen.values, values[known], errors, 1.0, max(seen.rounding, 2.0**-12))
        mine = fit.right | as_stored.right | best.fit.right[known]
        if not mine.all() and as_stored.right.any():
            rest = np.flatnonzero(known)[~as_stored.right]
            mine[~as_stored.right] |= self._sums_fit(seen.of(rest)).right
        if mine.all() and np.isfinite(factor).all():
            right[known] = True
            expected = seen.values.copy()
            expected[known] = fit.expected
            words = "sums of earlier tiles keep their old reference: they are not rescaled when the row's maximum grows"
            yield Fault("rescale", words, StageReading("Σ of P as stored, not rescaled", readings.Fit(right, expected)))


def _code(seen: Observed) -> readings.Groups:
    return (seen.output << 40) + (seen.row << 20) + seen.column


def _off(offset: int) -> str:
    return "each query sees one key too many" if offset > 0 else "each query sees one key too few"


class SoftmaxStages(SoftmaxValues):
    """What is known of one case."""

    words = StageWords(
        inner="the weights",
        inner_axes="(query, key)",
        row_factor="each row is off by one factor ({}): its sum is not that of the weights",
        several_factors="one row is divided by several numbers ({} of what it must be): its sum differs from lane to"
        " lane",
        hints={
            **StageWords().hints,
            "scale": "multiply Q·Kᵀ by the operation's scale once; before exp2 by log2(e), too",
            "mask": "compare the key's and the query's index as the operation does",
            "softmax": "exponentials of scores less the row's maximum go into P·V",
            "rescale": "multiply the running output by exp(old maximum - new maximum) before the next tile is added",
            "normalisation": "see which tiles and keys the row's sum counts, and what the output is divided by",
        },
    )
    hidden = HIDDEN
    notations: tuple[float, ...] = (1.0, LOG2E)

    def judge(
        self, expected: Sequence[ExpectedOutput], coverage: Callable[[int], Coverage], lines: Sequence[Observed]
    ) -> Judge:
        """See `Stages`."""
        return SoftmaxJudge(self, expected, coverage, lines)
