"""A function of each element: an activation with its bias, a sum of two arrays, a product, a gate and what it gates."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import FORMULAS, FUNCTIONS, spread
from wmmadiag.ops.parts.epilogue_bounds import after
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, Doubles, Judgement, arithmetic, judged
from wmmadiag.ops.parts.settings import STEPS, by_value, steps_kept_in
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _sum(inputs: Arrays, *, sizes: bool = False) -> Doubles:
    """X + bias; with `sizes` the sum of their magnitudes."""
    parts = {role: np.atleast_1d(inputs[role]).astype(np.float64) for role in ("x", "bias") if role in inputs}
    if sizes:
        parts = {role: np.abs(one) for role, one in parts.items()}
    return parts["x"] + spread(parts["bias"], parts["x"].shape) if "bias" in parts else parts["x"]


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    y = FUNCTIONS[str(parameters["activation"])].apply(float(parameters["alpha"]) * _sum(inputs))
    for role in ("scale", "factor"):
        if role in inputs:
            y = y * spread(inputs[role], y.shape)
    if "addend" in inputs:
        y = y + float(parameters["beta"]) * inputs["addend"].astype(np.float64)
    return {"y": y}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(alpha·(X + bias)) ⊙ factor + beta·addend, element by element.

    The argument is rounded twice in the working type, 2u of the sum of magnitudes; the activation adds what
    `epilogue_bounds.after` derives; the product and beta·addend a unit of their magnitudes each, and so does the sum.
    Where the inputs are narrow, so may every step be, as instructions on pairs of halves have it: u is then that of
    their type where `steps` says so. Then the output's rounding.
    """
    model = arithmetic(parameters, elements["x"])
    unit = model.unit
    narrow = elements["x"] if parameters["steps"] == "as-stored" and elements["x"].name in ("f16", "bf16") else None
    function = FUNCTIONS[str(parameters["activation"])]
    alpha = abs(float(parameters["alpha"]))
    added = set(inputs) & {"bias", "scale", "factor", "addend"}
    whole = "scale" not in inputs and not elements["x"].is_float and not elements["y"].is_float and function.exact
    if not added and function.exact and alpha == 1.0 and narrow is None:
        return judged({"y": np.zeros_like(expected["y"])}, expected, elements)
    if whole:
        return {"y": Judgement(np.zeros_like(expected["y"]))}
    sizes = alpha * _sum(inputs, sizes=True)
    argument = alpha * np.abs(_sum(inputs))
    ones = np.ones_like(sizes)
    error = after(2.0 * unit * sizes, argument, sizes, alpha * ones, narrow, function, model)
    result = np.abs(function.apply(float(parameters["alpha"]) * _sum(inputs)))
    step = unit if narrow is None else narrow.unit
    for role in ("scale", "factor"):
        if role in inputs:
            factor = np.abs(spread(inputs[role], result.shape))
            error, result = error * factor, result * factor
            error = error + step * (result + error)
    if "addend" in inputs:
        addend = abs(float(parameters["beta"])) * np.abs(inputs["addend"].astype(np.float64))
        error = error + step * (2.0 * addend + result + error)
    error = error + 8 * U64 * (result + error)
    return judged({"y": error}, expected, elements)


OPERATION = Operation(
    name="elementwise",
    meaning="Y = activation(alpha·(X + bias)) ⊙ scale ⊙ factor + beta·addend, element by element",
    notes="`factor` is what a gate is multiplied by, or the other array of a product; `addend` the other array of a "
    "sum; `scale` has one number for each row.",
    roles={
        "x": Role("MN", spellings="x q in input inp src a gate vec1 in1 input1 lhs left"),
        "factor": Role("MN", required=False, spellings="factor up mul multiplier"),
        "scale": Role("MN", required=False, usual="M", element="float", spellings="scale scales rowscale absmax"),
        "addend": Role("MN", required=False, spellings="addend b residual res other vec2 in2 input2 rhs right add"),
        "bias": Role("MN", required=False, usual="N", spellings="bias"),
        "y": Role("MN", output=True, updates="x", spellings="y out output dst o result c res1 outp z"),
    },
    parameters={
        "activation": Parameter(
            "word",
            "none",
            "what is computed of each sum",
            tuple(FUNCTIONS),
            formulas={**FORMULAS},
            named={"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"},
        ),
        "alpha": Parameter("real", "1", "factor of X", spellings="alpha scale a", drafted=("1", "2")),
        "beta": Parameter(
            "real", "1", "factor of the addend", spellings="beta", drafted=("1", "2"), factor_of="addend"
        ),
        **STEPS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"M": "1"},
    optional="M",
    extents={
        "M*N": "total totalelements numelements numel nelements elements",
        "M": "m rows nrows numrows tokens numtokens batch batchsize height",
        "N": "n size count length len cols columns ncols numcols d dim hidden hiddensize inter intermediatesize width",
    },
    cases=({"N": 320}, {"M": 3, "N": 4096}),
    signs=Signs(
        "elementwise relu gelu silu swish activation act vadd vecadd vectoradd saxpy axpy "
        "dequantize dequant dequantization",
        excludes=(TENSOR_CORES,),
        within_any=True,
    ),
    choices=(
        by_value(
            "What is computed of each element?",
            "meaning",
            "activation",
            {f"{name}: {one.meaning}": name for name, one in FUNCTIONS.items()},
        ),
        steps_kept_in("x"),
    ),
)
