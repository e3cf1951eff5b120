"""The backward pass of the softmax of rows, and of its logarithm, by what the forward pass gave."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import WEIGHTS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, product_error
from wmmadiag.ops.parts.settings import by_settings, by_value
from wmmadiag.ops.parts.traits import TENSOR_CORES

_ROWS = ("batch", "M", "N")


def _counted(parameters: Values, shape: tuple[int, ...]) -> Doubles:
    """1 for what counts of a row, 0 for what a causal mask leaves out."""
    if not parameters["causal"]:
        return np.ones(shape[-2:] if len(shape) > 1 else shape)
    return np.tril(np.ones(shape[-2:]))


def _gradient(parameters: Values, y: Doubles, dy: Doubles) -> Doubles:
    """That of the rows."""
    counted = _counted(parameters, y.shape)
    if parameters["of"] == "logarithm":
        return np.asarray((dy - np.exp(y) * (dy * counted).sum(axis=-1, keepdims=True)) * counted)
    return np.asarray(y * (dy - (y * dy * counted).sum(axis=-1, keepdims=True)) * counted)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    y, dy = inputs["y"].astype(np.float64), inputs["dy"].astype(np.float64)
    return {"dx": float(parameters["scale"]) * _gradient(parameters, y, dy)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of scale·y·(dy − Σ y·dy). With u the unit of scalar work:

    The sum of N products: `product_error` of Σ|y||dy|, in any order. Then four units of |y|·(|dy| + Σ|y||dy|) for the
    difference, the products with y, of one term or of both, and the scale. Of the logarithm, dy − exp(y)·Σ dy: a sum of
    N terms likewise; the exponential is off by `exp_unit` and 2u·|y| for its argument; four units of both terms.
    """
    model = arithmetic(parameters, elements["y"])
    y, dy = inputs["y"].astype(np.float64), np.abs(inputs["dy"].astype(np.float64))
    sums = product_error(y.shape[-1], model)
    counted = _counted(parameters, y.shape)
    if parameters["of"] == "logarithm":
        total = (dy * counted).sum(axis=-1, keepdims=True)
        weights, off = np.exp(y), model.exp_unit + 2.0 * model.unit * np.abs(y)
        error = weights * (total * (sums.relative + off * (1.0 + sums.relative)) + sums.absolute)
        error = error + 4.0 * model.unit * (dy + weights * (1.0 + off) * total)
    else:
        total = (np.abs(y) * dy * counted).sum(axis=-1, keepdims=True)
        error = np.abs(y) * (total * sums.relative + sums.absolute + 4.0 * model.unit * (dy + total))
    error = np.abs(float(parameters["scale"])) * error * counted
    return judged({"dx": error}, expected, elements)


OPERATION = Operation(
    name="softmax_backward",
    meaning="dX = scale · Y ∘ (dY − Σ Y ∘ dY), the sum along the last axis, Y being what the softmax gave",
    notes='With `of = "logarithm"` Y is the logarithm of a softmax, and dX = scale · (dY − exp(Y) · Σ dY). With a '
    "causal mask what lies right of the diagonal counts for nothing, and its gradient is 0.",
    roles={
        "dy": Role(
            "BMN", _ROWS, spellings="dy dout doutput gradout gradoutput grady dz outgrad outputgrad grad datt dp dprobs"
        ),
        "y": Role("BMN", _ROWS, drawn=WEIGHTS, spellings="y out output outputs probs p softmaxout softmax att weights"),
        "dx": Role(
            "BMN",
            _ROWS,
            output=True,
            updates="dy",
            spellings="dx dinp dinput gradinput gradinp gradx inputgrad din dpreatt ds dscores dlogits",
        ),
    },
    parameters={
        "scale": Parameter("real", "1", "factor of the result", spellings="scale"),
        "causal": Parameter("flag", "causal", "whether column j > row i is masked", spellings="causal iscausal"),
        "of": Parameter("word", "softmax", "what Y is", ("softmax", "logarithm")),
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"batch": "1", "causal": "0"},
    separate=("batch",),
    optional="batch",
    rows="M",
    extents={
        "M": "m rows nrows numrows batch batchsize b outersize t",
        "N": "n cols columns ncols numcols c d dim dimsize len length classes numclasses",
    },
    cases=({"M": 64, "N": 64}, {"M": 64, "N": 256}),
    work="4*M*N",
    signs=Signs(
        " ".join(f"{name}{word}" for name in ("softmax", "logsoftmax") for word in ("backward", "bwd", "grad")),
        parts=("softmax",),
        agreeing="bwd backward backwards grad",
        excludes=(TENSOR_CORES,),
    ),
    choices=(
        by_value(
            "What did the forward pass give?",
            "meaning",
            "of",
            {"the output of a softmax": "softmax", "the logarithm of a softmax": "logarithm"},
        ),
        by_settings(
            "Which elements of a row count?", {"no causal mask": {"causal": "0"}, "a causal mask": {"causal": "1"}}
        ),
    ),
)
