"""The transpose of matrices."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Judgement, output_rounding
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    del parameters
    return {"y": np.swapaxes(inputs["x"].astype(np.float64), -1, -2)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """A copy is exact: nothing but the output's type rounds, where that is narrower than the input's."""
    del parameters, inputs
    found = output_rounding(np.zeros_like(expected["y"]), expected["y"], elements["y"])
    narrower = elements["y"].is_float and elements["y"].precision < elements["x"].precision
    return {"y": Judgement(found if narrower else np.zeros_like(found))}


OPERATION = Operation(
    name="transpose",
    meaning="Y[n, m] = X[m, n] of each matrix",
    roles={
        "x": Role("BMN", ("batch", "M", "N"), spellings="x in input inp src a idata source"),
        "y": Role("BNM", ("batch", "N", "M"), output=True, spellings="y out output dst o b odata dest t result at xt"),
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"batch": "1"},
    separate=("batch",),
    optional="batch",
    extents={
        "batch": "batch batches batchsize nbatch numbatches",
        "M": "m rows nrows numrows height h ny",
        "N": "n cols columns ncols numcols width w nx",
    },
    cases=({"M": 64, "N": 64}, {"M": 96, "N": 160}),
    signs=Signs(
        "transpose transposed transposekernel mattranspose", excludes=(TENSOR_CORES, EXPONENTIAL), within_any=True
    ),
)
