"""Rows as bytes: divided by a scale of the largest magnitude of each, and rounded."""

from __future__ import annotations

from wmmadiag.ops.model import (
    Alternative,
    Arrays,
    Choice,
    Elements,
    Judged,
    Operation,
    Outputs,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Judgement, arithmetic, judged
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    x = inputs["x"].astype(np.float64)
    scale = np.abs(x).max(axis=-1) / float(parameters["levels"])
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.where(scale[..., None] > 0, x / scale[..., None], 0.0)
        written = np.where(scale > 0, 1.0 / scale, 0.0) if parameters["reciprocal"] else scale
    return {"y": y, "scale": written}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Half a level, for the rounding to the nearest whole number, and 8u of the level: scale and quotient are rounded.

    The scale is a quotient: 4u of it.
    """
    del inputs
    unit = arithmetic(parameters, elements["x"]).unit + 8 * U64
    level = 0.5 + 8.0 * unit * np.abs(expected["y"])
    error = 4.0 * unit * np.abs(expected["scale"])
    return {"y": Judgement(level), **judged({"scale": error}, expected, elements)}


OPERATION = Operation(
    name="quantize",
    meaning="Y[m] = round(X[m] / scale[m]), scale[m] = max|X[m]| / levels",
    roles={
        "x": Role("MN", spellings="x in input inp src a"),
        "y": Role("MN", output=True, element="int", spellings="y out output dst o q result xq quantized"),
        "scale": Role("M", output=True, element="float", spellings="scale scales s absmax"),
    },
    parameters={
        "levels": Parameter("cap", "127", "the largest whole number", spellings="levels qmax"),
        "reciprocal": Parameter("flag", "0", "whether 1/scale is what `scale` gets"),
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"M": "1"},
    extents={
        "M": "m rows nrows numrows tokens numtokens batch batchsize",
        "N": "n cols columns ncols numcols hidden hiddensize hiddendim dim d k",
    },
    cases=({"M": 4, "N": 64}, {"M": 9, "N": 320}),
    signs=Signs(
        "quantize quant quantization dynamicquant quantizerows perrowquant pertokenquant int8quant quantizeint8",
        excludes=(TENSOR_CORES, EXPONENTIAL),
        within_any=True,
    ),
    choices=(
        Choice(
            "What does the scale hold?",
            "meaning",
            (
                Alternative("what bytes are multiplied by", {"reciprocal": "0"}, taken=("scale", "multiplied")),
                Alternative("what rows were multiplied by", {"reciprocal": "1"}, taken=("scale", "divided")),
            ),
            ("scale",),
        ),
    ),
)
