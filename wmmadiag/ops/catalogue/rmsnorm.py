"""RMSNorm: rows over the root of their mean square."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wmmadiag.ops.catalogue.layernorm import OPERATION as LAYERNORM
from wmmadiag.ops.model import Arrays, Elements, Judged, Outputs, Parameter, Values
from wmmadiag.ops.parts import norms
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles


def rmsnorm(
    rows: NDArray[Any], weight: NDArray[Any] | None = None, *, eps: float = 1e-6, unit_offset: bool = False
) -> tuple[Doubles, Doubles]:
    """x/√(mean(x²) + eps)·weight along the last axis.

    Args:
        rows: (…, N); weight: (N,).
        unit_offset: the factor is 1 + weight.

    Returns:
        The result, shaped as the rows; reciprocals of the roots without the last axis.
    """
    values = rows.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        rstd = 1.0 / np.sqrt((values**2).mean(axis=-1, keepdims=True) + eps)
        result = values * rstd
    if weight is not None:
        result = result * (weight.astype(np.float64) + (1.0 if unit_offset else 0.0))
    return result, rstd[..., 0]


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    rows = norms.summed(inputs)
    offset = bool(parameters["unit_offset"])
    y, rstd = rmsnorm(rows, inputs.get("weight"), eps=float(parameters["eps"]), unit_offset=offset)
    y = float(parameters["gain"]) * y
    return {**norms.quantised(parameters, y), "residual_out": rows, "rstd": rstd}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of Y, the sum with the residual and the reciprocal roots: derived in `parts.norms`."""
    found = norms.statistics(parameters, inputs, elements, centred=False)
    rows = norms.rows_bounds(parameters, inputs, expected, elements, found)
    return rows | norms.statistics_bounds(expected, elements, found)


OPERATION = replace(
    LAYERNORM,
    name="rmsnorm",
    meaning="Y = S/√(mean(S²) + eps) · weight along the last axis, S = X + residual + added",
    roles={**norms.ROLES, **norms.OUTPUTS, "rstd": norms.RSTD, "scale": norms.SCALE},
    parameters={
        "eps": norms.eps("1e-6", "added to the mean square"),
        "unit_offset": Parameter("flag", "0", "the factor is 1 + weight, as Gemma has it"),
        "gain": norms.NUMBERS["gain"],
        "levels": norms.LEVELS,
        **norms.TYPES_OF_STEPS,
    },
    oracle=_oracle,
    bound=_bound,
    signs=norms.signs("rmsnorm rms rootmeansquare addrmsnorm fusedaddrmsnorm"),
    choices=(norms.column_factor("weight", "the weight itself", "1 + the weight, as Gemma has it"), *norms.CHOICES),
)
