"""The softmax of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wmmadiag.ops.model import Arrays, Elements, Operation, Parameter, Role, Told, Values
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, oracle_error, output_rounding
from wmmadiag.ops.parts.scores import softmax_rows
from wmmadiag.ops.parts.settings import EXPONENTIALS, kept_in
from wmmadiag.ops.parts.softmax_bounds import row_sum_error, weight_errors
from wmmadiag.ops.parts.traits import EXPONENTIAL

if TYPE_CHECKING:
    from numpy.typing import NDArray


def softmax(x: NDArray[Any], *, scale: float = 1.0) -> Doubles:
    """Exponentials of scale·X over their sum, along the last axis, shaped as x."""
    return softmax_rows(x.astype(np.float64) * scale)[0]


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    return {"y": softmax(inputs["x"], scale=float(parameters["scale"]))}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Bound of softmax(scale·X) along the last axis.

    y = e/Σe with relative errors ε on each e: y's relative error is at most (ε + Σy·ε)/(1 - Σy·ε), plus the sum's
    rounding, the division (4u: approximate reciprocal and product), and the output's rounding. y ≤ 1 caps it.
    """
    model = arithmetic(parameters, elements["x"])
    x = inputs["x"]
    keys = x.shape[-1]
    scores = x.astype(np.float64).reshape(-1, keys) * float(parameters["scale"])
    weights, _ = softmax_rows(scores)
    found = weight_errors(scores, 0.0, model)
    shared = found.errors.sum(axis=-1, keepdims=True, dtype=np.float64)
    share = np.where(shared < 0.5, 1.0 / np.maximum(1.0 - shared, 0.5), np.inf)
    rest = row_sum_error(keys, model, found.rescale)[:, None] + 4.0 * model.unit + oracle_error(keys)
    with np.errstate(invalid="ignore"):
        error = (found.errors + weights * shared) * share + weights * rest
    # Underflow: a flushed exponential is at most 2⁻¹²⁶ of the largest, and so is what float32 loses here.
    error = np.minimum(error + 2.0**-120, 1.0)
    return {"y": Judgement(output_rounding(error.reshape(x.shape), expected["y"], elements["y"]))}


OPERATION = Operation(
    name="softmax",
    meaning="Y = softmax(scale · X) along the last axis",
    roles={
        "x": Role("MN", ("M", "N"), spellings="x in input inp src scores a"),
        "y": Role("MN", ("M", "N"), output=True, spellings="y out output dst o probs result b"),
    },
    parameters={"scale": Parameter("real", "1", "factor of X", spellings="scale"), **EXPONENTIALS},
    oracle=_oracle,
    bound=_bound,
    extents={"M": "m rows nrows numrows batch b", "N": "n cols columns ncols numcols c d dim"},
    cases=({"M": 64, "N": 64}, {"M": 64, "N": 256}),
    hard_inputs=SCORES,
    told=Told("softmax", needs=(EXPONENTIAL,)),
    choices=(kept_in("exponentials", "exp_dtype", "f32", "f16"),),
)
