"""The two-dimensional convolution of images with filters, as networks have it: a correlation, without mirroring."""

from __future__ import annotations

from typing import Any

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.epilogue import FUNCTIONS, bias_of, finished
from wmmadiag.ops.parts.epilogue_bounds import added, after, narrow
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, operand_error, product_error
from wmmadiag.ops.parts.settings import PRODUCTS, by_layout, by_value, epilogue, types_before_epilogue

PerAxis = tuple[int, int]


def _four(array: NDArray[Any]) -> NDArray[Any]:
    """With four axes, leading ones of extent 1."""
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def conv2d(
    x: NDArray[Any],
    w: NDArray[Any],
    *,
    stride: PerAxis = (1, 1),
    padding: PerAxis = (0, 0),
    dilation: PerAxis = (1, 1),
    groups: int = 1,
) -> Doubles:
    """y[n, k, p, q] = Σ x[n, c, p·stride + r·dilation − padding, …]·w[k, c, r, s] over c, r, s of the filter's group.

    Args:
        x: (N, C, H, W); what lies outside is 0. w: (K, C / groups, R, S), K a multiple of `groups`.
        stride, padding, dilation: along H and W.

    Returns:
        (N, K, P, Q).

    Raises:
        ValueError: the groups do not divide the channels or the filters.
    """
    images, filters = _four(x).astype(np.float64), _four(w).astype(np.float64)
    (count, channels, *_), (kernels, _, rows, columns) = images.shape, filters.shape
    if groups < 1 or channels % groups or kernels % groups:
        raise ValueError(f"{groups} groups do not divide {channels} channels and {kernels} filters")
    padded = np.pad(images, ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2))
    extents = [
        (padded.shape[2 + axis] - dilation[axis] * ((rows, columns)[axis] - 1) - 1) // stride[axis] + 1
        for axis in range(2)
    ]
    grouped = padded.reshape(count, groups, channels // groups, *padded.shape[2:])
    split = filters.reshape(groups, kernels // groups, channels // groups, rows, columns)
    result = np.zeros((count, groups, kernels // groups, *extents))
    for r, s in np.ndindex(rows, columns):
        top, left = r * dilation[0], s * dilation[1]
        window = grouped[
            ...,
            top : top + stride[0] * (extents[0] - 1) + 1 : stride[0],
            left : left + stride[1] * (extents[1] - 1) + 1 : stride[1],
        ]
        result += np.einsum("ngcpq,gkc->ngkpq", window, split[..., r, s], optimize=True)
    return result.reshape(count, kernels, *extents)


def _of(parameters: Values, x: NDArray[Any], w: NDArray[Any]) -> Doubles:
    def pair(name: str) -> PerAxis:
        return int(parameters[f"{name}_h"]), int(parameters[f"{name}_w"])

    groups = int(parameters["groups"])
    return conv2d(x, w, stride=pair("stride"), padding=pair("pad"), dilation=pair("dilation"), groups=groups)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    product = _of(parameters, inputs["x"], inputs["w"])
    return {"y": finished(product, bias_of(inputs), activation=str(parameters["activation"]))}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(conv(X, W) + bias), element by element: that of a GEMM of depth C/groups·R·S.

    The sum of the products costs `sum_error`·Σ|x||w|, the same convolution of magnitudes (tf32 operands add their
    truncation), a bias two units more; padding adds exact zeros. What the activation adds is in
    `epilogue_bounds.after`. Integer products and sums are exact.
    """
    model = arithmetic(parameters, elements["x"])
    x, w = inputs["x"], inputs["w"]
    depth = int(np.prod(_four(w).shape[1:]))
    bias = bias_of(inputs)
    size = finished(_of(parameters, magnitudes(x), magnitudes(w)), {k: magnitudes(v) for k, v in bias.items()})
    product = product_error(depth, model, 1 + len(bias))
    relative = operand_error(model) if model.exact else product.relative
    error = size * (relative + 2.0 * (len(bias) and not model.exact) * model.unit) + product.absolute
    function, kind = FUNCTIONS[str(parameters["activation"])], narrow(parameters)
    if kind is not None or not function.exact:
        result = finished(_of(parameters, x, w), bias)
        more = added(bias, 0.0, result.shape)
        error = after(error, np.abs(result), more, np.ones_like(result), kind, function, model)
    shaped = error.reshape(expected["y"].shape)
    return judged({"y": shaped}, expected, elements)


def _extent(size: str, filter_size: str, axis: str) -> str:
    return f"({size} + 2*pad_{axis} - dilation_{axis}*({filter_size} - 1) - 1)//stride_{axis} + 1"


_RESULT = ("N", "K", _extent("H", "R", "h"), _extent("W", "S", "w"))


def _along(name: str, kind: str, default: str, meaning: str, spellings: str) -> dict[str, Parameter]:
    """A parameter for each axis of an image; both are the symbol of that name where nobody says otherwise.

    Drafted cases give the axes different values, so that one in the other's place shows.
    """
    least = 1 if kind == "int" else 0
    return {
        f"{name}_{axis}": Parameter(
            kind,
            default,
            f"{meaning} along {axis.upper()}",
            spellings=_axis(spellings, axis),
            drafted=(str(least), str(least + more)),
        )
        for axis, more in (("h", 1), ("w", 2))
    }


def _axis(spellings: str, axis: str) -> str:
    return " ".join(f"{word}{axis} {axis}{word}" for word in spellings.split())


OPERATION = Operation(
    name="conv2d",
    meaning="Y = activation(conv(X, W) + bias)",
    notes="The letters are those of the logical axes; `layout` says how they lie in memory: for example X as "
    '`"NHWC"`, W as `"KRSC"` or `"RSCK"`, Y as `"NPQK"`. `stride`, `pad` and `dilation` may be symbols of a case, for '
    "both axes at once. W has C/groups channels.",
    roles={
        "x": Role("NCHW", spellings="x in input inp src image images activation act", asked='"NCHW" or "NHWC"'),
        "w": Role(
            "KCRS",
            ("K", "C//groups", "R", "S"),
            spellings="w weight weights filter filters f wt kernel kern flt mask masks",
            asked='"KCRS", "KRSC", "RSCK" or another order',
        ),
        "bias": Role("NKPQ", _RESULT, required=False, usual="K", spellings="bias biases b"),
        "y": Role("NKPQ", _RESULT, output=True, spellings="y out output dst o result", asked='"NKPQ" or "NPQK"'),
    },
    parameters={
        **_along("stride", "int", "stride", "pixels from one window to the next", "stride str"),
        **_along("pad", "count", "pad", "zeros before and after", "pad padding"),
        **_along("dilation", "int", "dilation", "pixels from one tap to the next", "dilation dil"),
        "groups": Parameter("int", "1", "channels and filters are split into so many", spellings="groups group"),
        **epilogue(),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"stride": "1", "pad": "0", "dilation": "1"},
    separate=("N",),
    extents={
        "N": "n batch batchsize b images nimages",
        "C": "c cin channel channels inchannels ic nc inc",
        "H": "h height ih inh hin inputh inputheight imgh",
        "W": "w width iw inw win inputw inputwidth imgw",
        "K": "k cout outchannels oc filters nfilters outc numfilters",
        "R": "r kh kernelh filterh fh kernelheight kernelsize ksize",
        "S": "s kw kernelw filterw fw kernelwidth",
        _RESULT[2]: "p oh outh hout outputh outheight outputheight ho",
        _RESULT[3]: "q ow outw wout outputw outwidth outputwidth wo",
    },
    alike={"K": "C"},
    apart={("R", "S"): 2},
    untiled=("H", "W"),
    # U and V are strides; P and Q beside them are the output's extents, or padding.
    dialects=({"u": "strideh", "v": "stridew", "p": "padh", "q": "padw"}, {"u": "strideh", "v": "stridew"}),
    derived={"stride": "stride str", "pad": "pad padding", "dilation": "dilation dil"},
    # The second has no extent that another one has, and windows that overhang each edge.
    cases=(
        {"N": 1, "C": 16, "H": 8, "W": 8, "K": 16, "R": 3, "S": 3, "pad": 1},
        {"N": 2, "C": 32, "H": 13, "W": 10, "K": 48, "R": 3, "S": 3, "stride": 2, "pad": 1, "dilation": 3},
    ),
    work=f"2*N*K*(C//groups)*R*S*({_RESULT[2]})*({_RESULT[3]})",
    signs=Signs(
        "conv conv2d convolution convolution2d implicitgemm implicit convfprop fprop igemmconv depthwise dwconv",
        parts=("gemm",),
        extras="bias relu relu6 gelu silu act activation epilogue fused",
        explains=("bias",),
        open="its source does not tell how images and filters lie in memory",
    ),
    choices=(
        by_layout(
            "How do images lie in memory?",
            {"images as NCHW": {"x": "NCHW", "y": "NKPQ"}, "images as NHWC": {"x": "NHWC", "y": "NPQK"}},
            "x",
        ),
        by_layout(
            "How do filters lie in memory?",
            {
                "filters as KCRS": {"w": "KCRS"},
                "filters as KRSC": {"w": "KRSC"},
                "filters as RSCK": {"w": "RSCK"},
                "filters as CRSK": {"w": "CRSK"},
            },
            "w",
        ),
        by_value(
            "Which channels does a filter sum over?",
            "meaning",
            "groups",
            {"filters over all channels": "1", "a filter of its own for each channel": "C"},
            "x",
        ),
        *types_before_epilogue("x"),
    ),
)
