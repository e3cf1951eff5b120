"""The sum, mean, largest or smallest element of each row."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ops.model import Arrays, Elements, Operation, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, oracle_error, output_rounding
from wmmadiag.ops.parts.settings import by_value
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES

_KINDS = ("sum", "mean", "max", "min")


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    found = getattr(np, str(parameters["reduction"]))(inputs["x"].astype(np.float64), axis=-1)
    start = inputs.get("start")
    return {"y": np.asarray(found if start is None else found + start.astype(np.float64))}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Bound of a sum of N terms in any order: (N + 8)·u of the sum of magnitudes; the largest one is exact."""
    model = arithmetic(parameters, elements["x"])
    sizes = np.abs(inputs["x"].astype(np.float64))
    count = sizes.shape[-1]
    total = sizes.mean(axis=-1) if parameters["reduction"] == "mean" else sizes.sum(axis=-1)
    exact = parameters["reduction"] in ("max", "min") or not elements["x"].is_float
    error = np.zeros_like(expected["y"]) if exact else ((count + 8) * model.unit + oracle_error(count)) * total
    if "start" in inputs and elements["x"].is_float:
        error = error + model.unit * (count + 8) * np.abs(inputs["start"].astype(np.float64))
    if exact and "start" not in inputs and elements["y"].name == elements["x"].name:
        return {"y": Judgement(np.zeros_like(expected["y"]))}
    return {"y": Judgement(output_rounding(np.asarray(error), expected["y"], elements["y"]))}


OPERATION = Operation(
    name="reduce",
    meaning="y[m] = the sum, mean, largest or smallest of X[m] (+ start[m])",
    roles={
        "x": Role("MN", ("M", "N"), spellings="x in input inp src a idata data array arr"),
        "start": Role("M", ("M",), required=False, spellings="start"),
        "y": Role(
            "M", ("M",), output=True, updates="start", spellings="y out output dst o odata result sum sums res b"
        ),
    },
    parameters={
        "reduction": Parameter("word", "sum", "what is taken of a row", _KINDS, named={one: one for one in _KINDS})
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"M": "1"},
    optional="M",
    extents={
        "M": "m rows nrows numrows batch batchsize b",
        "N": "n size count length len cols columns ncols numcols d dim numel numelements nelements",
    },
    cases=({"N": 512}, {"M": 4, "N": 2048}),
    signs=Signs(
        "reduce reduction reducesum sumreduce rowsum blockreduce warpreduce reducekernel",
        excludes=(TENSOR_CORES, EXPONENTIAL),
        open="its source does not tell what is taken of a row",
    ),
    choices=(
        by_value(
            "What is taken of a row?",
            "meaning",
            "reduction",
            {"the sum of a row": "sum", "its mean": "mean", "its largest element": "max", "its smallest": "min"},
        ),
    ),
)
