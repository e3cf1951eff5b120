"""A matrix times a vector."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Distance, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.settings import PRODUCTS, by_value, sums_kept_in
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _product(parameters: Values, inputs: Arrays) -> Doubles:
    a = inputs["a"].astype(np.float64)
    a = np.swapaxes(a, -1, -2) if parameters["transpose_a"] else a
    return np.asarray((a @ inputs["x"].astype(np.float64)[..., None])[..., 0])


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    y = float(parameters["alpha"]) * _product(parameters, inputs)
    if "scale" in inputs:
        y = y * inputs["scale"].astype(np.float64)
    if "bias" in inputs:
        y = y + inputs["bias"].astype(np.float64)
    if "c" in inputs:
        y = y + float(parameters["beta"]) * inputs["c"].astype(np.float64)
    return {"y": y}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of alpha·A·x·scale + bias + beta·C.

    Each sum of K products costs `sum_error`·Σ|a||x|; alpha, a scale, beta and the two sums a unit of their magnitudes
    each. Integers times floating-point numbers are summed as these are.
    """
    model = arithmetic(parameters, elements["x" if elements["x"].is_float else "a"])
    sizes = {role: magnitudes(array) for role, array in inputs.items()}
    product = product_error(inputs["x"].shape[-1], model)
    alpha, beta = abs(float(parameters["alpha"])), abs(float(parameters["beta"]))
    scaled = alpha * sizes["scale"] if "scale" in sizes else alpha
    total = scaled * _product(parameters, sizes)
    error = total * product.relative + scaled * product.absolute
    whole = model.exact and "scale" not in sizes and float(parameters["alpha"]).is_integer()
    whole = whole and not elements["y"].is_float
    if not whole:
        for role, factor in (("bias", 1.0), ("c", beta)):
            total = total + factor * sizes[role] if role in sizes else total
        error = error + 5.0 * model.unit * total
    return judged({"y": error}, expected, elements)


OPERATION = Operation(
    name="gemv",
    meaning="y = alpha·op(A)·x · scale + bias + beta·C",
    roles={
        "a": Role(
            "MK", ("K if transpose_a else M", "M if transpose_a else K"), spellings="a w weight weights mat matrix m"
        ),
        "x": Role("K", spellings="x b in input vec vector v inp"),
        "scale": Role("M", required=False, spellings="scale scales rowscale wscale wscales weightscale"),
        "bias": Role("M", required=False, spellings="bias"),
        "c": Role("M", required=False, spellings="yin c0 residual"),
        "y": Role("M", output=True, updates="c", spellings="y c out output o res result dst"),
    },
    parameters={
        "alpha": Parameter("real", "1", "factor of the product", spellings="alpha", drafted=("1", "2")),
        "beta": Parameter("real", "1", "factor of C", spellings="beta", drafted=("1", "2"), factor_of="c"),
        "transpose_a": Parameter("flag", "0", "whether A is stored as K×M"),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"transpose_a": "0"},
    extents={
        "M": "m rows nrows numrows out outfeatures dout outdim",
        "K": "k n cols columns ncols numcols in infeatures din indim d",
    },
    dialects=({"n": "rows", "k": "cols"},),
    distances=(Distance("a", "M if transpose_a else K", "lda stride"),),
    cases=({"M": 64, "K": 128}, {"M": 192, "K": 320}),
    work="2*M*K",
    signs=Signs("gemv hgemv sgemv matvec matvecmul mv matrixvector", excludes=(TENSOR_CORES, EXPONENTIAL)),
    choices=(
        by_value(
            "How is A stored?", "storage", "transpose_a", {"A stored as M×K": "0", "A stored as K×M, by columns": "1"}
        ),
        sums_kept_in("a"),
    ),
)
