"""A-priori rounding bounds, one function per operation, each with its derivation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.bounds import attention, matmul, softmax
from wmmadiag.compare.bounds.arithmetic import Doubles, Judgement, Parameters
from wmmadiag.subject.card import Tolerance
from wmmadiag.subject.dtypes import ElementType

__all__ = ["Judgement", "judge", "tolerance"]


def judge(
    operation: str,
    parameters: Parameters,
    inputs: Mapping[str, NDArray[Any]],
    expected: Mapping[str, Doubles],
    elements: Mapping[str, ElementType],
) -> dict[str, Judgement]:
    """The bounds of a built-in operation's outputs, by role.

    Args:
        operation: a name in `operations.OPERATIONS` other than "python".
        parameters: evaluated, as `symbols.evaluate_parameters` gives them.
        inputs: logical tensors by role, as the kernel reads them.
        expected: the reference's outputs by role.
        elements: element type of every role the card has.
    """
    match operation:
        case "attention":
            return attention.bound(inputs, dict(expected), parameters, dict(elements))
        case "qkt":
            return {"scores": matmul.qkt(inputs, expected["scores"], parameters, elements["q"], elements["scores"])}
        case "pv":
            return {"o": matmul.pv(inputs["p"], inputs["v"], expected["o"], parameters, elements["p"], elements["o"])}
        case "softmax":
            return {"y": softmax.bound(inputs["x"], expected["y"], parameters, elements["x"], elements["y"])}
        case "gemm":
            output = "d" if "d" in elements else "c"
            return {output: matmul.gemm(inputs, expected[output], parameters, elements, elements[output])}
    raise ValueError(f"no bound for the operation {operation!r}")


def tolerance(expected: Doubles, chosen: Tolerance) -> Judgement:
    """The card's own tolerance as a bound: atol + rtol·|expected|."""
    with np.errstate(invalid="ignore"):
        return Judgement(chosen.atol + chosen.rtol * np.abs(np.nan_to_num(expected, posinf=0.0, neginf=0.0)))
