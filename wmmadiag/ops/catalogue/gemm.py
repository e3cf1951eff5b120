"""The general matrix product, with what kernels fuse to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmmadiag.ops.model import (
    COLUMN,
    ROW,
    Arrays,
    Distance,
    Elements,
    Judged,
    MatrixProduct,
    Operation,
    Outputs,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts import settings
from wmmadiag.ops.parts.epilogue import FUNCTIONS, SPREAD, finished
from wmmadiag.ops.parts.epilogue_bounds import added, after, factors, narrow, plain, whole
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES
from wmmadiag.ops.stages.epilogue import EpilogueStages

_OVER_RESULT = ("batch", "M", "N")


def gemm(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any] | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: str = "none",
    further: Arrays | None = None,
) -> Doubles:
    """activation(alpha·op(A)·op(B)·scales + beta·C + bias).

    Args:
        a: (…, M, K) or (…, K, M); b: (…, K, N) or (…, N, K); c: (…, M, N).
        further: "scale_a", "scale_b" and "bias", spread over (…, M, N), as far as there are any.
    """
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    product = alpha * (left.astype(np.float64) @ right.astype(np.float64))
    inputs = {**(further or {}), **({} if c is None else {"c": c})}
    return finished(product, inputs, beta=beta, activation=activation)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    result = gemm(
        inputs["a"],
        inputs["b"],
        inputs.get("c"),
        alpha=float(parameters["alpha"]),
        beta=float(parameters["beta"]),
        transpose_a=bool(parameters["transpose_a"]),
        transpose_b=bool(parameters["transpose_b"]),
        activation=str(parameters["activation"]),
        further={role: inputs[role] for role in SPREAD if role in inputs},
    )
    return {"d": result}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(alpha·op(A)·op(B)·scales + beta·C + bias), element by element.

    A sum of K products costs `sum_error`·Σ|a||b| (tf32 operands add their truncation); each of alpha, beta, the two
    products with them and their sum one unit of |alpha|Σ|a||b| + |beta||c|; then the output's rounding. Integer
    products and sums are exact. beta·C may be the accumulator's start value: it is one more term of the sum, and so is
    a bias. A bias costs two units more (its conversion and sum), scales four (the conversion of a whole sum, the
    product of both, two products). What the activation adds is in `epilogue.after`.
    """
    model = arithmetic(parameters, elements["a"])
    alpha, beta = float(parameters.get("alpha", 1.0)), float(parameters.get("beta", 0.0))
    transposed = bool(parameters.get("transpose_a")), bool(parameters.get("transpose_b"))
    a, b, c = inputs["a"], inputs["b"], inputs.get("c")
    further = {role: inputs[role] for role in SPREAD if role in inputs}
    depth = a.shape[-2 if transposed[0] else -1]
    if model.exact and whole(parameters, further, elements, elements["d"]):
        return {"d": Judgement(np.zeros_like(expected["d"]))}
    total = gemm(
        magnitudes(a),
        magnitudes(b),
        None if c is None else magnitudes(c),
        alpha=abs(alpha),
        beta=abs(beta),
        transpose_a=transposed[0],
        transpose_b=transposed[1],
        further={role: magnitudes(one) for role, one in further.items()},
    )
    product = product_error(depth, model, 1 + ("bias" in further))
    units = 0.0 if (alpha, beta) == (1.0, 0.0) else 4.0
    units += 2.0 * ("bias" in further) + 4.0 * bool({"scale_a", "scale_b"} & set(further))
    factor = factors(further, expected["d"].shape) * abs(alpha)
    error = total * (product.relative + units * model.unit) + product.absolute * factor
    if not plain(parameters):
        result = gemm(
            a, b, c, alpha=alpha, beta=beta, transpose_a=transposed[0], transpose_b=transposed[1], further=further
        )
        activation = FUNCTIONS[str(parameters.get("activation", "none"))]
        size = added(inputs, beta, result.shape)
        error = after(error, np.abs(result), size, factor, narrow(parameters), activation, model)
    return judged({"d": error}, expected, elements)


def _products(parameters: Values) -> Mapping[str, MatrixProduct]:
    axes = ROW if parameters["transpose_a"] else COLUMN, COLUMN if parameters["transpose_b"] else ROW
    return {"d": MatrixProduct("a", axes[0], "b", axes[1])}


OPERATION = Operation(
    name="gemm",
    meaning="D = activation(alpha · op(A)·op(B) · scales + beta · C + bias)",
    roles={
        "a": Role(
            "BMK",
            ("batch", "K if transpose_a else M", "M if transpose_a else K"),
            spellings="a lhs x left mata matrixa mat1 batch1 input inputs activations",
            shared=True,
        ),
        "b": Role(
            "BKN",
            ("batch", "N if transpose_b else K", "K if transpose_b else N"),
            spellings="b rhs w right weight weights matb matrixb mat2 batch2",
            shared=True,
        ),
        "c": Role("BMN", _OVER_RESULT, required=False, spellings="c matc matrixc", shared=True),
        "bias": Role("BMN", _OVER_RESULT, required=False, usual="N", spellings="bias biases biasvec biasvector"),
        "scale_a": Role(
            "BMN",
            _OVER_RESULT,
            required=False,
            usual="M",
            spellings="scalea scalesa ascale ascales rowscale rowscales inputscale actscale xscale xscales",
        ),
        "scale_b": Role(
            "BMN",
            _OVER_RESULT,
            required=False,
            usual="N",
            spellings="scaleb scalesb bscale bscales colscale colscales weightscale weightscales wscale wscales",
        ),
        "d": Role("BMN", _OVER_RESULT, output=True, updates="c", spellings="d o out output y result matd matrixd"),
    },
    parameters={
        "alpha": Parameter("real", "1", "factor of A·B", spellings="alpha", drafted=("1", "2")),
        "beta": Parameter("real", "0", "factor of C", spellings="beta", drafted=("0", "3"), factor_of="c"),
        "transpose_a": Parameter("flag", "0", "A is stored as K×M"),
        "transpose_b": Parameter("flag", "0", "B is stored as N×K"),
        **settings.epilogue("scales, C, bias and activation"),
        **settings.PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    products=_products,
    stages=EpilogueStages,
    symbols={"batch": "1", "transpose_a": "0", "transpose_b": "0"},
    separate=("batch",),
    optional="batch",
    extents={
        "batch": "b bs batch batches batchsize batchcount numbatches",
        "M": "m rows nrows numrows mglobal mtotal msize dimm",
        "N": "n cols columns ncols numcols nglobal ntotal nsize dimn outfeatures outdim outputsize",
        "K": "k inner depth kglobal ktotal ksize dimk infeatures indim inputsize",
    },
    distances=(
        Distance("a", "M if transpose_a else K", "lda stridea ldma"),
        Distance("b", "K if transpose_b else N", "ldb strideb ldmb"),
        Distance("d", "N", "ldc ldd stridec ldmc ldmd"),
        Distance("a", "M*K", "stridea batchstridea stridebatcha bsa offseta", batches=True),
        Distance("b", "K*N", "strideb batchstrideb stridebatchb bsb", batches=True),
        Distance("d", "M*N", "stridec strided batchstridec batchstrided stridebatchc bsc bsd", batches=True),
    ),
    # The second differs in every extent, so that a wrong leading dimension shows, and has an odd number of deep tiles.
    cases=({"batch": 1, "M": 64, "N": 64, "K": 64}, {"batch": 3, "M": 128, "N": 192, "K": 320}),
    work="2*batch*M*N*K",
    signs=Signs(
        "gemm matmul mm baddbmm addmm hgemm sgemm bgemm igemm wgemm matrixmultiply matmult mmult bmm multiply linear",
        extras="bias relu relu6 gelu silu act activation epilogue fused",
        explains=("bias",),
        needs=(TENSOR_CORES,),
        excludes=(EXPONENTIAL, ACTIVATION),
        arrays=True,
    ),
    choices=(
        settings.by_value(
            "How is A stored?", "storage", "transpose_a", {"A stored as M×K": "0", "A stored as K×M": "1"}, "a"
        ),
        settings.B_STORED,
        settings.by_layout(
            "How is the result stored?",
            {
                "the result stored by rows": {"c": "BMN", "d": "BMN"},
                "the result stored by columns": {"c": "BNM", "d": "BNM"},
            },
        ),
        settings.added_to_output("the product"),
        settings.WHICH_ACTIVATION,
        *settings.types_before_epilogue("a"),
        settings.bytes_summed_in("a"),
        settings.parts_added_in("d"),
    ),
)
