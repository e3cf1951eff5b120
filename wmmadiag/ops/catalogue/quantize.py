"""Rows as bytes: divided by a scale of the largest magnitude of each, and rounded."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ops.model import Arrays, Elements, Operation, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Doubles, Judgement, arithmetic, output_rounding
from wmmadiag.ops.parts.settings import by_value
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    x = inputs["x"].astype(np.float64)
    scale = np.abs(x).max(axis=-1) / float(parameters["levels"])
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.where(scale[..., None] > 0, x / scale[..., None], 0.0)
        written = np.where(scale > 0, 1.0 / scale, 0.0) if parameters["reciprocal"] else scale
    return {"y": y, "scale": written}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Half a level, for the rounding to the nearest whole number, and 8u of the level: scale and quotient are rounded.

    The scale is a quotient: 4u of it.
    """
    del inputs
    unit = arithmetic(parameters, elements["x"]).unit + 8 * U64
    level = 0.5 + 8.0 * unit * np.abs(expected["y"])
    judged = {"y": Judgement(level)}
    if "scale" in elements:
        error = 4.0 * unit * np.abs(expected["scale"])
        judged["scale"] = Judgement(output_rounding(error, expected["scale"], elements["scale"]))
    return judged


OPERATION = Operation(
    name="quantize",
    meaning="Y[m] = round(X[m] / scale[m]), scale[m] = max|X[m]| / levels",
    roles={
        "x": Role("MN", ("M", "N"), spellings="x in input inp src a"),
        "y": Role("MN", ("M", "N"), output=True, element="int", spellings="y out output dst o q result xq quantized"),
        "scale": Role("M", ("M",), output=True, element="float", spellings="scale scales s absmax"),
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
        by_value(
            "What does the scale hold?",
            "meaning",
            "reciprocal",
            {"what bytes are multiplied by": "0", "what rows were multiplied by": "1"},
            "scale",
        ),
    ),
)
