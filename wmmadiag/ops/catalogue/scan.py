"""The prefix sums of rows."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, judged, oracle_error
from wmmadiag.ops.parts.settings import by_flag
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _sums(parameters: Values, x: Doubles) -> Doubles:
    whole = np.cumsum(x, axis=-1)
    return whole - x if parameters["exclusive"] else whole


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return {"y": _sums(parameters, inputs["x"].astype(np.float64))}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of a sum of up to N terms in any order: (N + 8)·u of the sum of magnitudes; integers are exact."""
    model = arithmetic(parameters, elements["x"])
    if not elements["x"].is_float:
        return {"y": Judgement(np.zeros_like(expected["y"]))}
    count = inputs["x"].shape[-1]
    error = np.cumsum(np.abs(inputs["x"].astype(np.float64)), axis=-1)
    error = error * ((count + 8) * model.unit + oracle_error(count))
    return judged({"y": error}, expected, elements)


OPERATION = Operation(
    name="scan",
    meaning="Y[m, n] = the sum of X[m, i] for i ≤ n",
    roles={
        "x": Role("MN", spellings="x in input inp src a idata data g_idata"),
        "y": Role("MN", output=True, updates="x", spellings="y out output dst o odata result b"),
    },
    parameters={"exclusive": Parameter("flag", "0", "whether an element's own is left out")},
    oracle=_oracle,
    bound=_bound,
    symbols={"M": "1"},
    optional="M",
    extents={
        "M": "m rows nrows numrows batch batchsize",
        "N": "n size count length len cols columns ncols numcols numel",
    },
    cases=({"N": 256}, {"N": 512}),
    work="M*N",
    signs=Signs("scan prefixsum cumsum inclusivescan exclusivescan blockscan", excludes=(TENSOR_CORES, EXPONENTIAL)),
    choices=(
        by_flag("Does a sum have its own element?", "exclusive", "sums with their own element", "sums without it"),
    ),
)
