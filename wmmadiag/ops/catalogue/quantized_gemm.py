"""Products with weights of few bits, which are scaled in groups of rows: GPTQ, AWQ and their like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.model import (
    Alternative,
    Arrays,
    Choice,
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
from wmmadiag.ops.parts.drawn import BESIDE_SUMS, SCALES_OF_BYTES, WORDS, ZERO_POINTS
from wmmadiag.ops.parts.epilogue import FUNCTIONS, bias_of, finished
from wmmadiag.ops.parts.epilogue_bounds import added, after, narrow, plain
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged, product_error
from wmmadiag.ops.parts.settings import (
    NARROW,
    PRODUCTS,
    WHICH_ACTIVATION,
    by_flag,
    by_layout,
    by_value,
    epilogue,
    sums_kept_in,
)
from wmmadiag.ops.parts.traits import TENSOR_CORES

ORDERS: Mapping[str, tuple[int, ...]] = {"linear": (), "awq": (0, 2, 4, 6, 1, 3, 5, 7), "high_first": (1, 0)}
"""Which value stands at each place of an element, lowest bits first; () for their own order.

AWQ: `order_map` of `awq/quantize/qmodule.py` in mit-han-lab/llm-awq.
"""

CODES: Mapping[str, tuple[float, ...]] = {
    "integers": (),
    "nf4": (
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
        0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ),
    "e2m1": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0),
}  # fmt: skip
"""What each number that is stored stands for; () for itself.

NF4: Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, 2023 (arXiv 2305.14314), appendix E. E2M1: OCP
Microscaling Formats (MX) Specification 1.0, section 5.3.3.
"""


def unpacked(
    packed: NDArray[Any], bits: int, count: int, *, axis: int, order: str = "linear", signed: bool = False
) -> Doubles:
    """The values that an array of integers holds, `count` in each element, along one axis.

    Args:
        packed: (…) of integers, the first value in the lowest bits.
        order: a name in `ORDERS`.
        signed: whether values are two's complement.

    Raises:
        ConfigurationError: that many values do not fit into an element, or the order is for another number.
    """
    width = packed.dtype.itemsize * 8
    if bits * count > width:
        raise ConfigurationError(
            f"{count} values of {bits} bits do not fit into an element of {width}", hint="see `bits` and `pack`"
        )
    places = ORDERS[order] or tuple(range(count))
    if len(places) != count:
        raise ConfigurationError(
            f"the order '{order}' is that of {len(places)} values in an element, not of {count}", hint="see `pack`"
        )
    words = np.moveaxis(packed, axis, -1).astype(np.int64) & ((1 << width) - 1 if width < 64 else -1)
    values = np.empty((*words.shape, count))
    for place, value in enumerate(places):
        values[..., value] = (words >> (place * bits)) & ((1 << bits) - 1)
    if signed:
        values[values >= 1 << (bits - 1)] -= 1 << bits
    return np.moveaxis(values.reshape(*words.shape[:-1], -1), -1, axis)


@dataclass(frozen=True, slots=True)
class Weights:
    """Dequantised weights, (K, N) each: (quantised − zero)·scale + added."""

    values: Doubles  # what they are. scale, quantised, zero, added: of what.
    scale: Doubles
    quantised: Doubles
    zero: Doubles
    added: Doubles


def dequantised(parameters: Values, inputs: Arrays) -> Weights:
    """The weights of an operation's inputs."""
    bits, group = int(parameters["bits"]), int(parameters["group"])
    order, along = str(parameters["order"]), 1 if parameters["packed_along_n"] else 0
    if order == "auto":  # bitsandbytes has the first of two in the high bits
        order = "high_first" if parameters["code"] == "nf4" and int(parameters["pack"]) == 2 else "linear"
    signed = bool(parameters["signed"])
    quantised = unpacked(inputs["b"], bits, int(parameters["pack"]), axis=along, order=order, signed=signed)
    groups = np.arange(quantised.shape[0]) // group
    codes = CODES[str(parameters["code"])]
    if codes:
        quantised = np.asarray(codes)[quantised.astype(np.int64) & (len(codes) - 1)]
    zero = np.full_like(quantised, 0.0 if codes else float(parameters["zero"]))
    added = np.zeros_like(quantised)
    if "zeros" in inputs:
        stored, count = inputs["zeros"], int(parameters["zero_pack"])
        axis = 0 if parameters["zeros_along_groups"] else 1
        plain = stored.astype(np.float64) if count == 1 else unpacked(stored, bits, count, axis=axis, order=order)
        of_rows = plain[groups] + float(parameters["zero_offset"])
        if parameters["zero_form"] == "subtracted":
            zero = of_rows
        else:
            added = of_rows
    scale = inputs["scales"].astype(np.float64)[groups]
    return Weights((quantised - zero) * scale + added, scale, quantised, zero, added)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    product = _rows(inputs) @ dequantised(parameters, inputs).values
    return {"d": finished(product, bias_of(inputs), activation=str(parameters["activation"]))}


def _rows(inputs: Arrays) -> Doubles:
    """A, each row times its scale where there is one."""
    a = inputs["a"].astype(np.float64)
    return a * inputs["a_scales"].astype(np.float64)[:, None] if "a_scales" in inputs else a


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of activation(A·W + bias) with W = (q − z)·s + t, element by element.

    A sum of K products costs `sum_error`·Σ|a||w|, a bias two units more. Weights are dequantised in `weight_dtype`, of
    unit v: converting a scale and the product with it cost 2v·|w|; where q·s and z·s are rounded on their own, as a
    fused multiply-add of −z·s does, v·(|q| + |z|)·|s| more; adding t, v·|t|; each may be subnormal. (q − z is exact:
    both are integers of at most eight bits; what a code stands for may be rounded first: v·|w|.) A kernel that scales
    sums instead of weights stays below that. Rows of bytes are summed exactly in each group, and then in the working
    type; their scale is one product more. What the activation adds is in `epilogue_bounds.after`.
    """
    floating = elements["a"] if elements["a"].is_float else TYPES["f32"]
    model = arithmetic(parameters, floating)
    weights = dequantised(parameters, inputs)
    named = str(parameters["weight_dtype"])
    kind = floating if named == "auto" else TYPES[named]
    a = np.abs(_rows(inputs))
    further = bias_of(inputs)
    biased = bool(further)
    product = product_error(a.shape[-1], model, 2 + biased)
    size = np.abs(weights.values)
    parts = (np.abs(weights.quantised) + np.abs(weights.zero)) * np.abs(weights.scale) + np.abs(weights.added)
    coded = parameters["code"] != "integers"
    of_weights = a @ (kind.unit * ((2.0 + coded) * size + parts) + 4.0 * kind.half_subnormal)
    total = a @ size
    beside = added(further, 0.0, total.shape)
    total = total + beside
    error = total * (product.relative + 2.0 * biased * model.unit)
    error = error + of_weights * (1.0 + product.relative) + product.absolute
    if not plain(parameters):
        result = np.abs(finished(_rows(inputs) @ weights.values, further))
        activation = FUNCTIONS[str(parameters["activation"])]
        error = after(error, result, beside, np.ones_like(result), narrow(parameters), activation, model)
    return judged({"d": error}, expected, elements)


_NIBBLE = r"\b0x0*f(?:0+f)*0*u?\b|&\s*15\b|>>=?\s*4\b|>>\s*\(?\s*4\s*\*|\*\s*4\s*\)\s*\)?\s*&|\blop3\b|\bbfe\b"
"""Code that takes four bits out of something: masks of them, shifts by multiples of four, and what PTX has."""

_GROUPS = "ceil_div(K, group)"

OPERATION = Operation(
    name="quantized_gemm",
    meaning="D = activation(a_scales · A · W + bias), W[k, n] = (q[k, n] − zero[k // group, n]) · scale[k // group, n]",
    notes="`b` holds `pack` values of `bits` bits in each element, the first in the lowest bits: GPTQ packs 8 of 4 "
    "bits along K into an int32 and stores zero points less 1 (`zero_pack = 8`, `zero_offset = 1`), AWQ along N "
    '(`packed_along_n = true`, `order = "awq"`, `zero_pack = 8`). Bytes that are values themselves have `bits = 8`, '
    '`pack = 1`, `signed = true`. Without `zeros` all have the zero point `zero`; with `zero_form = "added"` W is '
    "(q − zero) · scale + zeros. Groups whose rows are permuted (act-order, `g_idx`) and other orders within an "
    "element are left to a Python function.",
    roles={
        "a": Role("MK", spellings="a x in input lhs act activations infeats"),
        "b": Role(
            "KN",
            ("K if packed_along_n else K/pack", "N/pack if packed_along_n else N"),
            element="int",
            drawn=WORDS,
            spellings="b w weight qweight qw kernel packed packedweight weightpacked bq wq",
        ),
        "a_scales": Role(
            "M",
            required=False,
            element="float",
            drawn=SCALES_OF_BYTES,
            spellings="ascales ascale scalea sx sa xscale xscales scalex inputscale inputscales actscale actscales "
            "tokenscale tokenscales rowscales",
        ),
        "scales": Role(
            "GN",
            (_GROUPS, "N"),
            spellings="scales scale scalingfactors scalingfactor s sw sb ws wscales wscale scalew bscales scaleb "
            "weightscales weightscale groupscales absmax",
        ),
        "zeros": Role(
            "GN",
            (
                f"{_GROUPS}/zero_pack if zeros_along_groups else {_GROUPS}",
                "N if zeros_along_groups else N/zero_pack",
            ),
            required=False,
            drawn=ZERO_POINTS,
            spellings="zeros qzeros zero zeropoints zp",
        ),
        "bias": Role("MN", required=False, usual="N", drawn=BESIDE_SUMS, spellings="bias"),
        "d": Role("MN", output=True, spellings="d c y out output result outfeats"),
    },
    parameters={
        "bits": Parameter("int", "4", "bits of a value", formulas={"8": rf"(?s)\A(?!.*(?:{_NIBBLE}))"}, asked="4 or 8"),
        "group": Parameter(
            "int",
            "128",
            "rows of K that share a scale; K for one scale per column",
            spellings="group groupsize gs g blocksize",
            drafted=("128", "64"),
            asked="a number, or K",
        ),
        "pack": Parameter(
            "int",
            "8",
            "values in one element of b",
            asked="8 of 4 bits in an int32, 1 of 8 in a byte",
            by_element=("b", {"u8": "8 / bits", "s8": "8 / bits", "u32": "32 / bits", "s32": "32 / bits"}),
        ),
        "packed_along_n": Parameter(
            "flag", "0", "values in one element are neighbours along N, not K", asked="1 along N"
        ),
        "order": Parameter(
            "word",
            "auto",
            "of the values in one element; auto: the first in the lowest bits, in the high ones of a byte of NF4",
            ("auto", *ORDERS),
        ),
        "code": Parameter(
            "word",
            "integers",
            "what the numbers that are stored stand for",
            (*CODES,),
            formulas={"nf4": r"0?\.69619[0-9]*", "e2m1": r"\b(?:e2m1|fp4)\w*"},
        ),
        "signed": Parameter(
            "flag", "0", "values are two's complement", by_element=("b", {"s8": "1 if bits == 8 else 0"})
        ),
        "zero": Parameter("real", "0 if signed else 2**(bits - 1)", "zero point of all values, where zeros has none"),
        "zero_pack": Parameter("int", "1", "zero points in one element of zeros"),
        "zeros_along_groups": Parameter(
            "flag", "0", "zero points in one element are those of groups of a column, not of N"
        ),
        "zero_offset": Parameter("real", "0", "added to each stored zero point"),
        "zero_form": Parameter("word", "subtracted", "what zeros does", ("subtracted", "added")),
        "weight_dtype": Parameter(
            "word", "auto", "type that weights are dequantised in; auto: that of a", (*NARROW, "f32")
        ),
        **epilogue(),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    extents={
        "M": "m rows nrows numrows tokens numtokens batch b",
        "N": "n cols columns ncols numcols outfeatures oc",
        "K": "k inner depth infeatures ic",
    },
    distances=(Distance("a", "K", "lda stridea ldx"), Distance("d", "N", "ldc ldd stridec ldo ldy")),
    cases=({"M": 16, "N": 64, "K": 256}, {"M": 48, "N": 128, "K": 384}),
    work="2*M*N*K",
    signs=Signs(
        "w4a16 w4a8 w8a16 nf4 kgemm4bit gptq awq marlin qgemm quantgemm dequantgemm int4gemm quantizedgemm matmul4bit "
        "gemm4bit",
        extras="bias relu relu6 gelu silu act activation epilogue fused",
        parts=("gemm",),
        needs=(TENSOR_CORES,),
        arrays=True,
        open="its source does not tell how values are packed and scaled",
    ),
    choices=(
        by_layout(
            "How are the weights stored?",
            {"weights stored as K×N": {"b": "KN"}, "weights stored as N×K, as nn.Linear has them": {"b": "NK"}},
            "b",
        ),
        by_layout(
            "How do the scales lie?",
            {
                "a row of scales for each group": {"scales": "GN", "zeros": "GN"},
                "a row of scales for each column of W": {"scales": "NG", "zeros": "NG"},
            },
            "scales",
        ),
        by_value(
            "Along which axis are the values of one element neighbours?",
            "storage",
            "packed_along_n",
            {"values packed along K": "0", "values packed along N": "1"},
            "b",
        ),
        by_value(
            "In which order do values lie in one element?",
            "storage",
            "order",
            {"values in their own order": "auto", "values in AWQ's order": "awq"},
            "b",
        ),
        Choice(
            "How many zero points does an element hold?",
            "storage",
            (
                Alternative("one zero point in an element", {"zero_pack": "1", "zeros_along_groups": "0"}),
                Alternative("eight zero points in an element, along N", {"zero_pack": "8", "zeros_along_groups": "0"}),
                Alternative(
                    "eight zero points in an element, of groups of a column",
                    {"zero_pack": "8", "zeros_along_groups": "1"},
                ),
            ),
            ("zeros",),
            ("s32", "u32"),
        ),
        by_value(
            "How many rows of the weights share a scale?",
            "meaning",
            "group",
            {"a scale for 128 rows of each column": "128", "one scale for each column": "K"},
        ),
        replace(
            by_flag(
                "Are values two's complement?",
                "signed",
                "unsigned values about a zero point",
                "values in two's complement",
                "b",
            ),
            settled=("u8", "bits", "8"),
        ),
        by_flag(
            "Are zero points stored less 1, as GPTQ has them?",
            "zero_offset",
            "zero points as they are",
            "zero points stored less 1, as GPTQ has them",
            "zeros",
        ),
        WHICH_ACTIVATION,
        sums_kept_in("a"),
    ),
)
