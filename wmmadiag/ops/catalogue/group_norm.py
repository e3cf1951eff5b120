"""GroupNorm: the channels of an image in groups, each group less its mean, over its deviation.

Wu and He, Group Normalization, 2018 (arXiv 1803.08494), equations 1 to 3.
"""

from __future__ import annotations

from typing import Any

from wmmadiag.ops.catalogue.layernorm import layernorm
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import norms
from wmmadiag.ops.parts.epilogue import FORMULAS, FUNCTIONS
from wmmadiag.ops.parts.epilogue_bounds import after
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import by_layout
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _rows(inputs: Arrays) -> dict[str, NDArray[Any]]:
    """Groups as rows, (N, G, D·H·W); weight and bias of each of their elements, (G, D·H·W)."""
    x = inputs["x"]
    rows: dict[str, NDArray[Any]] = {"x": x.reshape(*x.shape[:2], -1)}
    for role in {"weight", "bias"} & set(inputs):
        rows[role] = np.repeat(inputs[role], rows["x"].shape[-1] // inputs[role].shape[-1], axis=-1)
    return rows


def _activation(parameters: Values) -> str:
    return str(parameters["activation"]) if parameters["activated"] else "none"


def _normalised(parameters: Values, inputs: Arrays) -> tuple[Doubles, Doubles, Doubles]:
    """The result before its activation, (N, G, D·H·W); means and reciprocal deviations, (N, G)."""
    rows = _rows(inputs)
    return layernorm(rows["x"], rows.get("weight"), rows.get("bias"), eps=float(parameters["eps"]))


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    y, mean, rstd = _normalised(parameters, inputs)
    y = FUNCTIONS[_activation(parameters)].apply(y).reshape(inputs["x"].shape)
    return {"y": y, "mean": mean, "rstd": rstd}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of Y, means and reciprocal deviations: those of `parts.norms`, each group being a row.

    What the activation adds is in `epilogue_bounds.after`.
    """
    rows = _rows(inputs)
    found = norms.statistics(parameters, rows, elements, centred=True)
    error = norms.normalised_error(parameters, rows, found, arithmetic(parameters, elements["x"]).unit)
    function = FUNCTIONS[_activation(parameters)]
    if not function.exact:
        plain = np.abs(_normalised(parameters, inputs)[0])
        model = arithmetic(parameters, elements["x"])
        error = after(error, plain, 0.0 * plain, np.ones_like(plain), None, function, model)
    of_y = judged({"y": error.reshape(expected["y"].shape)}, expected, elements)
    return of_y | norms.statistics_bounds(expected, elements, found)


# The variance is kept from falling below 0 by the formula that a ReLU has, too.
_FORMULAS = {**FORMULAS, "relu": r"\brelu\w*\s*\("}
OPERATION = Operation(
    name="group_norm",
    meaning="Y = activation((X − mean)/√(var + eps) · weight + bias), over the D channels and all pixels of a group",
    notes='X has the channels of each group along D, D·G of them: `"NGDHW"` is N×C×H×W in memory, `"NHWGD"` has the '
    "channels last. With `activated = false` the activation is left out.",
    roles={
        "x": Role("NGDHW", spellings="x in input inp src", asked='"NGDHW", or "NHWGD" with channels last'),
        "weight": Role("GD", required=False, spellings="weight weights w gamma scale g"),
        "bias": Role("GD", required=False, spellings="bias beta b shift"),
        "y": Role("NGDHW", output=True, updates="x", spellings="y out output dst o result", asked="likewise"),
        "mean": Role("NG", output=True, required=False, spellings="mean means mu"),
        "rstd": Role("NG", output=True, required=False, spellings=norms.RSTD.spellings),
    },
    parameters={
        "eps": norms.eps("1e-5", "added to the variance"),
        "activation": Parameter("word", "none", "applied to the result", (*FUNCTIONS,), formulas=_FORMULAS),
        "activated": Parameter(
            "flag",
            "1",
            "whether it is applied",
            spellings="withsilu withswish withact silu swish act activate fusesilu fuseact applyact useact",
            drafted=("0", "1"),
        ),
        "variance": norms.VARIANCE,
        "normalized_dtype": norms.TYPES_OF_STEPS["normalized_dtype"],
    },
    oracle=_oracle,
    bound=_bound,
    separate=("N", "G"),
    extents={
        "N": "n batch batchsize b images nimages numimages",
        "G": "g ng group groups numgroups ngroups",
        "G*D": "c channel channels numchannels nchannels",
        "D": "d cpg dpg cpergroup channelspergroup channelspg groupsize groupchannels",
        "H*W": "hw hxw spatial spatialsize imagesize pixels numpixels s l",
        "H": "h height",
        "W": "w width",
    },
    # The second has no extent that another one has, and groups of more elements than a block has threads.
    cases=({"N": 1, "G": 2, "D": 4, "H": 4, "W": 4}, {"N": 2, "G": 3, "D": 8, "H": 13, "W": 10}),
    untiled=("D", "H", "W"),
    work="8*N*G*D*H*W",
    signs=Signs(
        "groupnorm gn groupnormalization",
        parts=("layernorm",),
        extras="silu swish relu gelu act activation fused",
        excludes=(TENSOR_CORES,),
        open="its source does not tell how images lie in memory",
    ),
    choices=(
        by_layout(
            "How do images lie in memory?",
            {
                "images with channels first": {"x": "NGDHW", "y": "NGDHW"},
                "images with channels last": {"x": "NHWGD", "y": "NHWGD"},
            },
            "x",
        ),
        norms.NORMALISED_KEPT,
    ),
)
