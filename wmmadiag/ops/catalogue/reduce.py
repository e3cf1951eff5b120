"""The sum, mean, largest or smallest of each row's elements, squares or magnitudes; norms by roots of them."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, judged, oracle_error
from wmmadiag.ops.parts.settings import by_settings, by_value
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES

_KINDS = ("sum", "mean", "max", "min")
_OF = ("each", "square", "magnitude")
_THEN = ("nothing", "root", "reciprocal-root")


def _elements(parameters: Values, inputs: Arrays) -> Doubles:
    """What is reduced: the elements, their squares, or their magnitudes."""
    x = inputs["x"].astype(np.float64)
    return x if parameters["of"] == "each" else x**2 if parameters["of"] == "square" else np.abs(x)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    found = np.asarray(getattr(np, str(parameters["reduction"]))(_elements(parameters, inputs), axis=-1))
    start = inputs.get("start")
    found = found if start is None else found + start.astype(np.float64)
    if parameters["then"] != "nothing":
        with np.errstate(divide="ignore", invalid="ignore"):
            found = found ** (0.5 if parameters["then"] == "root" else -0.5)
    return {"y": np.asarray(found)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of a sum of N terms in any order: (N + 8)·u of the sum of magnitudes; the largest one is exact.

    A square is off by u of itself. A root, or its reciprocal, is off by less than what it is of is relative to that,
    while that is below a half, and by 8u: a root and a quotient of 2 ulp each.
    """
    model = arithmetic(parameters, elements["x"])
    sizes = np.abs(_elements(parameters, inputs))
    count = sizes.shape[-1]
    total = sizes.mean(axis=-1) if parameters["reduction"] == "mean" else sizes.sum(axis=-1)
    squared = parameters["of"] == "square" and elements["x"].is_float
    exact = parameters["reduction"] in ("max", "min") or not elements["x"].is_float
    error = np.zeros_like(expected["y"]) if exact else ((count + 8) * model.unit + oracle_error(count)) * total
    error = error + squared * model.unit * total
    if "start" in inputs and elements["x"].is_float:
        error = error + model.unit * (count + 8) * np.abs(inputs["start"].astype(np.float64))
    if parameters["then"] != "nothing":
        before = expected["y"] ** (2.0 if parameters["then"] == "root" else -2.0)
        error = np.abs(expected["y"]) * (np.where(2.0 * error < before, error / before, np.inf) + 8.0 * model.unit)
    elif exact and not squared and "start" not in inputs and elements["y"].name == elements["x"].name:
        return {"y": Judgement(np.zeros_like(expected["y"]))}
    return judged({"y": np.asarray(error)}, expected, elements)


OPERATION = Operation(
    name="reduce",
    meaning="y[m] = the sum, mean, largest or smallest of X[m], or of its squares or magnitudes (+ start[m])",
    roles={
        "x": Role("MN", spellings="x in input inp src a idata data array arr"),
        "start": Role("M", required=False, spellings="start"),
        "y": Role("M", output=True, updates="start", spellings="y out output dst o odata result sum sums res b"),
    },
    parameters={
        "reduction": Parameter("word", "sum", "what is taken of a row", _KINDS, named={one: one for one in _KINDS}),
        "of": Parameter("word", "each", "what is reduced: elements, their squares, or their magnitudes", _OF),
        "then": Parameter("word", "nothing", "what is taken of the result", _THEN),
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
        "reduce reduction reducesum sumreduce rowsum blockreduce warpreduce reducekernel l2norm rownorm invnorm absmax",
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
        by_settings(
            "What is reduced?",
            {
                "the elements themselves": {"of": "each", "then": "nothing"},
                "their squares": {"of": "square", "then": "nothing"},
                "their magnitudes": {"of": "magnitude", "then": "nothing"},
                "their squares, and the root of it taken": {"of": "square", "then": "root"},
                "their squares, and the reciprocal of its root taken": {"of": "square", "then": "reciprocal-root"},
            },
        ),
    ),
)
