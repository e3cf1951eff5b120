"""Products of bytes that stand for real numbers: scales of rows and columns, and zero points of the rows.

Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, 2017 (arXiv
1712.05877), equations 3 to 7.
"""

from __future__ import annotations

from typing import Any

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.model import (
    Arrays,
    Distance,
    Drawn,
    Elements,
    Judged,
    Operation,
    Outputs,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts.drawn import BESIDE_SUMS, SCALES_OF_BYTES
from wmmadiag.ops.parts.epilogue import FUNCTIONS, finished, spread
from wmmadiag.ops.parts.epilogue_bounds import added, after, factors, narrow, plain
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes
from wmmadiag.ops.parts.settings import WHICH_ACTIVATION, by_layout, epilogue
from wmmadiag.ops.parts.traits import EXPONENTIAL


def _zero_points(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """Of bytes with a sign, none of them 0."""
    values = rng.integers(1, 128, shape) * rng.choice([-1, 1], shape)
    return np.asarray(values, np.float64)


def _sums(inputs: Arrays, size: bool) -> tuple[Doubles, Doubles]:
    """The sums of products, and what zero points take from each, (M, N); `size`: of magnitudes."""
    kind = magnitudes if size else (lambda one: one.astype(np.float64))
    a, b = kind(inputs["a"]), kind(inputs["b"])
    product = a @ b
    if not {"zero_a", "sum_b"} & set(inputs):
        return product, np.zeros_like(product)
    of_columns: NDArray[Any] = kind(inputs["sum_b"]) if "sum_b" in inputs else b.sum(axis=0)[None]
    of_rows: NDArray[Any] = kind(inputs["zero_a"]) if "zero_a" in inputs else np.ones((1, 1))
    return product, spread(of_rows, product.shape) * spread(of_columns, product.shape)


def _further(inputs: Arrays) -> dict[str, NDArray[Any]]:
    return {role: inputs[role] for role in ("scale_a", "scale_b", "bias") if role in inputs}


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    product, taken = _sums(inputs, size=False)
    result = float(parameters["alpha"]) * (product - taken)
    return {"d": finished(result, _further(inputs), activation=str(parameters["activation"]))}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(alpha · scales · (Σ ab − zero · sum) + bias), element by element.

    Sums of bytes are exact. In the working type cost, of the magnitudes of all: the conversions of both sums, the
    product of zero point and sum, and the difference a unit each; alpha and its product, the product of both scales
    and theirs a unit each, since a kernel may scale both sums alone: 8 in all. A bias costs two units more. What the
    activation adds is in `epilogue_bounds.after`.
    """
    model = arithmetic(parameters, elements["a"])
    further = _further(inputs)
    product, taken = _sums(inputs, size=True)
    factor = factors(further, product.shape) * abs(float(parameters["alpha"]))
    beside = added(further, 0.0, product.shape)
    error = 8.0 * model.unit * (product + taken) * factor + 2.0 * model.unit * ((product + taken) * factor + beside)
    if not plain(parameters):
        exact, less = _sums(inputs, size=False)
        result = np.abs(finished(float(parameters["alpha"]) * (exact - less), further))
        activation = FUNCTIONS[str(parameters["activation"])]
        error = after(error, result, beside, factor, narrow(parameters), activation, model)
    return judged({"d": error}, expected, elements)


OPERATION = Operation(
    name="w8a8_gemm",
    meaning="D[m, n] = activation(alpha · scale_a[m] · scale_b[n] · (Σ A[m, k] · B[k, n] − zero_a[m] · sum_b[n]) "
    "+ bias[n])",
    notes="`sum_b` is what host code makes of B once, the sum of each column; a kernel that does not take it sums B "
    "itself. Without `zero_a`, `sum_b` holds the product of both. Scales, zero points and sums with one element are "
    "those of the whole matrix.",
    roles={
        "a": Role("MK", element="int", spellings="a x in input inputs lhs xq aq qx qa act activations"),
        "b": Role("KN", element="int", spellings="b w weight weights rhs wq bq qw qb qweight kernel"),
        "scale_a": Role(
            "MN",
            required=False,
            usual="M",
            element="float",
            drawn=SCALES_OF_BYTES,
            spellings="scalea scalesa ascale ascales xscale xscales scalex scalesx sa sx inputscale inputscales "
            "actscale actscales tokenscale tokenscales rowscale rowscales",
        ),
        "zero_a": Role(
            "MN",
            required=False,
            usual="M",
            element="int",
            drawn=Drawn(_zero_points),
            spellings="zeroa azp azps xzp zpx zpa azero xzero zp zps zeropoint zeropoints xzeropoint xzeropoints "
            "inputzp inputzeropoint inputzeropoints azeropoint actzp",
        ),
        "scale_b": Role(
            "MN",
            usual="N",
            element="float",
            drawn=SCALES_OF_BYTES,
            spellings="scaleb scalesb bscale bscales wscale wscales scalew scalesw sb sw weightscale weightscales "
            "colscale colscales channelscale channelscales",
        ),
        "sum_b": Role(
            "MN",
            required=False,
            usual="N",
            element="int",
            drawn=BESIDE_SUMS,
            spellings="sumb sumw wsum wsums bsum bsums azpadj colsum colsums columnsum columnsums weightsum weightsums "
            "wcolsum wcolsums wreduced",
        ),
        "bias": Role("MN", required=False, usual="N", drawn=BESIDE_SUMS, spellings="bias biases"),
        "d": Role("MN", output=True, spellings="d c y o out output result"),
    },
    parameters={
        "alpha": Parameter("real", "1", "factor of the sums", spellings="alpha", drafted=("1", "2")),
        **epilogue("bias and activation"),
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m rows nrows numrows tokens numtokens batch",
        "N": "n cols columns ncols numcols outfeatures oc",
        "K": "k inner depth infeatures ic hidden",
    },
    distances=(Distance("a", "K", "lda stridea ldx"), Distance("d", "N", "ldc ldd stridec ldo ldy")),
    cases=({"M": 64, "N": 64, "K": 128}, {"M": 128, "N": 192, "K": 320}),
    work="2*M*N*K",
    signs=Signs(
        "w8a8 w8a8gemm gemmw8a8 w8a8linear azp smoothquant",
        parts=("gemm",),
        agreeing="quant int8 i8",
        extras="bias relu relu6 gelu silu act activation epilogue fused",
        explains=("bias",),
        excludes=(EXPONENTIAL,),
        arrays=True,
    ),
    choices=(
        by_layout(
            "How are the weights stored?",
            {"weights stored as N×K, as nn.Linear has them": {"b": "NK"}, "weights stored as K×N": {"b": "KN"}},
            "b",
        ),
        WHICH_ACTIVATION,
    ),
)
