"""Products of tokens with the matrices of the experts that are chosen for each, each by itself or added up.

What sorts the tokens on the way is a kernel's own; `routed_gemm` is what multiplies once they are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.errors import ConfigurationError
from wmmadiag.numerics.element_types import TYPES, ElementType
from wmmadiag.ops.model import (
    Arrays,
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
from wmmadiag.ops.parts.drawn import indices
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.of_experts import SCALES, relative_error, scaled, sizes_of, starts
from wmmadiag.ops.parts.rounding import Doubles, arithmetic, judged
from wmmadiag.ops.parts.settings import EACH_B_STORED, PRODUCTS, by_value, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES


def _sorted(shape: tuple[int, ...], _: ElementType, __: int, rng: np.random.Generator) -> Doubles:
    """Every pair once, in no order."""
    return rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float64)


def _of_experts(inputs: Arrays) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each expert with its pairs of a token and a choice."""
    if "chosen" in inputs:
        chosen = inputs["chosen"].astype(np.int64).reshape(-1)
        yield from ((expert, np.flatnonzero(chosen == expert)) for expert in range(len(inputs["b"])))
    elif "ids" in inputs and "starts" in inputs:
        ids, starts = inputs["ids"].astype(np.int64), inputs["starts"].astype(np.int64)
        for expert in range(len(starts) - 1):
            yield expert, ids[starts[expert] : starts[expert + 1]]
    else:
        raise ConfigurationError(
            "nothing says which experts are chosen", hint="give an array the role 'chosen', or two 'ids' and 'starts'"
        )


def _products(parameters: Values, inputs: Arrays) -> Doubles:
    a, b = scaled(inputs)
    choices = int(parameters["choices"])
    result = np.zeros((len(a) * choices, b.shape[-1]))
    for expert, pairs in _of_experts(inputs):
        result[pairs] = a[pairs // choices] @ b[expert]
    if "weights" in inputs and parameters["weighted"]:
        result = result * inputs["weights"].astype(np.float64).reshape(-1, 1)
    return result.reshape(len(a), choices, -1).sum(axis=1) if parameters["combined"] else result


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    return {"d": _products(parameters, inputs)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of each product: `of_experts.relative_error`, two units for its weight, one for each choice that is added;
    each may be kept in `kept_dtype` before.
    """
    model = arithmetic(parameters, elements["a"])
    choices = int(parameters["choices"])
    relative, absolute = relative_error(inputs, model, 1)
    kind = str(parameters["kept_dtype"])
    narrow = 0.0 if kind == "auto" or not parameters["combined"] else TYPES[kind].unit
    least = 0.0 if kind == "auto" or not parameters["combined"] else TYPES[kind].half_subnormal
    units = (2.0 + choices * bool(parameters["combined"])) * model.unit
    error = _products(parameters, sizes_of(inputs, "weights")) * (relative + units + narrow)
    return judged({"d": error + choices * (absolute + least)}, expected, elements)


OPERATION = Operation(
    name="expert_gemm",
    meaning="D[t, c] = weights[t, c] · a_scales[t] · A[t] · B[e] · b_scales[e], e = chosen[t, c], or their sum over c",
    notes="Which experts a token has is in `chosen`; or in `ids`, the pairs t · choices + c of one expert after the "
    "other, and `starts`, where each expert's begin.",
    roles={
        "a": Role("MK", spellings="a x in input lhs tokens hidden hiddenstates"),
        "b": Role("GKN", spellings="b w weight weights expertweights experts w13 w1 w2"),
        "chosen": Role(
            "MC",
            ("M", "choices"),
            required=False,
            element="int",
            drawn=indices("b", -3),
            spellings="chosen topkids topkindices topkidx topkexperts selectedexperts expertindices expertids",
        ),
        "ids": Role(
            "R",
            ("M*choices",),
            required=False,
            element="int",
            drawn=Drawn(_sorted),
            spellings="ids sortedids sortedtokenids sortedpairs sortedslots sortedtokens tokenids permutation",
        ),
        "starts": Role(
            "E",
            ("G + 1",),
            required=False,
            element="int",
            drawn=Drawn(starts, "ids", -1),
            spellings="starts offsets expertoffsets expertstarts offs indptr groupoffsets",
        ),
        "weights": Role(
            "MC",
            ("M", "choices"),
            required=False,
            spellings="topkweights topkweight routingweights routerweights gatingweights gates gate topkprobs scores",
        ),
        **SCALES,
        "d": Role("RN", ("M if combined else M*choices", "N"), output=True, spellings="d c y out output result"),
    },
    parameters={
        "choices": Parameter("int", "choices", "experts of each token", spellings="topk numexpertspertoken k"),
        "weighted": Parameter(
            "flag",
            "weighted",
            "whether products are weighed",
            spellings="weighted mulroutedweight mulroutedweights mulweights applyweights",
        ),
        "combined": Parameter("flag", "0", "a token's products are added up"),
        "kept_dtype": Parameter(
            "word", "auto", "type that products are kept in before they are added", ("auto", "f16", "bf16")
        ),
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"choices": "1", "weighted": "1", "combined": "0"},
    extents={
        "M*choices": "numel numpairs pairs numvalidtokens validtokens numvalid numslots slots",
        "G": "g groups experts numexperts nexperts e",
        "M": "m rows numtokens tokens t",
        "N": "n cols columns inter intermediate intermediatesize outdim",
        "K": "k inner depth hiddensize hiddendim hidden",
    },
    cases=(
        {"G": 2, "M": 24, "N": 64, "K": 64, "choices": 1},
        {"G": 4, "M": 50, "N": 128, "K": 192, "choices": 2},
    ),
    groups="G",
    work="2*M*choices*N*K",
    signs=Signs(
        "moelayer moeffn expertgemm",
        parts=("gemm", "grouped_gemm", "routed_gemm"),
        agreeing="moe expert experts w8a8 grouped",
        needs=(TENSOR_CORES,),
        excludes=(EXPONENTIAL, ACTIVATION),
        open="its source does not tell how the matrices of experts lie",
    ),
    choices=(
        EACH_B_STORED,
        by_value(
            "Are the products of a token added up?",
            "meaning",
            "combined",
            {"a row for each choice of a token": "0", "a token's products added up": "1"},
        ),
        by_value(
            "In which type are products kept before they are added?",
            "arithmetic",
            "kept_dtype",
            {
                "products kept in the working type": "auto",
                "products kept in bf16": "bf16",
                "products kept in f16": "f16",
            },
            "a",
            types=("f16", "bf16"),
        ),
        *types_of_products("a"),
    ),
)
