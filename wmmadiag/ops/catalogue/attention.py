"""Attention, whichever way a kernel orders it: in one pass, online, or split over warps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from wmmadiag.ops.model import (
    COLUMN,
    ROW,
    Alternative,
    Arrays,
    Choice,
    Elements,
    Judged,
    MatrixProduct,
    Outputs,
    Packed,
    Parameter,
    Role,
    Signs,
    Values,
)
from wmmadiag.ops.parts import rounding, sequence
from wmmadiag.ops.parts.drawn import BITS, KEY_COUNTS
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import ScoreRows, as_heads, score_rows, softmax_rows
from wmmadiag.ops.parts.settings import EXPONENTIALS, FLOAT_TYPES, PRODUCTS, by_settings, kept_in, types_of_products
from wmmadiag.ops.parts.softmax_bounds import SLACK, row_sum_error, weight_errors
from wmmadiag.ops.parts.traits import EXPONENTIAL
from wmmadiag.ops.stages.softmax_judge import SoftmaxStages

_WINDOW = "that a query sees beside its own; -1: all"
_SIDES = ("window_left", "window_right")


def attention(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], *, scale: float, terms: ScoreTerms
) -> tuple[rounding.Doubles, rounding.Doubles]:
    """O = softmax(softcap(scale·Q·Kᵀ) + bias + mask)·V and the log-sum-exp of each row.

    Args:
        q: (B, H, Sq, D); k: (B, Hkv, Skv, D); v: (B, Hkv, Skv, Dv); leading axes may be missing in all three.
        scale, terms: as in `score_rows`.

    Returns:
        O shaped (B, H, Sq, Dv) and the log-sum-exp (B, H, Sq), without the axes that q lacks. A row without any key
        is 0, its log-sum-exp -inf.
    """
    q4, k4, v4 = as_heads(q), as_heads(k), as_heads(v)
    out = np.empty((*q4.shape[:3], v4.shape[3]))
    lse = np.empty(q4.shape[:3])
    for part in score_rows(q4, k4, scale=scale, terms=terms):
        weights, lse_rows = softmax_rows(part.scores)
        out[(*part.head, part.rows)] = weights @ v4[part.kv_head].astype(np.float64)
        lse[(*part.head, part.rows)] = lse_rows
    return out.reshape(*q.shape[:-1], v4.shape[3]), lse.reshape(q.shape[:-1])


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    q, k, v = (inputs[role] for role in "qkv")
    terms = score_terms(parameters, inputs, q.shape[-2], k.shape[-2])
    out, lse = attention(q, k, v, scale=float(parameters["scale"]), terms=terms)
    if parameters["masked_rows"] == "nan":
        out[np.isneginf(lse)] = np.nan
    return {"o": out, "lse": lse}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of O and of the log-sum-exp.

    Inputs are exact: the reference reads the rounded ones. With w the reference's weights and o its output,

    1. Scores. A sum of D products costs `sum_error`·Σ|q||k|·|scale|; tf32 operands add their
       truncation, a scaled Q in a narrow type its rounding. What follows it is in `scores.terms_error`.
    2. Weights. `softmax.weight_errors` gives ε_ij relative to each. Numerator and denominator share them, so they
       move o by Σ w ε (v - o) / (1 - Σ w ε), at most Σ w ε (|v| + |o|) / (1 - Σ w ε); and never beyond the range of
       the v's, as any weights average them.
    3. P in a narrower type: u_P·w, and below its normal range 2⁻²⁵ (f16). (P is stored relative to the running
       maximum or normalised; both are at least w, so the absolute part is largest for the latter.)
       The row sum may be taken before or after this rounding: both |v| and |o| count.
    4. P·V. A sum of Skv products, each rescaling rounding it once more: `sum_error`·Σ w|v|.
    5. Row sum and division: (Skv + R + 8)·u and 4u, relative to |o|.
    6. Rounding to the output's type.

    A row without any key is expected to be 0 or not finite, unless `masked_rows` says which.

    Sources: Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1 and 4.2, for the sums; the
    tensor cores' in `parts.rounding`.
    """
    model = rounding.arithmetic(parameters, elements["q"])
    scale = float(parameters["scale"])
    q4, k4, v4 = (as_heads(inputs[role]) for role in "qkv")
    terms = score_terms(parameters, inputs, q4.shape[2], k4.shape[2])
    o4 = as_heads(expected["o"])
    error_o = np.empty(o4.shape)
    error_lse = np.empty(o4.shape[:3])
    for part in score_rows(q4, k4, scale=scale, terms=terms):
        where = (*part.head, part.rows)
        v64 = v4[part.kv_head].astype(np.float64)
        error_o[where], error_lse[where] = errors_of_rows(part, v64, o4[where], scale, model, terms, parameters)
    empty = np.isneginf(expected["lse"])
    error_o = error_o.reshape(expected["o"].shape)
    error_lse = error_lse.reshape(expected["lse"].shape)
    rows = error_o.shape[:-1]
    error_o[empty.reshape(rows)] = 0.0
    error_lse[empty] = 0.0
    free = empty if parameters["masked_rows"] == "any" and empty.any() else None
    o_bound = rounding.output_rounding(error_o, expected["o"], elements["o"])
    of_o = None if free is None else np.broadcast_to(free.reshape(rows)[..., None], o_bound.shape)
    judged = {"o": rounding.Judgement(o_bound, of_o)}
    if "lse" in elements:
        judged["lse"] = rounding.Judgement(rounding.output_rounding(error_lse, expected["lse"], elements["lse"]), free)
    return judged


def errors_of_rows(
    part: ScoreRows,
    v: rounding.Doubles,
    o: rounding.Doubles,
    scale: float,
    model: rounding.Arithmetic,
    terms: ScoreTerms,
    parameters: Values,
) -> tuple[rounding.Doubles, rounding.Doubles]:
    """Errors of O (rows, Dv) and of the log-sum-exp (rows,) for some rows of one head, outputs' rounding aside."""
    depth, keys = part.q.shape[1], part.k.shape[0]
    dot = rounding.sum_error(depth, model)
    relative_dot = dot.relative + rounding.operand_error(model) + model.scaled_query + rounding.oracle_error(depth)
    factor = abs(scale) * SLACK
    score_error = (np.abs(part.q) * (relative_dot * factor)).astype(np.float32) @ np.abs(part.k).astype(np.float32).T
    score_error += np.float32(dot.absolute * factor)
    if terms.modifies:
        score_error += terms_error(part, terms, parameters, model, relative_dot).astype(np.float32)
    found = weight_errors(part.scores, score_error, model)
    size = np.abs(v)
    narrow = size.astype(np.float32)
    average = (found.weights @ narrow).astype(np.float64) * SLACK
    reach = v.max(axis=0) - v.min(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = found.errors.sum(axis=-1, keepdims=True, dtype=np.float64)
        first = (found.errors @ narrow) * SLACK + np.abs(o) * total
        moved = np.minimum(np.where(total < 0.5, first / np.maximum(1.0 - total, 0.5), np.inf), reach)
        relative, floor = _p_rounding(model)
        lost = relative * (average + np.abs(o)) + floor * (size.sum(axis=0) + keys * np.abs(o))
        products = rounding.sum_error(keys, model, extra=int(found.rescale.max(initial=0.0)))
        within = np.minimum(average + moved, size.max(axis=0))
        summed = within * (products.relative + model.operand + rounding.oracle_error(keys)) + products.absolute
        sum_part = row_sum_error(keys, model, found.rescale)
        error = moved + lost + summed
        error = error + (np.abs(o) + error) * (sum_part[:, None] + 4.0 * model.unit)
        share = np.minimum(total[:, 0] + relative + keys * floor, 1e300)
        # log: the relative error of its argument, and roundings of the scaled maximum, the logarithm and their sum.
        log_error = np.where(share < 0.5, share / np.maximum(1.0 - share, 0.5), np.inf) + sum_part
        log_error = log_error + 16.0 * model.unit * (1.0 + np.abs(found.largest) + np.log(keys + 1.0))
    return error, log_error


def _p_rounding(model: rounding.Arithmetic) -> tuple[float, float]:
    """Relative and absolute error of each weight when P is rounded to its type: step 3 of the derivation."""
    if model.p_type is None:
        return 0.0, 0.0
    unit = 2.0**-10 if model.p_type.name == "tf32" else model.p_type.unit  # tf32 may be truncated
    return unit, model.p_type.half_subnormal


def _kept(parameters: Values, inputs: Arrays, rows: int) -> Callable[[tuple[int, ...]], NDArray[np.bool_]] | None:
    terms = score_terms(parameters, inputs, rows, inputs["k"].shape[-2])

    def of_head(lead: tuple[int, ...]) -> NDArray[np.bool_]:
        batch, head = (0, 0, *lead)[-2:]
        return terms.allowed((batch, head), np.arange(rows))

    return of_head if terms.masks else None


OPERATION = replace(
    sequence.OF_HEADS,
    name="attention",
    meaning="O = softmax(softcap(scale · Q·Kᵀ) + bias − slope·|i − j| + mask) · V",
    roles={
        "q": Role("BHSD", ("B", "H", "Sq", "D"), spellings="q sq query queries"),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D"), spellings="k key keys kcache keycache"),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv"), spellings="v value values val vcache valuecache"),
        **sequence.ADDED,
        "mask": Role("BHSK", sequence.OVER_SCORES, required=False, usual="SK", drawn=BITS),
        "lengths": Role(
            "B",
            sequence.OVER_SCORES[:1],
            required=False,
            usual="B",
            drawn=KEY_COUNTS,
            element="int",
            spellings="lens lengths seqlens kvlens kvlengths seqlensk seqlenskv kvseqlens cacheseqlens contextlens "
            "sequsedk",
        ),
        "o": Role(
            "BHSD",
            ("B", "H", "Sq", "Dv"),
            output=True,
            spellings="o out output outputs y res result attn attnout context",
        ),
        "lse": Role(
            "BHS",
            ("B", "H", "Sq"),
            output=True,
            required=False,
            spellings="lse softmaxlse logsumexp l li",
            unless_with=("l li", "m max rowmax mi"),
        ),
    },
    parameters={
        "scale": Parameter("real", "1/sqrt(D)", "factor of Q·Kᵀ", spellings=sequence.SCALE_SPELLINGS),
        "causal": Parameter("flag", "causal", "whether key j > query i is masked", spellings=sequence.CAUSAL_SPELLINGS),
        "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
        "window_left": Parameter(
            "reach",
            "-1",
            f"keys before its own {_WINDOW}",
            spellings="window windowsize windowleft windowsizeleft leftwindow slidingwindow slidingwindowsize "
            "attnwindow localwindow",
            drafted=("24", "40"),  # smaller than any sequence of a case: a window that hides nothing shows nothing
        ),
        "mask_hides": Parameter("flag", "0", "what is not 0 in the mask hides a key, instead of keeping it"),
        "window_right": Parameter("reach", "-1", f"keys after its own {_WINDOW}"),
        **sequence.SOFTCAP,
        "p_dtype": Parameter("word", "auto", "type that P is rounded to before P·V", ("auto", *FLOAT_TYPES)),
        "scaled_q_dtype": Parameter("word", "none", "type that scale·Q is rounded to", ("none", *FLOAT_TYPES)),
        "score_dtype": Parameter("word", "f32", "type that scores are kept in", ("f16", "bf16", "f32", "f64")),
        "masked_rows": Parameter("word", "any", "a row with no key", ("any", "zero", "nan")),
        **PRODUCTS,
        **EXPONENTIALS,
    },
    oracle=_oracle,
    bound=_bound,
    products=lambda _: {"o": MatrixProduct(sequence.SCORE_PRODUCT, COLUMN, "v", ROW)},
    stages=SoftmaxStages,
    kept=_kept,
    single={"Sq": "one query in each head"},
    derived=sequence.DERIVED,
    packed={
        "qkv": Packed(("q", "k", "v"), sequence.laid_together(3), "qkv packedqkv qkvpacked"),
        "kv": Packed(("k", "v"), sequence.laid_together(2), "kv packedkv kvpacked"),
    },
    work="2*B*H*Sq*Skv*(D + Dv)*(0.5 if causal else 1)",
    hard_inputs=SCORES,
    signs=Signs(
        "attn attention flash fmha mha sdpa fa flashattn flashattention",
        parts=("gemm", "softmax", "qkt", "pv"),
        needs=(EXPONENTIAL,),
        # The running sum and maximum of a flash attention, as its paper calls them.
        scratch="l m",
        arrays=True,
    ),
    choices=(
        sequence.MASKED_KEYS,
        by_settings(
            "Which keys does a window of W show?",
            {
                "a window of so many keys before a query's own": {"window_left": "window_left"},
                "a window that counts a query's own key": {"window_left": "window_left - 1"},
                "a window on both sides": dict.fromkeys(_SIDES, "window_left"),
                "a window half of which is on each side": dict.fromkeys(_SIDES, "window_left // 2"),
            },
        ),
        sequence.laid_out("q", "k", "v", "o"),
        sequence.turned("k"),
        Choice(
            "What are the scores multiplied by?",
            "meaning",
            (
                Alternative("a scale of 1/√D", {"scale": "1/sqrt(D)"}),
                Alternative("a scale of 1", {"scale": "1"}, deliberate=False),
            ),
        ),
        kept_in("q", "scaled queries", "scaled_q_dtype", "none", "f16", "bf16"),
        kept_in("q", "scores", "score_dtype", "f32", "f16", "bf16"),
        *types_of_products("q"),
        kept_in("q", "weights", "p_dtype", "auto", "bf16"),
        kept_in("q", "exponentials", "exp_dtype", "f32", "f16"),
    ),
)
