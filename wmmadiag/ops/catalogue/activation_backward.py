"""The backward pass of an activation: dX = dY ∘ activation'(X), element by element."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.derivatives import DERIVATIVES
from wmmadiag.ops.parts.epilogue import FORMULAS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import U64, arithmetic, judged
from wmmadiag.ops.parts.settings import by_value
from wmmadiag.ops.parts.traits import TENSOR_CORES

_ACTIVATIONS = tuple(name for name in DERIVATIVES if name != "none")


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    derivative = DERIVATIVES[str(parameters["activation"])]
    return {"dx": inputs["dy"].astype(np.float64) * derivative.apply(inputs["x"].astype(np.float64))}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of dY ∘ f'(X), element by element.

    f' is off by `Derivative.error` units of 1 + |x|, in the working type, and the product by one unit of itself; of a
    ReLU both are exact. Then the output's rounding.
    """
    model = arithmetic(parameters, elements["dy"])
    derivative = DERIVATIVES[str(parameters["activation"])]
    if derivative.exact:
        return judged({"dx": np.zeros_like(expected["dx"])}, expected, elements)
    x, dy = np.abs(inputs["x"].astype(np.float64)), np.abs(inputs["dy"].astype(np.float64))
    error = derivative.error * model.unit * dy * (1.0 + x) + 2.0 * model.unit * np.abs(expected["dx"])
    return judged({"dx": error + 64 * U64 * dy * (1.0 + x)}, expected, elements)


OPERATION = Operation(
    name="activation_backward",
    meaning="dX = dY ∘ activation'(X), element by element",
    notes="`x` is what the activation was applied to, or for ReLU its result, which has the same signs.",
    roles={
        "dy": Role("MN", spellings="dy dout doutput gradout gradoutput grady dz outgrad outputgrad grad dinout"),
        "x": Role("MN", spellings="x in inp input inputs z pre preact preactivation y out output a act"),
        "dx": Role(
            "MN",
            output=True,
            updates="dy",
            spellings="dx dinp dinput gradinput gradinp gradx inputgrad din result",
        ),
    },
    parameters={
        "activation": Parameter(
            "word",
            "relu",
            "what is applied in the forward pass",
            _ACTIVATIONS,
            formulas={name: FORMULAS[name] for name in ("gelu_tanh", "gelu", "silu")},
            named={"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"},
        ),
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
        " ".join(
            f"{name}{word}"
            for name in ("activation", "act", "relu", "gelu", "silu", "swish")
            for word in ("backward", "bwd", "grad", "backwards")
        ),
        agreeing="bwd backward grad",
        excludes=(TENSOR_CORES,),
    ),
    choices=(
        by_value(
            "What was applied in the forward pass?",
            "meaning",
            "activation",
            {f"the derivative of {name}": name for name in _ACTIVATIONS},
        ),
    ),
)
