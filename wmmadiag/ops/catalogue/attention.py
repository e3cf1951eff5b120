"""Attention, whichever way a kernel orders it: in one pass, online, or split over warps."""

from __future__ import annotations

from wmmadiag.ops.model import Alternative, Choice, Operation, Packed, Parameter, Role
from wmmadiag.ops.parts.sequence import (
    ADDED,
    CASES,
    DERIVED,
    EXTENTS,
    OVER_SCORES,
    SCALE_SPELLINGS,
    SOFTCAP,
    SYMBOLS,
    laid_out,
    turned,
)
from wmmadiag.ops.parts.settings import EXPONENTIALS, FLOAT_TYPES, PRODUCTS, inputs_rounded, kept_in, sums_kept_in

_WINDOW = "that a query sees beside its own; -1: all"

OPERATION = Operation(
    "attention",
    "O = softmax(softcap(scale · Q·Kᵀ) + bias − slope·|i − j| + mask) · V",
    {
        "q": Role("BHSD", ("B", "H", "Sq", "D"), spellings="q query queries"),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D"), spellings="k key keys"),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv"), spellings="v value values val"),
        **ADDED,
        "mask": Role("BHSK", OVER_SCORES, required=False, usual="SK", drawn="bits"),
        "lengths": Role(
            "B",
            OVER_SCORES[:1],
            required=False,
            usual="B",
            drawn="lengths",
            spellings="lens lengths seqlens kvlens kvlengths seqlensk seqlenskv kvseqlens cacheseqlens contextlens "
            "sequsedk",
        ),
        "o": Role(
            "BHSD",
            ("B", "H", "Sq", "Dv"),
            output=True,
            spellings="o out output outputs y res result attn attnout context",
        ),
        "lse": Role("BHS", ("B", "H", "Sq"), output=True, required=False, spellings="lse softmaxlse logsumexp l li"),
    },
    {
        "scale": Parameter("real", "1/sqrt(D)", "factor of Q·Kᵀ", spellings=SCALE_SPELLINGS),
        "causal": Parameter(
            "flag", "causal", "whether key j > query i is masked", spellings="causal iscausal usecausal"
        ),
        "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
        "window_left": Parameter("reach", "-1", f"keys before its own {_WINDOW}"),
        "mask_hides": Parameter("flag", "0", "what is not 0 in the mask hides a key, instead of keeping it"),
        "window_right": Parameter("reach", "-1", f"keys after its own {_WINDOW}"),
        **SOFTCAP,
        "p_dtype": Parameter("word", "auto", "type that P is rounded to before P·V", ("auto", *FLOAT_TYPES)),
        "scaled_q_dtype": Parameter("word", "none", "type that scale·Q is rounded to", ("none", *FLOAT_TYPES)),
        "score_dtype": Parameter("word", "f32", "type that scores are kept in", ("f16", "bf16", "f32", "f64")),
        "masked_rows": Parameter("word", "any", "a row with no key", ("any", "zero", "nan")),
        **PRODUCTS,
        **EXPONENTIALS,
    },
    SYMBOLS,
    EXTENTS,
    DERIVED,
    packed={
        "qkv": Packed(("q", "k", "v"), "BS3HD", "qkv packedqkv qkvpacked"),
        "kv": Packed(("k", "v"), "BS2HD", "kv packedkv kvpacked"),
    },
    cases=CASES,
    choices=(
        Choice(
            "Which keys does a query see?",
            "meaning",
            (
                Alternative("no mask", {"causal": "0"}),
                Alternative("a causal mask", {"causal": "1", "alignment": "top-left"}),
                Alternative(
                    "a causal mask aligned to the bottom-right corner", {"causal": "1", "alignment": "bottom-right"}
                ),
            ),
        ),
        laid_out("q", "k", "v", "o"),
        turned("k", "BHSD", "BHDS"),
        Choice(
            "What are the scores multiplied by?",
            "meaning",
            (
                Alternative("a scale of 1/√D", {"scale": "1/sqrt(D)"}),
                Alternative("a scale of 1", {"scale": "1"}, deliberate=False),
            ),
        ),
        sums_kept_in("q"),
        inputs_rounded("q"),
        kept_in("scores", "score_dtype", "f32", "f16", "bf16"),
        kept_in("weights", "p_dtype", "auto", "f16", "bf16"),
        kept_in("scaled queries", "scaled_q_dtype", "none", "f16", "bf16"),
        kept_in("exponentials", "exp_dtype", "f32", "f16"),
    ),
)
