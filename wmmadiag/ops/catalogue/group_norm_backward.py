"""The backward pass of GroupNorm, with an activation behind it: gradients of images, of weight and of bias."""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.ops.catalogue.group_norm import OPERATION as GROUP_NORM
from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import RECIPROCALS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.norms import RSTD
from wmmadiag.ops.parts.rounding import U64, Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import by_layout
from wmmadiag.ops.parts.traits import TENSOR_CORES

# Of a derivative that is computed: an exponential, a quotient, and products with 1 + v·(1 − s), below 3 in magnitude.
_EVALUATION = 32.0


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the gradients are made of, (N, G, D, H·W) each; errors are absolute."""

    normed: Doubles  # (x − mean)·rstd
    of_normed: Doubles
    slope: Doubles  # the derivative of the activation times dY
    of_slope: Doubles
    weight: Doubles  # (1, G, D, 1)
    rstd: Doubles  # (N, G, 1, 1)


def _terms(parameters: Values, inputs: Arrays, unit: float) -> _Terms:
    def wide(role: str, axes: int) -> Doubles:
        array = inputs[role].astype(np.float64)
        return array.reshape((*array.shape[:3], -1)) if axes else array

    x, dy = wide("x", 1), wide("dy", 1)
    rstd, mean = wide("rstd", 0)[..., None, None], wide("mean", 0)[..., None, None]
    weight = wide("weight", 0)[None, ..., None] if "weight" in inputs else np.ones((1, 1, 1, 1))
    bias = wide("bias", 0)[None, ..., None] if "bias" in inputs else np.zeros((1, 1, 1, 1))
    normed = (x - mean) * rstd
    of_normed = 3.0 * unit * (np.abs(x) + np.abs(mean)) * np.abs(rstd)
    slope, of_slope = dy, np.zeros_like(dy)
    if parameters["activation"] == "silu":
        value = normed * weight + bias
        with np.errstate(over="ignore"):
            sigmoid = 1.0 / (1.0 + np.exp(-value))
        slope = dy * sigmoid * (1.0 + value * (1.0 - sigmoid))
        off = of_normed * np.abs(weight) + 3.0 * unit * (np.abs(normed * weight) + np.abs(bias))
        of_slope = np.abs(dy) * (0.5 * off + _EVALUATION * unit * (1.0 + np.abs(value)))
    return _Terms(normed, of_normed, slope, of_slope, weight, rstd)


def _sums(terms: _Terms) -> tuple[Doubles, Doubles]:
    """Of each channel of each image: Σ slope·x̂ and Σ slope, (N, G, D)."""
    return (terms.slope * terms.normed).sum(axis=-1), terms.slope.sum(axis=-1)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    terms = _terms(parameters, inputs, 0.0)
    each = terms.slope * terms.weight
    whole, along = each.mean(axis=(2, 3), keepdims=True), (each * terms.normed).mean(axis=(2, 3), keepdims=True)
    dx = terms.rstd * (each - whole - terms.normed * along)
    of_weight, of_bias = _sums(terms)
    return {
        "dx": dx.reshape(inputs["x"].shape),
        "parts": np.stack([of_weight, of_bias], axis=1),
        "dweight": of_weight.sum(axis=0),
        "dbias": of_bias.sum(axis=0),
    }


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of the gradients, to first order in the unit u of the working type.

    x̂ is off by 3u·(|x| + |mean|)·rstd. With an activation its argument is off by that times |weight| and by 3u of its
    terms; the second derivative of SiLU is below 1/2, and evaluating the first costs `_EVALUATION`·u·(1 + |v|). Each
    term of dX and of the sums inherits these errors; products and differences cost a unit each, and a sum of n terms
    (n + 4)·u of its magnitudes in any order.
    """
    unit = arithmetic(parameters, elements["x"]).unit + 2 * U64
    terms = _terms(parameters, inputs, unit)
    normed, weight, rstd = (np.abs(one) for one in (terms.normed, terms.weight, terms.rstd))
    slope = np.abs(terms.slope)
    each, off = slope * weight, terms.of_slope * weight + 2.0 * unit * slope * weight
    axes, count = (2, 3), slope.shape[2] * slope.shape[3]

    def mean(value: Doubles) -> Doubles:
        return np.asarray(value.mean(axis=axes, keepdims=True))

    whole, along = mean(each), mean(each * normed)
    of_whole = mean(off) + (count + 4.0) * unit * whole
    of_along = mean(off * normed + each * terms.of_normed) + (count + 6.0) * unit * along
    dx = rstd * (off + of_whole + terms.of_normed * along + normed * of_along)
    dx = dx + 6.0 * unit * rstd * (each + whole + normed * along)
    pixels, images = slope.shape[3], slope.shape[0]
    of_weight = (terms.of_slope * normed + slope * terms.of_normed).sum(axis=-1)
    of_weight = of_weight + (pixels + 6.0) * unit * (slope * normed).sum(axis=-1)
    of_bias = terms.of_slope.sum(axis=-1) + (pixels + 4.0) * unit * slope.sum(axis=-1)
    more = (images + 4.0) * unit
    errors = {
        "dx": dx.reshape(expected["dx"].shape),
        "parts": np.stack([of_weight, of_bias], axis=1),
        "dweight": of_weight.sum(axis=0) + more * (slope * normed).sum(axis=(0, 3)),
        "dbias": of_bias.sum(axis=0) + more * slope.sum(axis=(0, 3)),
    }
    return judged(errors, expected, elements)


OPERATION = Operation(
    name="group_norm_backward",
    meaning="dX = rstd · (g − mean(g) − x̂ · mean(g ∘ x̂)), g = dY ∘ act′ ∘ weight, with x̂ = (X − mean)·rstd; "
    "dweight = Σ dY ∘ act′ ∘ x̂, dbias = Σ dY ∘ act′",
    notes="Means are over the D channels and all pixels of a group. `parts` has the sums of each image alone, those of "
    "the weight first; `dweight` and `dbias` those over all images. Images lie as those of `group_norm`.",
    roles={
        "dy": Role("NGDHW", spellings="dy dout doutput gradout gradoutput grady dz grad"),
        "x": Role("NGDHW", spellings="x in input inp src"),
        "weight": Role("GD", required=False, spellings="weight weights w gamma scale"),
        "bias": Role("GD", required=False, spellings="bias beta b shift"),
        "mean": Role("NG", spellings="mean means mu savedmean savemean"),
        "rstd": Role("NG", drawn=RECIPROCALS, spellings=f"{RSTD.spellings} savedrstd saverstd invstddev"),
        "dx": Role("NGDHW", output=True, required=False, spellings="dx dinput gradinput gradx gradin dinp"),
        "parts": Role(
            "NPGD",
            ("N", "2", "G", "D"),
            output=True,
            required=False,
            spellings="dgb dgammabeta dweightbias dwb dparams partialgrads",
        ),
        "dweight": Role("GD", output=True, required=False, spellings="dweight dgamma gradweight gradgamma dw"),
        "dbias": Role("GD", output=True, required=False, spellings="dbias dbeta gradbias gradbeta db"),
    },
    parameters={
        "activation": Parameter(
            "word",
            "none",
            "applied to the result of the forward pass",
            ("none", "silu"),
            formulas={"silu": GROUP_NORM.parameters["activation"].formulas["silu"]},
        )
    },
    oracle=_oracle,
    bound=_bound,
    separate=("N", "G"),
    extents=GROUP_NORM.extents,
    cases=GROUP_NORM.cases,
    untiled=GROUP_NORM.untiled,
    work="20*N*G*D*H*W",
    signs=Signs(
        " ".join(
            f"{word}{ending}"
            for word in ("groupnorm", "gn", "groupnormalization", "norm")
            for ending in ("backward", "bwd", "grad")
        ),
        parts=("group_norm", "layernorm_backward", "layernorm"),
        agreeing="bwd backward grad norm",
        extras="silu swish activation act",
        excludes=(TENSOR_CORES,),
        open="its source does not tell how images lie in memory",
    ),
    choices=(
        by_layout(
            "How do images lie in memory?",
            {
                "images with channels first": dict.fromkeys(("x", "dy", "dx"), "NGDHW"),
                "images with channels last": dict.fromkeys(("x", "dy", "dx"), "NHWGD"),
            },
            "x",
        ),
    ),
)
