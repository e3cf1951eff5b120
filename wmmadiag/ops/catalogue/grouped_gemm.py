"""Products of consecutive rows with matrices of their own, as the experts of a mixture have it."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Drawn, Elements, Judged, Operation, Outputs, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.of_experts import SCALES, relative_error, scaled, sizes_of, starts
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import EACH_B_STORED, PRODUCTS, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES


def _products(inputs: Arrays) -> Doubles:
    """A's rows of each group times that group's B, (M, N); rows of no group are 0."""
    a, b = scaled(inputs)
    starts = inputs["starts"].astype(np.int64)
    result = np.zeros((a.shape[0], b.shape[2]))
    for group in range(len(starts) - 1):
        rows = slice(int(starts[group]), int(starts[group + 1]))
        result[rows] = a[rows] @ b[min(group, len(b) - 1)]
    return result


def _oracle(_: Values, inputs: Arrays) -> Outputs:
    return {"d": _products(inputs)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of each group's product: `of_experts.relative_error`, then the output's rounding; rows of no group are
    0.
    """
    model = arithmetic(parameters, elements["a"])
    relative, absolute = relative_error(inputs, model)
    error = _products(sizes_of(inputs)) * relative + absolute
    return judged({"d": error}, expected, elements)


OPERATION = Operation(
    name="grouped_gemm",
    meaning="D[i] = a_scales[i] · A[i] · B[g] · b_scales[g] for the rows i of group g, starts[g] ≤ i < starts[g + 1]",
    notes="`starts` has one number more than there are groups; those that are drawn have groups of different lengths, "
    "one of them empty. B of extent 1 along G is shared by all groups.",
    roles={
        "a": Role("MK", spellings="a x in input lhs tokens hidden"),
        "b": Role("GKN", shared=True, spellings="b w weight weights experts expertweights"),
        "starts": Role(
            "E",
            ("G + 1",),
            element="int",
            drawn=Drawn(starts, "a", -2),
            spellings="starts offsets offs groupoffsets expertoffsets mindptr indptr rowoffsets groupstarts",
        ),
        **SCALES,
        "d": Role("MN", output=True, spellings="d c y out output result"),
    },
    parameters=PRODUCTS,
    oracle=_oracle,
    bound=_bound,
    extents={
        "G": "g groups numgroups ngroups experts numexperts nexperts e",
        "M": "m rows nrows numrows tokens numtokens",
        "N": "n cols columns ncols numcols",
        "K": "k inner depth",
    },
    cases=({"G": 2, "M": 64, "N": 64, "K": 64}, {"G": 4, "M": 150, "N": 128, "K": 96}),
    groups="G",
    work="2*M*N*K",
    signs=Signs(
        "grouped groupedgemm moe moegemm expert experts",
        parts=("gemm",),
        agreeing="w8a8",
        needs=(TENSOR_CORES,),
        excludes=(EXPONENTIAL, ACTIVATION),
        open="its source does not tell how the matrices of the groups lie",
    ),
    choices=(EACH_B_STORED, *types_of_products("a")),
)
