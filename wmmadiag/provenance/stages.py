"""Intermediate values of a run as its operation judges them: what a line's values are, and where they first depart.

Whatever one reading explains uniformly is consistent. Only where the kernel's output is wrong does a line that no
reading explains count as departing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.model import MatrixProduct
from wmmadiag.ops.stages.model import FINAL, ExpectedOutput, Judged, SampleRole, StageCase, Stages
from wmmadiag.ops.stages.products import ProductStages
from wmmadiag.provenance.model import DepartingValue, Stage
from wmmadiag.provenance.tags import ArgumentMatrix
from wmmadiag.subject.binding import BoundCase

_WORDS = {
    SampleRole.OPERAND: "operand",
    SampleRole.ACCUMULATOR: "accumulator",
    SampleRole.RESULT: "result",
    SampleRole.STORE: "store",
}


def stages_of(case: BoundCase, matrices: Sequence[ArgumentMatrix]) -> tuple[Stages, StageCase]:
    """What is known of the values on the way to the outputs of a case whose operation has matrix products."""
    operation = OPERATIONS[case.card.computes.operation]
    assert operation.products is not None
    first: str | MatrixProduct = next(iter(operation.products(case.parameters).values()))
    while isinstance(first, MatrixProduct):
        first = first.left
    inputs = case.inputs()
    by_number = {matrix.number: matrix for matrix in matrices}

    def argument(number: int) -> NDArray[Any]:
        one = by_number[number]
        return np.asarray(inputs[one.role].astype(np.float64)[one.lead].reshape(one.rows, one.columns))

    given = StageCase(case.parameters, inputs, case.elements()[first], argument)
    return (operation.stages or ProductStages)(given), given


def narrow_of(case: StageCase) -> str:
    """The type of 16-bit values."""
    return "bf16" if case.element.name == "bf16" else "f16"


def stage_of(
    judged: Judged, expected: Sequence[ExpectedOutput], status: Literal["fits", "departs", "unknown"]
) -> Stage:
    """What a line's values are, as a user reads it."""
    seen, best = judged.seen, judged.best
    reading = "" if status == "unknown" and not judged.fits else best.words
    what = f"{_WORDS[seen.role]} of {'the output' if seen.kind == FINAL else best.of}"
    return Stage(
        seen.place, what, reading, status, len(seen.values), best.fit.departs,
        first_departure(judged, expected), int(seen.group[0]), seen.partial,
    )  # fmt: skip


def first_departure(judged: Judged, expected: Sequence[ExpectedOutput]) -> DepartingValue | None:
    """The first value that the best reading does not explain."""
    wrong = np.flatnonzero(~judged.best.fit.right)
    if not len(wrong):
        return None
    at, seen = int(wrong[0]), judged.seen
    index = (*expected[int(seen.output[at])].lead, int(seen.row[at]), int(seen.column[at]))
    before = seen.group[(seen.block == seen.block[at]) & (seen.group < seen.group[at])]
    return DepartingValue(
        index, float(seen.values[at]), float(judged.best.fit.expected[at]), int(seen.block[at]), len(np.unique(before))
    )
