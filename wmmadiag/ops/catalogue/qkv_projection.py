"""The products that attention begins with: one input times three weights, into queries, keys and values of heads."""

from __future__ import annotations

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Packed, Role, Signs, Values
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.sequence import EXTENTS, laid_out
from wmmadiag.ops.parts.settings import PRODUCTS, by_layout, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES

_PARTS = ("q", "k", "v")


def _projected(inputs: Arrays) -> Outputs:
    """x·W + b of each, (B, S, H, D)."""
    found = {}
    for part in _PARTS:
        x, w = inputs["x"].astype(np.float64), inputs[f"w{part}"].astype(np.float64)
        found[part] = np.einsum("bsk,hdk->bshd", x, w, optimize=True)
        if f"b{part}" in inputs:
            found[part] = found[part] + inputs[f"b{part}"].astype(np.float64)
    return found


def _oracle(_: Values, inputs: Arrays) -> Outputs:
    return _projected(inputs)


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """That of a GEMM of depth K, element by element; a bias costs two units more, its conversion and sum."""
    model = arithmetic(parameters, elements["x"])
    sizes = _projected({role: magnitudes(one) for role, one in inputs.items()})
    errors = {}
    for part in _PARTS:
        biased = f"b{part}" in inputs
        product = product_error(inputs["x"].shape[-1], model, 1 + biased)
        errors[part] = sizes[part] * (product.relative + 2.0 * biased * model.unit) + product.absolute
    return judged(errors, expected, elements)


def _weight(part: str, word: str, heads: str) -> Role:
    return Role("HDK", (heads, "D", "K"), spellings=f"w{part} w{word} {word}w {word}weight weight{part} {part}weight")


def _bias(part: str, word: str, heads: str) -> Role:
    spellings = f"b{part} b{word} {word}bias bias{part} {part}bias"
    return Role("HD", (heads, "D"), required=False, spellings=spellings)


def _output(part: str, word: str, heads: str) -> Role:
    return Role("BSHD", ("B", "S", heads, "D"), output=True, spellings=f"{part} {word} {part}out out{part} {part}buf")


_WORDS = (("q", "query", "H"), ("k", "key", "Hkv"), ("v", "value", "Hkv"))

OPERATION = Operation(
    name="qkv_projection",
    meaning="Q = X·Wq + bq, K = X·Wk + bk, V = X·Wv + bv, each of heads",
    notes='The axes of a weight are heads, their elements and the depth: "HDK" is `[H·D, K]`, as nn.Linear has it, '
    '"KHD" its transpose. Three weights, or biases, in one tensor have `role = "wqkv"` or `"bqkv"`.',
    roles={
        "x": Role("BSK", spellings="x a in input inp src hidden hiddenstates hiddens"),
        **{f"w{one[0]}": _weight(*one) for one in _WORDS},
        **{f"b{one[0]}": _bias(*one) for one in _WORDS},
        **{one[0]: _output(*one) for one in _WORDS},
    },
    parameters=PRODUCTS,
    oracle=_oracle,
    bound=_bound,
    symbols={"B": "1", "Hkv": "H"},
    alike={"K": "H*D", "H": "K//D"},
    divisors={"Hkv": "H"},
    made_for={"D": "head dimension"},
    separate=("B",),
    extents={
        **{name: EXTENTS[name] for name in ("B", "Hkv", "H", "S")},
        "D": "d headdim headsize dhead hd dk sizeperhead",
        "K": "k e dim depth embeddim hiddensize hiddendim dmodel infeatures c",
    },
    packed={
        "wqkv": Packed(("wq", "wk", "wv"), ("3HDK", "K3HD", "H3DK"), "wqkv qkvw qkvweight weightqkv w weight weights"),
        "bqkv": Packed(("bq", "bk", "bv"), ("3HD", "H3D"), "bqkv qkvb qkvbias biasqkv bias"),
    },
    cases=({"B": 1, "S": 64, "H": 1, "D": 64, "K": 64}, {"B": 2, "S": 128, "H": 3, "D": 64, "K": 192}),
    work="2*B*S*(H + 2*Hkv)*D*K",
    signs=Signs(
        "qkvsplit splitqkv", parts=("gemm",), needs=(TENSOR_CORES,), excludes=(EXPONENTIAL, ACTIVATION), arrays=True
    ),
    choices=(
        laid_out("q", "k", "v"),
        by_layout(
            "How are the weights stored?",
            {
                "weights as nn.Linear has them": {"wq": "HDK", "wk": "HDK", "wv": "HDK"},
                "weights stored by rows of the depth": {"wq": "KHD", "wk": "KHD", "wv": "KHD"},
            },
            "wq",
        ),
        *types_of_products("x"),
    ),
)
