"""The scores of an attention."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from wmmadiag.ops.model import Arrays, Elements, Judged, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import sequence
from wmmadiag.ops.parts.drawn import SCALES_OF_BYTES
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import U32, Doubles, arithmetic, judged, magnitudes, product_error
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import as_heads, score_rows
from wmmadiag.ops.parts.settings import PRODUCTS, by_value, types_of_products
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES

# What kernels write where a key is masked, by how it is said.
_MASKED = {"-inf": -math.inf, "lowest": -3.4028234663852886e38, **{one: float(one) for one in ("-1e4", "-1e9", "-1e20",
           "-1e30")}, "0": 0.0}  # fmt: skip


def qkt(q: NDArray[Any], k: NDArray[Any], *, scale: float, terms: ScoreTerms) -> Doubles:
    """softcap(scale·Q·Kᵀ) + bias, shaped (B, H, Sq, Skv) without the axes that q lacks; -inf where a key is masked."""
    q4, k4 = as_heads(q), as_heads(k)
    out = np.empty((*q4.shape[:3], k4.shape[2]))
    for part in score_rows(q4, k4, scale=scale, terms=terms):
        out[(*part.head, part.rows)] = part.scores
    return out.reshape(*q.shape[:-1], k4.shape[2])


def _scaled(parameters: Values, inputs: Arrays) -> tuple[NDArray[Any], NDArray[Any]]:
    """Q and K, each row times the scale of its block.

    Raises:
        ValueError: blocks do not divide the rows.
    """
    found = []
    for role in ("q", "k"):
        rows, scales = inputs[role], inputs.get(f"scale_{role}")
        if scales is not None:
            each = np.repeat(scales.astype(np.float64), int(parameters[f"{role}_block"]), axis=-1)
            if each.shape[-1] != rows.shape[-2]:
                raise ValueError(f"there are scales of {each.shape[-1]} rows of {role}")
            rows = rows.astype(np.float64) * each.reshape(*each.shape[:-1], -1, 1)
        found.append(rows)
    return found[0], found[1]


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    terms = score_terms(parameters, inputs, inputs["q"].shape[-2], inputs["k"].shape[-2])
    scores = qkt(*_scaled(parameters, inputs), scale=float(parameters["scale"]), terms=terms)
    if terms.masks:
        scores[np.isneginf(scores)] = _MASKED[str(parameters.get("masked_scores", "-inf"))]
    return {"scores": scores}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of softcap(scale·Q·Kᵀ) + bias.

    `sum_error`·|scale|Σ|q||k|, two units for the scale and its product; five more of Σ|q||k| for scales of rows, the
    conversion of a whole sum among them, and products that are flushed times the largest of them; then
    `scores.terms_error`, and output rounding. A masked score is a constant.
    """
    model = arithmetic(parameters, elements["q"])
    q, k = _scaled(parameters, inputs)
    scale = float(parameters.get("scale", 1.0))
    product = product_error(q.shape[-1], model)
    total = qkt(magnitudes(q), magnitudes(k), scale=abs(scale), terms=ScoreTerms(q.shape[-2], k.shape[-2]))
    terms = score_terms(parameters, inputs, q.shape[-2], k.shape[-2])
    error = total * product.relative + product.absolute * abs(scale)
    if scales := [magnitudes(inputs[role]) for role in ("scale_q", "scale_k") if role in inputs]:
        largest = float(np.prod([one.max(initial=1.0) for one in scales]))
        error = error + 5.0 * U32 * total + product.absolute * abs(scale) * largest
    if terms.modifies:
        added = np.empty((*as_heads(q).shape[:3], k.shape[-2]))
        for part in score_rows(as_heads(q), as_heads(k), scale=scale, terms=terms):
            added[(*part.head, part.rows)] = terms_error(part, terms, parameters, model, product.relative)
        error = error + added.reshape(expected["scores"].shape)
    else:
        finite = np.nan_to_num(expected["scores"], posinf=0.0, neginf=0.0)
        error = error + np.abs(finite) * (0.0 if scale == 1.0 else 3.0 * model.unit)
    if terms.masks:
        error = np.where(np.isneginf(qkt(q, k, scale=scale, terms=terms)), 0.0, error)
    return judged({"scores": error}, expected, elements)


OPERATION = replace(
    sequence.OF_HEADS,
    name="qkt",
    meaning="scores = softcap(scale · scales · Q·Kᵀ) + bias − slope·|i − j|",
    roles={
        "q": Role("BHSD", ("B", "H", "Sq", "D"), spellings="q query queries a"),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D"), spellings="k key keys b"),
        "scale_q": Role(
            "BHS",
            ("B", "H", "Sq//q_block"),
            required=False,
            element="float",
            drawn=SCALES_OF_BYTES,
            spellings="qscale scaleq qscales scalesq descaleq qdescale",
        ),
        "scale_k": Role(
            "BHS",
            ("B", "Hkv", "Skv//k_block"),
            required=False,
            element="float",
            drawn=SCALES_OF_BYTES,
            spellings="kscale scalek kscales scalesk descalek kdescale",
        ),
        **sequence.ADDED,
        "scores": Role(
            "BHSK", ("B", "H", "Sq", "Skv"), output=True, spellings="s score scores c o out output qk qkt attn p"
        ),
    },
    parameters={
        "scale": Parameter("real", "1", "factor of Q·Kᵀ", spellings=sequence.SCALE_SPELLINGS),
        "causal": Parameter("flag", "causal", "whether key j > query i is masked", spellings=sequence.CAUSAL_SPELLINGS),
        "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
        "masked_scores": Parameter(
            "word", "-inf", "what a masked score is; lowest: the most negative float32", tuple(_MASKED)
        ),
        "q_block": Parameter("int", "1", "rows of Q that have a scale together", of="scale_q"),
        "k_block": Parameter("int", "1", "rows of K that have a scale together", of="scale_k"),
        **sequence.SOFTCAP,
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    products=lambda _: {"scores": sequence.SCORE_PRODUCT},
    derived=sequence.DERIVED,
    work="2*B*H*Sq*Skv*D",
    hard_inputs=SCORES,
    signs=Signs(
        "qk qkt", ("gemm", "attention"), needs=(TENSOR_CORES,), excludes=(EXPONENTIAL, ACTIVATION), arrays=True
    ),
    choices=(
        sequence.MASKED_KEYS,
        by_value(
            "What is a masked score?", "meaning", "masked_scores", {f"masked scores {one}": one for one in _MASKED}
        ),
        *(
            by_value(
                f"How many rows of {role.upper()} have a scale together?",
                "storage",
                f"{role}_block",
                {f"a scale for each {rows} rows of {role.upper()}": str(rows) for rows in (1, 16, 32, 64, 128)},
                f"scale_{role}",
            )
            for role in ("q", "k")
        ),
        sequence.laid_out("q", "k"),
        sequence.turned("k"),
        *types_of_products("q"),
    ),
)
