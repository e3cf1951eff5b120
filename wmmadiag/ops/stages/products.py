"""Stages of operations whose outputs are products of arguments, as they are or scaled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.ops.model import ROW
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Arithmetic, Doubles, arithmetic, product_error
from wmmadiag.ops.stages.model import (
    Coverage,
    ExpectedOutput,
    ExpectedProduct,
    Judged,
    Observed,
    StageCase,
    StageReading,
    StageWords,
)
from wmmadiag.ops.stages.readings import scaled, uniform_factor


@dataclass(frozen=True, slots=True)
class StageValues:
    """What values of a matrix must be: themselves and error bounds, (rows, columns)."""

    values: Doubles
    errors: Doubles


class ProductStages:
    """Products of a case, in float64; each is made when asked for and kept.

    Every value comes with a bound for what rounding can explain, made of the same parts as the operations' bounds.
    """

    words = StageWords()
    hidden = -math.inf

    def __init__(self, case: StageCase) -> None:
        self.case = case
        self.model: Arithmetic = arithmetic(case.parameters, case.element)
        self.exact = self.model.exact
        self.scale = float(case.parameters.get("scale", case.parameters.get("alpha", 1.0)))
        self._products: dict[tuple[int, int], StageValues] = {}

    def judge(
        self, expected: Sequence[ExpectedOutput], coverage: Callable[[int], Coverage], lines: Sequence[Observed]
    ) -> Iterator[Judged]:
        """See `Stages`."""
        del coverage
        for seen in lines:
            readings = list(self._readings(seen, expected))
            best = next((one for one in readings if one.fits), min(readings, key=lambda one: one.fit.departs))
            yield Judged(seen, best)

    def _readings(self, seen: Observed, expected: Sequence[ExpectedOutput]) -> Iterator[StageReading]:
        product = expected[0].product.words if len(expected) == 1 else "the product"
        values, errors = gathered(seen, expected, lambda output: self.product(output.product))
        for factor, words in ((1.0, product), (self.scale, f"scale·{product}")):
            yield StageReading(words, scaled(seen.values, values, errors, factor, seen.rounding))
        for words, of in self.wholes().items():
            yield StageReading(words, scaled(seen.values, *gathered(seen, expected, of), 1.0, seen.rounding))
        other = uniform_factor(seen.values, values)
        if other is not None:
            yield StageReading(f"{other:.4g}·{product}", scaled(seen.values, values, errors, other, seen.rounding))

    def argument(self, number: int, contracted: int) -> Doubles:
        """An argument's matrix with the contracted axis last."""
        values = self.case.argument(number)
        return np.ascontiguousarray(values.T if contracted == ROW else values)

    def product(self, wanted: ExpectedProduct) -> StageValues:
        """The product of two arguments."""
        assert isinstance(wanted.left, int)
        key = wanted.left, wanted.right
        if key not in self._products:
            left = self.argument(wanted.left, wanted.left_axis)
            right = self.argument(wanted.right, wanted.right_axis)
            total = product_error(wanted.extent, self.model)
            relative = total.relative + self.model.scaled_query
            errors = relative * (np.abs(left) @ np.abs(right).T) + total.absolute
            self._products[key] = StageValues(left @ right.T, errors)
        return self._products[key]

    def wholes(self) -> Mapping[str, Callable[[ExpectedOutput], StageValues]]:
        """By words: what else an output's values may be on their way, besides the product."""
        return {}


def gathered(
    seen: Observed, expected: Sequence[ExpectedOutput], of: Callable[[ExpectedOutput], StageValues]
) -> tuple[Doubles, Doubles]:
    """What the values of a matrix of each output are at the samples' indices, and their error bounds."""
    values, errors = np.empty(len(seen.values)), np.empty(len(seen.values))
    for number in np.unique(seen.output):
        here = seen.output == number
        one, at = of(expected[number]), (seen.row[here], seen.column[here])
        values[here], errors[here] = one.values[at], one.errors[at]
    return values, errors
