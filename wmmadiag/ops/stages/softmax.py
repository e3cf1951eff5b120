"""Stages of attention: scores, softmax weights and partial outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wmmadiag.ops.parts.score_terms import HIDDEN
from wmmadiag.ops.stages.model import Coverage, ExpectedOutput, Judge, Observed, StageWords
from wmmadiag.ops.stages.softmax_judge import LOG2E, SoftmaxJudge
from wmmadiag.ops.stages.softmax_values import SoftmaxValues


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
