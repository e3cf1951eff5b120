"""The backward pass of a linear layer and its activation: gradients of X, W, the bias and the sum, each as far as a
kernel has it.
"""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import settings
from wmmadiag.ops.parts.derivatives import DERIVATIVES
from wmmadiag.ops.parts.epilogue import FORMULAS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.traits import TENSOR_CORES


def _of_sum(parameters: Values, inputs: Arrays) -> Doubles:
    """The gradient of the sum before the activation, (M, N)."""
    dy = inputs["dy"].astype(np.float64)
    if "y" not in inputs:
        return dy
    return dy * DERIVATIVES[str(parameters["activation"])].apply(inputs["y"].astype(np.float64))


def _gradients(dz: Doubles, inputs: Arrays, factor: float) -> Outputs:
    """Those that the inputs tell."""
    found = {"dz": dz, "db": factor * dz.sum(axis=0)}
    if "w" in inputs:
        found["dx"] = factor * (dz @ inputs["w"].astype(np.float64))
    if "x" in inputs:
        found["dw"] = factor * (dz.T @ inputs["x"].astype(np.float64))
    return found


def _held(found: Outputs, inputs: Arrays, beta: float) -> Outputs:
    """With `beta` times what outputs held before: those of W and the bias both, or neither of them is told."""
    for role, other in (("dw", "db"), ("db", "dw")):
        if f"{other}_held" in inputs and f"{role}_held" not in inputs:
            found.pop(role, None)
    if beta:
        for role in ("dx", "dw", "db"):
            if f"{role}_held" in inputs and role in found:
                found[role] = found[role] + beta * inputs[f"{role}_held"].astype(np.float64)
    return found


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    found = _gradients(_of_sum(parameters, inputs), inputs, float(parameters["alpha"]))
    return _held(found, inputs, float(parameters["beta"]))


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of the gradients.

    That of the sum, dZ = dY ∘ f'(y), is off by `Derivative.error` units of |dY|·(1 + |y|) and one of itself; of a
    ReLU it is exact. It is rounded to the operands' type before it is multiplied, unless it is dY itself. Each product
    costs `sum_error` of N or M products, and the error of dZ times the other operand; a sum of rows M + 8 units, in
    whichever order; alpha, beta and what outputs held four units of all magnitudes.
    """
    model = arithmetic(parameters, elements["dy"])
    alpha, beta = abs(float(parameters.get("alpha", 1.0))), abs(float(parameters.get("beta", 0.0)))
    dy, dz = np.abs(inputs["dy"].astype(np.float64)), np.abs(_of_sum(parameters, inputs))
    of_dz, multiplied = np.zeros_like(dz), np.zeros_like(dz)
    if "y" in inputs:
        derivative = DERIVATIVES[str(parameters["activation"])]
        if not derivative.exact:
            of_dz = derivative.error * model.unit * dy * (1.0 + np.abs(inputs["y"].astype(np.float64)))
            of_dz = of_dz + 2.0 * model.unit * dz
            narrow, least = (0.0, 0.0) if model.p_type is None else (model.p_type.unit, model.p_type.half_subnormal)
            multiplied = of_dz + narrow * (dz + of_dz) + least
    rows = dz.shape[0]
    errors: Outputs = {"dz": of_dz}
    sizes = _gradients(
        dz + multiplied, {role: magnitudes(inputs[role]) for role in ("x", "w") if role in inputs}, alpha
    )
    moved = _gradients(multiplied, {role: magnitudes(inputs[role]) for role in ("x", "w") if role in inputs}, alpha)
    total = _held(dict(sizes), {role: magnitudes(one) for role, one in inputs.items()}, beta)
    for role, depth in (("dx", dz.shape[1]), ("dw", rows), ("db", rows)):
        if role in total:
            sums = product_error(depth, model, depth // 16)
            error = moved[role] + sizes[role] * sums.relative + alpha * sums.absolute
            errors[role] = error + 4.0 * model.unit * total[role]
    return judged(errors, expected, elements)


OPERATION = Operation(
    name="linear_backward",
    meaning="dZ = dY ∘ activation'(y), dX = alpha · dZ·W, dW = alpha · dZᵀ·X, db = alpha · Σ dZ over rows, each + beta "
    "times what it held",
    notes="Gradients of activation(X·Wᵀ + b), W being N×K as nn.Linear has it. `y` is what the forward pass kept: the "
    "sum before the activation, or for ReLU its result, which has the same signs. Without it dZ is dY. An output of "
    "which nothing is told without an input that is missing is refused.",
    roles={
        "dy": Role("MN", spellings="dy dout doutput gradout gradoutput grady dc dlogits outgrad outputgrad"),
        "y": Role(
            "MN", required=False, spellings="y out output z h pre preact preactivation act acts activations hidden"
        ),
        "x": Role("MK", required=False, spellings="x in inp input inputs a"),
        "w": Role("NK", required=False, spellings="w weight weights b wt"),
        **{
            f"{role}_held": Role(axes, required=False, spellings=f"{role}in {role}held")
            for role, axes in (("dx", "MK"), ("dw", "NK"), ("db", "N"))
        },
        "dz": Role("MN", output=True, required=False, spellings="dz dpre dsum gradpre gradz dh"),
        "dx": Role(
            "MK",
            output=True,
            required=False,
            updates="dx_held",
            spellings="dx dinp dinput gradinput gradinp gradx da inputgrad",
        ),
        "dw": Role(
            "NK",
            output=True,
            required=False,
            updates="dw_held",
            spellings="dw dweight dweights gradweight gradweights gradw wgrad weightgrad mastergrad maingrad",
        ),
        "db": Role(
            "N",
            output=True,
            required=False,
            updates="db_held",
            spellings="db dbias gradbias gradb biasgrad bgrad",
        ),
    },
    parameters={
        "alpha": Parameter("real", "1", "factor of the products", spellings="alpha scale", drafted=("1", "2")),
        "beta": Parameter(
            "real",
            "0",
            "factor of what outputs held",
            spellings="beta",
            drafted=("0", "3"),
            factor_of="dx_held dw_held db_held",
        ),
        "activation": Parameter(
            "word",
            "relu",
            "what is applied in the forward pass",
            (*DERIVATIVES,),
            formulas={name: FORMULAS[name] for name in ("gelu_tanh", "gelu", "silu")},
            named={"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"},
            of="y",
        ),
        **settings.PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m rows nrows numrows tokens ntokens numtokens batch batchsize bt b",
        "N": "n cols columns outfeatures outdim dout oc outputsize outsize outchannels ffn nout",
        "K": "k c infeatures indim din inputsize insize hidden hiddensize inchannels ic nin",
    },
    cases=({"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 192, "K": 320}),
    work="4*M*N*K",
    signs=Signs(
        "linearbackward linearbwd fcbackward fcbwd densebackward gemmbackward matmulbackward mlpbackward linearwgrad",
        parts=("gemm",),
        agreeing="bwd backward grad wgrad dgrad",
        extras="relu gelu silu",
        needs=(TENSOR_CORES,),
        arrays=True,
    ),
    choices=(
        settings.by_layout(
            "How do W and its gradient lie?",
            {
                "W and its gradient stored as N×K, as nn.Linear has them": {"w": "NK", "dw": "NK"},
                "W and its gradient stored as K×N": {"w": "KN", "dw": "KN"},
            },
        ),
        settings.by_value(
            "What was applied to the sum?",
            "meaning",
            "activation",
            {f"the activation {name} in the forward pass": name for name in DERIVATIVES if name != "none"},
            "y",
        ),
        settings.added_to_output("each gradient"),
        *settings.types_of_products("dy"),
    ),
)
