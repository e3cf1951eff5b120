"""LayerNorm: rows less their mean, over their deviation."""

from __future__ import annotations

from typing import Any

from wmmadiag.ops.model import Arrays, Distance, Elements, Judged, Operation, Outputs, Role, Values
from wmmadiag.ops.parts import norms
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles


def layernorm(
    rows: NDArray[Any], weight: NDArray[Any] | None = None, bias: NDArray[Any] | None = None, *, eps: float = 1e-5
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


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    rows = norms.summed(inputs)
    y, mean, rstd = layernorm(rows, inputs.get("weight"), inputs.get("bias"), eps=float(parameters["eps"]))
    y = float(parameters["gain"]) * y + float(parameters["shift"])
    return {**norms.quantised(parameters, y), "residual_out": rows, "mean": mean, "rstd": rstd}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of Y, the sum with the residual, means and reciprocal deviations: derived in `parts.norms`."""
    found = norms.statistics(parameters, inputs, elements, centred=True)
    rows = norms.rows_bounds(parameters, inputs, expected, elements, found)
    return rows | norms.statistics_bounds(expected, elements, found)


OPERATION = Operation(
    name="layernorm",
    meaning="Y = (S − mean(S))/√(var(S) + eps) · weight + bias along the last axis, S = X + residual + added",
    roles={
        **norms.ROLES,
        "bias": Role("N", required=False, spellings="bias beta b", unless_with=("bias", "beta betas"), instead="added"),
        **norms.OUTPUTS,
        "mean": Role("M", output=True, required=False, spellings="mean means mu"),
        "rstd": norms.RSTD,
        "scale": norms.SCALE,
    },
    parameters={
        "eps": norms.eps("1e-5", "added to the variance"),
        "variance": norms.VARIANCE,
        **norms.NUMBERS,
        "levels": norms.LEVELS,
        **norms.TYPES_OF_STEPS,
    },
    oracle=_oracle,
    bound=_bound,
    rows="M",
    extents={
        "M": "m rows nrows numrows tokens numtokens ntokens batch b batchsize t",
        "N": "n k cols columns ncols numcols hidden hiddensize hiddendim dim d c h normalizedshape",
    },
    distances=(
        Distance("x", "N", "xstride inputstride xrowstride stridex stridexrow ldx"),
        Distance("y", "N", "ystride outputstride yrowstride stridey strideyrow ldy"),
    ),
    # A row length that no vector width or block divides is the second.
    cases=({"M": 4, "N": 64}, {"M": 9, "N": 320}),
    hard_inputs=norms.HARD_INPUTS,
    signs=norms.signs("layernorm ln layernormalization addlayernorm"),
    choices=norms.CHOICES,
)
