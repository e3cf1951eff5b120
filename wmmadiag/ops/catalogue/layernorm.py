"""LayerNorm: rows less their mean, over their deviation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmmadiag.ops.model import Arrays, Elements, Operation, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import norms
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Judgement
from wmmadiag.ops.parts.traits import TENSOR_CORES


def layernorm(
    rows: NDArray[Any],
    weight: NDArray[Any] | None = None,
    bias: NDArray[Any] | None = None,
    *,
    eps: float = 1e-5,
) -> tuple[Doubles, Doubles, Doubles]:
    """(x − mean)/√(variance + eps)·weight + bias along the last axis, with the biased variance.

    Args:
        rows: (…, N); weight and bias: (N,).

    Returns:
        The result, shaped as the rows; means and reciprocal deviations without the last axis.
    """
    values = rows.astype(np.float64)
    mean = values.mean(axis=-1, keepdims=True)
    apart = values - mean
    with np.errstate(divide="ignore", invalid="ignore"):
        rstd = 1.0 / np.sqrt((apart**2).mean(axis=-1, keepdims=True) + eps)
        result = apart * rstd
    if weight is not None:
        result = result * weight.astype(np.float64)
    if bias is not None:
        result = result + bias.astype(np.float64)
    return result, mean[..., 0], rstd[..., 0]


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    rows = norms.summed(inputs)
    y, mean, rstd = layernorm(rows, inputs.get("weight"), inputs.get("bias"), eps=float(parameters["eps"]))
    y = float(parameters["gain"]) * y + float(parameters["shift"])
    return {**norms.quantised(parameters, y), "residual_out": rows, "mean": mean, "rstd": rstd}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Bounds of Y, the sum with the residual, means and reciprocal deviations: derived in `parts.norms`."""
    found = norms.statistics(parameters, inputs, elements, centred=True)
    judged = norms.rows_bounds(parameters, inputs, expected, elements, found)
    return judged | norms.statistics_bounds(expected, elements, found)


OPERATION = Operation(
    name="layernorm",
    meaning="Y = (S − mean(S))/√(var(S) + eps) · weight + bias along the last axis, S = X + residual + added",
    roles={
        **norms.ROLES,
        "bias": Role(
            "N",
            ("N",),
            required=False,
            spellings="bias beta b",
            unless_with=("bias", "beta betas"),
            instead="added",
        ),
        **norms.OUTPUTS,
        "mean": Role("M", ("M",), output=True, required=False, spellings="mean means mu"),
        "rstd": norms.RSTD,
        "scale": norms.SCALE,
    },
    parameters={
        "eps": Parameter(
            "cap", "1e-5", "added to the variance", spellings=norms.EPS_SPELLINGS, drafted=("1e-5", "0.25")
        ),
        "variance": norms.VARIANCE,
        **norms.NUMBERS,
        "levels": norms.LEVELS,
        **norms.TYPES_OF_STEPS,
    },
    oracle=_oracle,
    bound=_bound,
    extents=norms.EXTENTS,
    distances=norms.DISTANCES,
    cases=norms.CASES,
    hard_inputs=norms.HARD_INPUTS,
    signs=Signs(
        "layernorm ln layernormalization addlayernorm",
        parts=("quantize",),
        excludes=(TENSOR_CORES,),
        open="its source does not tell eps and where values are rounded",
    ),
    choices=norms.CHOICES,
)
