"""The convolution of sequences, each channel with a filter of its own: a correlation, as networks have it."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import FORMULAS, FUNCTIONS
from wmmadiag.ops.parts.epilogue_bounds import after
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, product_error
from wmmadiag.ops.parts.settings import by_layout, by_value
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _sums(parameters: Values, x: Doubles, weight: Doubles, bias: Doubles | None) -> Doubles:
    """Before the activation, (B, D, L): `left` elements before its own are where a filter begins; outside is 0."""
    taps, dilation, left = weight.shape[-1], int(parameters["dilation"]), int(parameters["left"])
    length, reach = x.shape[-1], dilation * (taps - 1)
    padded = np.pad(x, ((0, 0), (0, 0), (max(left, 0), max(reach, 0))))
    found = sum(weight[:, tap, None] * padded[..., tap * dilation : tap * dilation + length] for tap in range(taps))
    return np.asarray(found if bias is None else found + bias[:, None])


def _shaped(inputs: Arrays, change: np.ufunc | None = None) -> tuple[Doubles, Doubles, Doubles | None]:
    """X, (B, D, L), the filters, (D, W), and the bias, (D,)."""
    x, weight = inputs["x"].astype(np.float64), np.atleast_2d(inputs["weight"].astype(np.float64))
    bias = inputs["bias"].astype(np.float64) if "bias" in inputs else None
    x = x.reshape((1,) * (3 - x.ndim) + x.shape)
    if change is None:
        return x, weight, bias
    return change(x), change(weight), None if bias is None else change(bias)


def _activation(parameters: Values) -> str:
    return str(parameters["activation"]) if parameters["activated"] else "none"


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    y = FUNCTIONS[_activation(parameters)].apply(_sums(parameters, *_shaped(inputs)))
    return {"y": y.reshape(inputs["x"].shape)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(Σ weight·x + bias), element by element.

    A sum of W products and a bias, in any order: `product_error` of the same sum of magnitudes. What the activation
    adds is in `epilogue_bounds.after`.
    """
    model = arithmetic(parameters, elements["x"])
    size = _sums(parameters, *_shaped(inputs, np.abs))
    sums = product_error(_shaped(inputs)[1].shape[-1], model, 2)
    error = size * sums.relative + sums.absolute
    function = FUNCTIONS[_activation(parameters)]
    if not function.exact:
        plain = np.abs(_sums(parameters, *_shaped(inputs)))
        error = after(error, plain, 0.0 * plain, np.ones_like(plain), None, function, model)
    return judged({"y": error.reshape(expected["y"].shape)}, expected, elements)


OPERATION = Operation(
    name="conv1d",
    meaning="Y[b, d, l] = activation(Σ weight[d, w] · X[b, d, l + w · dilation − left] + bias[d]) over w",
    notes="Each channel has a filter of its own, and what lies outside of a sequence is 0. `left` is how many elements "
    "before its own a filter begins: (W − 1) · dilation for a causal one, which is what it is where nobody says "
    "otherwise. With `activated = false` the activation is left out.",
    roles={
        "x": Role(
            "BDL", spellings="x in input inp src u hiddenstates signal", asked='"BDL", or "BLD" with channels last'
        ),
        "weight": Role("DW", spellings="weight weights w filter filters kernel kern mask k h taps convweight"),
        "bias": Role("D", required=False, spellings="bias biases b convbias"),
        "y": Role("BDL", output=True, spellings="y out output dst o result", asked="likewise"),
    },
    parameters={
        "left": Parameter("count", "(W - 1)*dilation", "elements before its own at which a filter begins"),
        "dilation": Parameter("int", "1", "elements from one tap to the next", spellings="dilation dil"),
        "activation": Parameter("word", "none", "applied to the sum, bias included", (*FUNCTIONS,), formulas=FORMULAS),
        "activated": Parameter(
            "flag",
            "1",
            "whether it is applied",
            spellings="siluactivation usesilu silu swish withsilu applysilu activate act useact applyact activation",
            drafted=("0", "1"),
        ),
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"B": "1", "D": "1"},
    single={"D": "one channel"},
    separate=("B",),
    extents={
        "B": "b batch batchsize",
        "D": "d dim channels channel c nchannels hidden hiddensize dinner",
        "L": "l seqlen seqlength length len t size n inputsize width",
        "W": "w kwidth kernelsize ksize k filtersize masksize maskwidth kernelwidth dconv taps m",
    },
    # The second has no extent that another one has, and filters that overhang both ends.
    cases=({"B": 1, "D": 8, "L": 64, "W": 4}, {"B": 2, "D": 24, "L": 200, "W": 3}),
    untiled=("D", "W"),
    work="2*B*D*L*W",
    signs=Signs(
        "conv1d causalconv1d convolution1d depthwiseconv1d shortconv causalconv shortconvolution",
        agreeing="conv depthwise causal conv1d fwd",
        extras="silu swish relu gelu act activation bias fused",
        explains=("bias",),
        excludes=(TENSOR_CORES,),
        open="its source does not tell where a filter begins and how sequences lie in memory",
    ),
    choices=(
        by_value(
            "Where does a filter begin?",
            "meaning",
            "left",
            {
                "a causal filter": "(W - 1)*dilation",
                "a filter about its element": "W//2*dilation",
                "a filter about its element, of even ones one further": "(W - 1)//2*dilation",
                "a filter that begins at its element": "0",
            },
        ),
        by_layout(
            "How do sequences lie in memory?",
            {"sequences with channels first": {"x": "BDL", "y": "BDL"}, "channels last": {"x": "BLD", "y": "BLD"}},
        ),
        by_layout(
            "How do filters lie in memory?",
            {"filters of each channel as a row": {"weight": "DW"}, "a row for each tap": {"weight": "WD"}},
        ),
    ),
)
