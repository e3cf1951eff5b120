"""A product of normalised rows: LayerNorm or RMSNorm fused into the linear layer behind it."""

from __future__ import annotations

from itertools import product
from typing import Any

from wmmadiag.ops.catalogue.layernorm import layernorm
from wmmadiag.ops.catalogue.rmsnorm import rmsnorm
from wmmadiag.ops.model import Arrays, Distance, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import norms
from wmmadiag.ops.parts.epilogue import FUNCTIONS, bias_of, finished
from wmmadiag.ops.parts.epilogue_bounds import added, after, narrow
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.settings import B_STORED, PRODUCTS, by_value, epilogue, types_before_epilogue
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES

_OF_ROWS = {"x": "x", "residual": "residual", "gamma": "weight", "beta": "bias"}  # roles here → those of a norm


def _rows(inputs: Arrays) -> dict[str, NDArray[Any]]:
    return {_OF_ROWS[role]: array for role, array in inputs.items() if role in _OF_ROWS}


def _normalised(parameters: Values, rows: Arrays) -> Doubles:
    eps, summed = float(parameters["eps"]), norms.summed(rows)
    if parameters["norm"] == "layernorm":
        weight = rows.get("weight")
        if weight is not None and parameters["unit_offset"]:
            weight = 1.0 + weight.astype(np.float64)
        return layernorm(summed, weight, rows.get("bias"), eps=eps)[0]
    return rmsnorm(summed, rows.get("weight"), eps=eps, unit_offset=bool(parameters["unit_offset"]))[0]


def _weights(parameters: Values, inputs: Arrays) -> NDArray[Any]:
    b: NDArray[Any] = inputs["b"]
    return np.swapaxes(b, -1, -2) if parameters["transpose_b"] else b


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    sums = _normalised(parameters, _rows(inputs)) @ _weights(parameters, inputs).astype(np.float64)
    return {"d": finished(sums, bias_of(inputs), activation=str(parameters["activation"]))}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(norm(S)·op(B) + bias), element by element.

    `norms.normalised_bound` gives the error ε of each normalised value n, that of its rounding to the type of B
    included, as it becomes an operand. The product is off by Σε|b|, and by what K sums of (|n| + ε)|b| cost; a bias
    two units. What the activation adds is in `epilogue.after`.
    """
    operand = elements["b"]
    model = arithmetic(parameters, operand)
    rows = _rows(inputs)
    kinds = {_OF_ROWS[role]: kind for role, kind in elements.items() if role in _OF_ROWS} | {"y": operand}
    centred = parameters["norm"] == "layernorm"
    own = {**parameters, "variance": "any"}
    normed = _normalised(parameters, rows)
    found = norms.statistics(own, rows, kinds, centred=centred)
    error = norms.normalised_bound(own, rows, normed, kinds, found).bound
    size, further = magnitudes(_weights(parameters, inputs)), bias_of(inputs)
    depth = size.shape[-2]
    lost = product_error(depth, model, 1 + ("bias" in further))
    total = (np.abs(normed) + error) @ size
    added_size = added(further, 0.0, total.shape)
    result = np.abs(normed @ _weights(parameters, inputs).astype(np.float64)) + added_size
    off = error @ size + (total + added_size) * (lost.relative + 2.0 * bool(further) * model.unit) + lost.absolute
    activation = FUNCTIONS[str(parameters["activation"])]
    off = after(off, result, added_size, np.ones_like(result), narrow(parameters), activation, model)
    return judged({"d": off}, expected, elements)


OPERATION = Operation(
    name="norm_gemm",
    meaning="D = activation(norm(X + residual)·op(B) + bias), norm along K with gamma and beta",
    roles={
        "x": Role("MK", spellings="x a in input inp src hidden hiddenstates"),
        "residual": Role("MK", required=False, spellings="residual res resid"),
        "gamma": Role("K", required=False, spellings="gamma g normweight lnweight rmsweight wnorm lnw scale"),
        "beta": Role("K", required=False, spellings="beta shift normbias lnbias lnb"),
        "b": Role(
            "KN",
            ("N if transpose_b else K", "K if transpose_b else N"),
            spellings="b w weight weights wt proj wproj wqkv",
        ),
        "bias": Role("MN", required=False, usual="N", spellings="bias biases"),
        "d": Role("MN", output=True, spellings="d c y o out output dst result"),
    },
    parameters={
        "norm": Parameter("word", "rmsnorm", "what is done to rows first", ("rmsnorm", "layernorm")),
        "eps": norms.eps("1e-5", "added to the variance or mean square"),
        "unit_offset": Parameter("flag", "0", "the factor of a column is 1 + gamma"),
        "transpose_b": Parameter("flag", "0", "B is stored as N×K"),
        **epilogue(),
        **norms.TYPES_OF_STEPS,
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"transpose_b": "0"},
    extents={
        "M": "m rows nrows numrows tokens numtokens ntokens t batch batchsize",
        "N": "n cols columns ncols numcols outdim outfeatures features outputsize dout e",
        "K": "k inner depth hidden hiddensize hiddendim dim indim infeatures d c din embed",
    },
    distances=(
        Distance("x", "K", "ldx stridex xstride"),
        Distance("b", "K if transpose_b else N", "ldb ldw strideb stridew"),
        Distance("d", "N", "ldd ldc ldo ldy outstride strideo"),
    ),
    cases=({"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 192, "K": 320}),
    work="2*M*N*K",
    hard_inputs=norms.HARD_INPUTS,
    signs=Signs(
        " ".join(
            first + second
            for first, second in product(
                ("rmsnorm", "rms", "layernorm", "ln", "norm", "prenorm"),
                ("linear", "gemm", "matmul", "mm", "proj", "qkv"),
            )
        ),
        parts=("gemm", "layernorm", "rmsnorm"),
        extras="bias relu gelu silu act activation epilogue",
        explains=("bias",),
        needs=(TENSOR_CORES,),
        excludes=(EXPONENTIAL,),
        open="its source does not tell which norm it is, and where values are rounded",
    ),
    choices=(
        by_value(
            "Which norm is it?",
            "meaning",
            "norm",
            {"an RMSNorm of rows": "rmsnorm", "a LayerNorm of rows": "layernorm"},
        ),
        norms.column_factor("gamma", "gamma itself", "1 + gamma, as Gemma has it"),
        B_STORED,
        *norms.CHOICES,
        *types_before_epilogue("b"),
    ),
)
