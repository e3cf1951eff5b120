"""The second half of an attention: the softmax of scores that are given, and its product with the values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wmmadiag.ops.catalogue.attention import errors_of_rows
from wmmadiag.ops.model import Arrays, Drawn, Elements, Judged, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import rounding, sequence
from wmmadiag.ops.parts.drawn import BITS, KEY_COUNTS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import ScoreRows, as_heads, softmax_rows
from wmmadiag.ops.parts.settings import EXPONENTIALS, FLOAT_TYPES, PRODUCTS, by_value, kept_in, types_of_products
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES


def _terms(parameters: Values, inputs: Arrays) -> ScoreTerms:
    return score_terms(parameters, inputs, *inputs["s"].shape[-2:])


def _parts(parameters: Values, inputs: Arrays) -> Iterator[ScoreRows]:
    """The scores of each head, scaled and masked, as products of themselves with the identity."""
    scores, v, terms = as_heads(inputs["s"]), as_heads(inputs["v"]), _terms(parameters, inputs)
    rows, same = np.arange(scores.shape[2]), np.eye(scores.shape[3])
    for batch, head in np.ndindex(scores.shape[:2]):
        given = scores[batch, head].astype(np.float64)
        scaled = given * float(parameters["scale"])
        changed = terms.score(scaled, (batch, head), rows) if terms.modifies else scaled
        if terms.masks:
            changed = np.where(terms.allowed((batch, head), rows), changed, -np.inf)
        of_keys = (batch, head // (scores.shape[1] // v.shape[1]))
        yield ScoreRows((batch, head), of_keys, slice(0, len(rows)), given, same, changed, scaled)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    s, v = inputs["s"], as_heads(inputs["v"])
    out = np.empty((*as_heads(s).shape[:3], v.shape[3]))
    for part in _parts(parameters, inputs):
        out[part.head] = softmax_rows(part.scores)[0] @ v[part.kv_head].astype(np.float64)
    return {"o": out.reshape(*s.shape[:-1], v.shape[3])}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of softmax(scale · S + …) · V: that of an attention's rows, S being the product of itself and the identity.

    The scores' own error is larger by that than it is, a few units of the working type for each key; P's rounding and
    the product with V are as in `attention`. A row without any key is expected to be 0 or not finite.
    """
    model = rounding.arithmetic(parameters, elements["v"])
    v, terms, expected_o = as_heads(inputs["v"]), _terms(parameters, inputs), as_heads(expected["o"])
    error, empty = np.empty(expected_o.shape), np.zeros(expected_o.shape, np.bool_)
    scale = float(parameters["scale"])
    for part in _parts(parameters, inputs):
        values = v[part.kv_head].astype(np.float64)
        error[part.head], _ = errors_of_rows(part, values, expected_o[part.head], scale, model, terms, parameters)
        empty[part.head] = ~np.isfinite(part.scores).any(axis=-1, keepdims=True)
    error[empty] = 0.0
    shape = expected["o"].shape
    bound = rounding.output_rounding(error.reshape(shape), expected["o"], elements["o"])
    return {"o": rounding.Judgement(bound, empty.reshape(shape) if empty.any() else None)}


OPERATION = replace(
    sequence.OF_HEADS,
    name="softmax_pv",
    meaning="O = softmax(scale · S + bias + mask) · V",
    roles={
        "s": Role("BHSK", sequence.OVER_SCORES, spellings="s scores score qk logits attnscores attn"),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv"), spellings="v value values"),
        **sequence.ADDED,
        "mask": Role(
            "BHSK",
            sequence.OVER_SCORES,
            required=False,
            usual="SK",
            drawn=BITS,
            spellings="keypaddingmask paddingmask padmask keymask",
        ),
        "lengths": Role(
            "B",
            sequence.OVER_SCORES[:1],
            required=False,
            usual="B",
            drawn=Drawn(KEY_COUNTS.values, "v", -2),
            element="int",
            spellings="lens lengths seqlens kvlens kvlengths seqlensk",
        ),
        "o": Role("BHSD", ("B", "H", "Sq", "Dv"), output=True, spellings="o out output result context y"),
    },
    parameters={
        "scale": Parameter("real", "scale", "factor of S", spellings=sequence.SCALE_SPELLINGS, drafted=("1", "0.5")),
        "causal": Parameter("flag", "causal", "whether key j > query i is masked", spellings=sequence.CAUSAL_SPELLINGS),
        "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
        "mask_hides": Parameter("flag", "0", "what is not 0 in the mask hides a key, instead of keeping it"),
        "p_dtype": Parameter("word", "auto", "type that P is rounded to before P·V", ("auto", *FLOAT_TYPES)),
        **PRODUCTS,
        **EXPONENTIALS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={**sequence.SYMBOLS, "scale": "1"},
    work="2*B*H*Sq*Skv*Dv",
    signs=Signs(
        "softmaxpv softmaxv softmaxmatmul softmaxmatmulv softmaxbmm softmaxgemm maskedsoftmaxbmm softmaxavg",
        parts=("softmax", "pv", "gemm", "attention"),
        needs=(TENSOR_CORES, EXPONENTIAL),
        arrays=True,
    ),
    choices=(
        sequence.MASKED_KEYS,
        by_value(
            "What are the scores multiplied by?",
            "meaning",
            "scale",
            {"scores as they are": "1", "scores multiplied by 1/√D": "1/sqrt(Dv)"},
        ),
        sequence.laid_out("v", "o"),
        sequence.turned("v"),
        *types_of_products("v"),
        kept_in("v", "weights", "p_dtype", "auto", "bf16"),
    ),
)
