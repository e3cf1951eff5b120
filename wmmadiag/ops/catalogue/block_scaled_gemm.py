"""Products of operands that are scaled in blocks along the depth, as DeepSeek-V3 has them.

DeepSeek-AI, DeepSeek-V3 Technical Report, 2024 (arXiv 2412.19437), section 3.3.2: a scale for each row and 128 values
of the activations, one for each 128 × 128 of the weights.
"""

from __future__ import annotations

from wmmadiag.ops.model import (
    Arrays,
    Distance,
    Elements,
    Judged,
    Operation,
    Outputs,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts.epilogue import spread
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.settings import PRODUCTS, by_layout, by_value, bytes_summed_in, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES


def _each(scales: Doubles, blocks: tuple[int, int], shape: tuple[int, ...]) -> Doubles:
    """A scale for each element of a matrix."""
    for axis, block in enumerate(blocks):
        scales = np.repeat(scales, block, axis=axis)
    return scales[: shape[0], : shape[1]]


def _product(parameters: Values, inputs: Arrays) -> Doubles:
    deep, rows, columns = (int(parameters[name]) for name in ("block_k", "block_m", "block_n"))
    a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
    a = a * _each(inputs["scale_a"].astype(np.float64), (rows, deep), a.shape)
    b = b * _each(inputs["scale_b"].astype(np.float64), (deep, columns), b.shape)
    result = a @ b
    return result + spread(inputs["bias"], result.shape) if "bias" in inputs else result


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return {"d": _product(parameters, inputs)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of the sum over blocks of scale_a · scale_b · Σ ab, element by element.

    Products of a block are summed, `sum_error`·Σ|a||b|, those of integers exactly; both scales' product, its product
    with the sum and the conversion of a whole one cost a unit each, and each block's sum is one more addition; a bias
    two units more.
    """
    model = arithmetic(parameters, elements["a"])
    sizes = {role: magnitudes(one) for role, one in inputs.items()}
    depth = inputs["a"].shape[-1]
    blocks = -(-depth // int(parameters["block_k"]))
    if model.exact:
        relative, absolute = 0.0, 0.0
    else:
        product = product_error(depth, model, blocks)
        relative, absolute = product.relative, product.absolute
    units = (blocks + 8.0 + 2.0 * ("bias" in inputs)) * 2.0 * model.unit
    largest = max(1.0, float(sizes["scale_a"].max(initial=0)) * float(sizes["scale_b"].max(initial=0)))
    error = _product(parameters, sizes) * (relative + units) + absolute * largest
    return judged({"d": error}, expected, elements)


_DEEP = "ceil_div(K, block_k)"

OPERATION = Operation(
    name="block_scaled_gemm",
    meaning="D[m, n] = Σ scale_a[m // block_m, k // block_k] · A[m, k] · scale_b[k // block_k, n // block_n] · B[k, n] "
    "+ bias",
    roles={
        "a": Role("MK", spellings="a x in input lhs activations xq aq"),
        "b": Role("KN", spellings="b w weight weights rhs wq bq"),
        "scale_a": Role(
            "MG",
            ("ceil_div(M, block_m)", _DEEP),
            spellings="scalea scalesa ascale ascales xscale xscales scalex scalesx inputscale actscale sa sx as xs",
        ),
        "scale_b": Role(
            "GN",
            (_DEEP, "ceil_div(N, block_n)"),
            spellings="scaleb scalesb bscale bscales wscale wscales scalew scalesw weightscale weightscales "
            "weightscaleinv sb sw bs ws",
        ),
        "bias": Role("MN", required=False, usual="N", spellings="bias biases"),
        "d": Role("MN", output=True, spellings="d c y o out output result"),
    },
    parameters={
        "block_k": Parameter("int", "128", "values of K that share a scale", spellings="blockk groupk groupsize"),
        "block_m": Parameter("int", "1", "rows of A that share a scale", spellings="blockm groupm"),
        "block_n": Parameter("int", "128", "columns of B that share a scale", spellings="blockn groupn"),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m rows nrows numrows tokens numtokens",
        "N": "n cols columns ncols numcols outfeatures",
        "K": "k inner depth infeatures hidden",
    },
    distances=(
        Distance("a", "K", "lda stridea"),
        Distance("b", "N", "ldb strideb"),
        Distance("d", "N", "ldc ldd stridec strided"),
    ),
    cases=({"M": 64, "N": 128, "K": 256}, {"M": 128, "N": 256, "K": 384}),
    work="2*M*N*K",
    signs=Signs(
        "blockscaled blockscale blockscaledgemm blockscaledmm blockscalegemm blockwisegemm groupscaled",
        parts=("gemm",),
        agreeing="w8a8 quant",
        needs=(TENSOR_CORES,),
        excludes=(EXPONENTIAL, ACTIVATION),
        open="its source does not tell how the scales lie",
    ),
    choices=(
        by_layout(
            "How do B and its scales lie?",
            {
                "B stored as N×K with its scales likewise, as nn.Linear has it": {"b": "NK", "scale_b": "NG"},
                "B stored as K×N with its scales likewise": {"b": "KN", "scale_b": "GN"},
            },
            "b",
        ),
        by_value(
            "How many columns of B share a scale?",
            "meaning",
            "block_n",
            {"one scale of B for 128 columns": "128", "a scale of B for each column": "1"},
        ),
        bytes_summed_in("a"),
        *types_of_products("a"),
    ),
)
