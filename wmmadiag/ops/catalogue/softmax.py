"""The softmax of rows."""

from __future__ import annotations

from wmmadiag.ops.model import Operation, Parameter, Role
from wmmadiag.ops.parts.settings import EXPONENTIALS, kept_in

OPERATION = Operation(
    "softmax",
    "Y = softmax(scale · X) along the last axis",
    {
        "x": Role("MN", ("M", "N"), spellings="x in input inp src scores a"),
        "y": Role("MN", ("M", "N"), output=True, spellings="y out output dst o probs result b"),
    },
    {"scale": Parameter("real", "1", "factor of X", spellings="scale"), **EXPONENTIALS},
    extents={"M": "m rows nrows numrows batch b", "N": "n cols columns ncols numcols c d dim"},
    cases=({"M": 64, "N": 64}, {"M": 64, "N": 256}),
    choices=(kept_in("exponentials", "exp_dtype", "f32", "f16"),),
)
