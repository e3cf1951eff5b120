"""The scores of an attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wmmadiag.ops.model import Arrays, Elements, Operation, Parameter, Role, Told, Values
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import (
    Doubles,
    Judgement,
    arithmetic,
    magnitudes,
    operand_error,
    oracle_error,
    output_rounding,
    sum_error,
)
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import as_heads, score_rows
from wmmadiag.ops.parts.sequence import (
    ADDED,
    CASES,
    DERIVED,
    EXTENTS,
    MADE_FOR,
    SCALE_SPELLINGS,
    SCORE_PRODUCT,
    SOFTCAP,
    SYMBOLS,
    laid_out,
    turned,
)
from wmmadiag.ops.parts.settings import PRODUCTS, inputs_rounded, sums_kept_in
from wmmadiag.ops.parts.traits import ACTIVATION, EXPONENTIAL, TENSOR_CORES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def qkt(q: NDArray[Any], k: NDArray[Any], *, scale: float = 1.0, terms: ScoreTerms | None = None) -> Doubles:
    """softcap(scale·Q·Kᵀ) + bias, shaped (B, H, Sq, Skv) without the axes that q lacks."""
    q4, k4 = as_heads(q), as_heads(k)
    out = np.empty((*q4.shape[:3], k4.shape[2]))
    for part in score_rows(q4, k4, scale=scale, terms=terms):
        out[(*part.head, part.rows)] = part.scores
    return out.reshape(*q.shape[:-1], k4.shape[2])


def _oracle(parameters: Values, inputs: Arrays) -> dict[str, Doubles]:
    terms = score_terms(parameters, inputs, inputs["q"].shape[-2], inputs["k"].shape[-2])
    return {"scores": qkt(inputs["q"], inputs["k"], scale=float(parameters["scale"]), terms=terms)}


def _bound(
    parameters: Values, inputs: Arrays, expected: Mapping[str, Doubles], elements: Elements
) -> dict[str, Judgement]:
    """Bound of softcap(scale·Q·Kᵀ) + bias.

    `sum_error`·|scale|Σ|q||k|, two units for the scale and its product; then `scores.terms_error`, and output rounding.
    """
    model = arithmetic(parameters, elements["q"])
    q, k = inputs["q"], inputs["k"]
    scale = float(parameters.get("scale", 1.0))
    products = sum_error(q.shape[-1], model)
    total = qkt(magnitudes(q), magnitudes(k), scale=abs(scale))
    relative = products.relative + operand_error(model) + oracle_error(q.shape[-1])
    terms = score_terms(parameters, inputs, q.shape[-2], k.shape[-2])
    error = total * relative + products.absolute * abs(scale)
    if terms.modifies:
        added = np.empty((*as_heads(q).shape[:3], k.shape[-2]))
        for part in score_rows(as_heads(q), as_heads(k), scale=scale, terms=terms):
            added[(*part.head, part.rows)] = terms_error(part, terms, parameters, model, relative)
        error = error + added.reshape(expected["scores"].shape)
    else:
        error = error + np.abs(expected["scores"]) * (0.0 if scale == 1.0 else 3.0 * model.unit)
    return {"scores": Judgement(output_rounding(error, expected["scores"], elements["scores"]))}


OPERATION = Operation(
    name="qkt",
    meaning="scores = softcap(scale · Q·Kᵀ) + bias − slope·|i − j|",
    roles={
        "q": Role("BHSD", ("B", "H", "Sq", "D"), spellings="q query queries a"),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D"), spellings="k key keys b"),
        **ADDED,
        "scores": Role(
            "BHSK", ("B", "H", "Sq", "Skv"), output=True, spellings="s score scores c o out output qk qkt attn p"
        ),
    },
    parameters={
        "scale": Parameter("real", "1", "factor of Q·Kᵀ", spellings=SCALE_SPELLINGS),
        **SOFTCAP,
        **PRODUCTS,
    },
    oracle=_oracle,
    bound=_bound,
    products=lambda _: {"scores": SCORE_PRODUCT},
    symbols=SYMBOLS,
    made_for=MADE_FOR,
    separate=("B", "H", "Hkv"),
    divisors={"Hkv": "H"},
    extents=EXTENTS,
    derived=DERIVED,
    cases=CASES,
    work="2*B*H*Sq*Skv*D",
    hard_inputs=SCORES,
    told=Told("qk qkt", ("gemm", "attention"), needs=(TENSOR_CORES,), excludes=(EXPONENTIAL, ACTIVATION), arrays=True),
    choices=(laid_out("q", "k"), turned("k"), sums_kept_in("q"), inputs_rounded("q")),
)
