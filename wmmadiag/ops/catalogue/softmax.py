"""The softmax of rows, scaled and masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wmmadiag.ops.model import Arrays, Elements, Judged, Operation, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts.drawn import BITS
from wmmadiag.ops.parts.hard_inputs import SCORES
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Judgement, arithmetic, oracle_error, output_rounding
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import ScoreRows, softmax_rows
from wmmadiag.ops.parts.settings import EXPONENTIALS, by_flag, by_settings, kept_in
from wmmadiag.ops.parts.softmax_bounds import row_sum_error, weight_errors
from wmmadiag.ops.parts.traits import EXPONENTIAL

_ROWS = ("batch", "M", "N")


def _scores(x: NDArray[Any], scale: float, terms: ScoreTerms) -> Iterator[ScoreRows]:
    """The scaled and masked rows of each matrix."""
    matrices = x.reshape(-1, *x.shape[-2:])
    rows = np.arange(matrices.shape[1])
    for number, matrix in enumerate(matrices):
        scaled = matrix.astype(np.float64) * scale
        head = (0, number)
        scores = terms.score(scaled, head, rows) if terms.modifies else scaled
        if terms.masks:
            scores = np.where(terms.allowed(head, rows), scores, -np.inf)
        yield ScoreRows(head, head, slice(0, len(rows)), scaled, scaled, scores, scaled)


def softmax(x: NDArray[Any], *, scale: float = 1.0, terms: ScoreTerms | None = None) -> Doubles:
    """Exponentials of the scores over their sum along the last axis, shaped as x; 0 in rows in which all is masked.

    Args:
        x: (…, M, N). terms: what is added to scale·X, and which columns j of a row i are masked.
    """
    wide = x if x.ndim > 1 else x[None]
    terms = terms or ScoreTerms(*wide.shape[-2:])
    return np.stack([softmax_rows(part.scores)[0] for part in _scores(wide, scale, terms)]).reshape(x.shape)


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    x = np.atleast_2d(inputs["x"])
    terms = score_terms(parameters, inputs, *x.shape[-2:])
    y = softmax(x, scale=float(parameters["scale"]), terms=terms)
    if parameters["masked_rows"] == "nan":
        y[~y.any(axis=-1)] = np.nan
    return {"y": y.reshape(inputs["x"].shape)}


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bound of softmax(scale·X + bias) along the last axis.

    y = e/Σe with relative errors ε on each e, which `softmax_bounds.weight_errors` derives, the scores' own from
    `score_bounds.terms_error`: y's relative error is at most (ε + Σy·ε)/(1 - Σy·ε), plus the sum's rounding, the
    division (4u: approximate reciprocal and product), and the output's rounding. y ≤ 1 caps it. A row in which all is
    masked is expected to be 0 or not finite, unless `masked_rows` says which.
    """
    model = arithmetic(parameters, elements["x"])
    x = np.atleast_2d(inputs["x"])
    count = x.shape[-1]
    terms = score_terms(parameters, inputs, *x.shape[-2:])
    errors, empty = [], []
    for part in _scores(x, float(parameters["scale"]), terms):
        own = terms_error(part, terms, parameters, model, 0.0).astype(np.float32) if terms.modifies else 0.0
        weights, _ = softmax_rows(part.scores)
        found = weight_errors(part.scores, own, model)
        shared = found.errors.sum(axis=-1, keepdims=True, dtype=np.float64)
        share = np.where(shared < 0.5, 1.0 / np.maximum(1.0 - shared, 0.5), np.inf)
        rest = row_sum_error(count, model, found.rescale)[:, None] + 4.0 * model.unit + oracle_error(count)
        with np.errstate(invalid="ignore"):
            error = (found.errors + weights * shared) * share + weights * rest
        # Underflow: a flushed exponential is at most 2⁻¹²⁶ of the largest, and so is what float32 loses here.
        errors.append(np.minimum(error + 2.0**-120, 1.0))
        empty.append(~np.isfinite(part.scores).any(axis=-1))
    shape = expected["y"].shape
    without = np.stack(empty)
    error = np.stack(errors)
    error[without] = 0.0
    free = parameters["masked_rows"] == "any" and without.any()
    allowed = np.broadcast_to(without[..., None], error.shape).reshape(shape) if free else None
    return {"y": Judgement(output_rounding(error.reshape(shape), expected["y"], elements["y"]), allowed)}


OPERATION = Operation(
    name="softmax",
    meaning="Y = softmax(scale · X + bias + mask) along the last axis",
    roles={
        "x": Role("BMN", _ROWS, spellings="x in input inp src scores a"),
        "bias": Role(
            "BMN",
            _ROWS,
            required=False,
            usual="MN",
            element="float",
            instead="mask",
            spellings="mask attnmask attentionmask additivemask attnbias",
        ),
        "mask": Role("BMN", _ROWS, required=False, usual="MN", drawn=BITS),
        "y": Role("BMN", _ROWS, output=True, updates="x", spellings="y out output dst o probs result b"),
    },
    parameters={
        "scale": Parameter("real", "1", "factor of X", spellings="scale"),
        "causal": Parameter("flag", "causal", "whether column j > row i is masked", spellings="causal iscausal"),
        "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
        "mask_hides": Parameter("flag", "0", "what is not 0 in the mask hides an element, instead of keeping it"),
        "masked_rows": Parameter("word", "any", "a row in which all is masked", ("any", "zero", "nan")),
        **EXPONENTIALS,
    },
    oracle=_oracle,
    bound=_bound,
    symbols={"batch": "1", "causal": "0"},
    separate=("batch",),
    optional="batch",
    rows="M",
    extents={"M": "m rows nrows numrows batch b", "N": "n cols columns ncols numcols c d dim"},
    cases=({"M": 64, "N": 64}, {"M": 64, "N": 256}),
    hard_inputs=SCORES,
    signs=Signs("softmax", needs=(EXPONENTIAL,), arrays=True),
    choices=(
        by_settings(
            "Which elements of a row count?",
            {"no causal mask": {"causal": "0"}, "a causal mask": {"causal": "1", "alignment": "top-left"}},
        ),
        by_flag(
            "Does a 1 in the mask keep an element, or hide it?",
            "mask_hides",
            "ones of the mask keep",
            "ones of the mask hide",
            "mask",
        ),
        kept_in("x", "exponentials", "exp_dtype", "f32", "f16"),
    ),
)
