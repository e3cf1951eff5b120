"""The gated linear units without their products: a row's gate through an activation, times the row's other half.

Shazeer, GLU Variants Improve Transformer, 2020 (arXiv 2002.05202), section 2.
"""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import GATES
from wmmadiag.ops.parts.epilogue_bounds import after
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import WHICH_GATE, by_flag, by_value
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _halves(parameters: Values, x: Arrays) -> tuple[Doubles, Doubles]:
    """The gate, and what it gates, (…, N) each."""
    rows = x["x"].astype(np.float64)
    count = rows.shape[-1] // 2
    if parameters["halves"] == "alternate":
        first, second = rows[..., 0::2], rows[..., 1::2]
    else:
        first, second = rows[..., :count], rows[..., count:]
    return (second, first) if parameters["gate_last"] else (first, second)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    gate, up = _halves(parameters, inputs)
    return {"y": GATES[str(parameters["gating"])].apply(gate) * up}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(gate) ⊙ up, element by element.

    The gate is exact; the activation adds what `epilogue_bounds.after` derives, times |up|, and the product one unit.
    An activation that is rounded to the rows' narrow type before the product, as `rounded` says, costs that type's
    unit of the result more. Then the output's rounding.
    """
    model = arithmetic(parameters, elements["x"])
    gate, up = _halves(parameters, inputs)
    function = GATES[str(parameters["gating"])]
    nothing, size = np.zeros_like(gate), np.abs(up)
    error = after(nothing, np.abs(gate), nothing, np.ones_like(gate), None, function, model)
    if parameters["rounded"] and elements["x"].name in ("f16", "bf16"):
        kind = elements["x"]
        error = error + kind.unit * (np.abs(function.apply(gate)) + error) + kind.half_subnormal
    error = error * size
    error = error + (model.unit + 8 * U64) * (np.abs(expected["y"]) + error)
    return judged({"y": error}, expected, elements)


_NAMED = {
    **dict.fromkeys(("swiglu", "silu", "swish"), "swiglu"),
    **dict.fromkeys(("geglu", "gelu"), "geglu"),
    **dict.fromkeys(("reglu", "relu"), "reglu"),
    "sigmoid": "glu",
}

OPERATION = Operation(
    name="glu",
    meaning="Y = activation(X[:, :N]) ⊙ X[:, N:]",
    roles={
        "x": Role("MW", ("M", "2*N"), spellings="x in input inp src gateup xy hidden"),
        "y": Role("MN", output=True, spellings="y out output dst o result"),
    },
    parameters={
        "gating": Parameter("word", "swiglu", "activation of the gate", tuple(GATES), named=_NAMED),
        "halves": Parameter("word", "behind", "where the halves of a row lie", ("behind", "alternate")),
        "gate_last": Parameter("flag", "0", "whether the second half is the gate"),
        "rounded": Parameter("flag", "0", "whether the activation is rounded to the rows' type before the product"),
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M*N": "total totalelements numelements numel nelements n size",
        "M": "m rows nrows numrows tokens numtokens batch batchsize t",
        "N": "cols columns ncols numcols d dim hidden hiddensize inter intermediate intermediatesize h",
    },
    cases=({"M": 4, "N": 64}, {"M": 9, "N": 320}),
    signs=Signs(
        "siluandmul geluandmul actandmul swiglu geglu reglu glu",
        extras="gelu relu silu",
        explains=("x",),
        excludes=(TENSOR_CORES,),
        within_any=True,
        open="its source does not tell which half of a row is the gate",
    ),
    choices=(
        WHICH_GATE,
        by_value(
            "Where do the halves of a row lie?",
            "storage",
            "halves",
            {"halves behind one another": "behind", "halves that alternate": "alternate"},
        ),
        by_flag("Which half is the gate?", "gate_last", "the first half is the gate", "the last half is"),
        by_value(
            "In which type is the activation kept?",
            "arithmetic",
            "rounded",
            {"activations in the working type": "0", "activations rounded as the rows are stored": "1"},
            "x",
            types=("f16", "bf16"),
        ),
    ),
)
