"""The backward pass of attention: gradients of queries, keys and values, each as far as a kernel has it.

Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness, 2022 (arXiv 2205.14135),
appendix B.2. What the forward pass kept, the logarithms of sums and the sums of O∘dO, are inputs like any other: the
formulas hold for whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wmmadiag.ops.model import Alternative, Arrays, Choice, Elements, Judged, Outputs, Parameter, Role, Signs, Values
from wmmadiag.ops.parts import rounding, sequence
from wmmadiag.ops.parts.drawn import BITS, KEY_COUNTS, LOG_SUMS
from wmmadiag.ops.parts.late import np
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.parts.score_bounds import terms_error
from wmmadiag.ops.parts.score_terms import ScoreTerms, score_terms
from wmmadiag.ops.parts.scores import ScoreRows, as_heads, score_rows, softmax_rows
from wmmadiag.ops.parts.settings import EXPONENTIALS, FLOAT_TYPES, PRODUCTS, by_value, kept_in, types_of_products
from wmmadiag.ops.parts.softmax_bounds import weight_errors
from wmmadiag.ops.parts.traits import EXPONENTIAL, TENSOR_CORES

_LN2 = 0.6931471805599453


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of one head of queries, all in float64."""

    part: ScoreRows
    weights: Doubles  # P, (rows, keys)
    v: Doubles  # (keys, Dv); 0 where it is not given, as nothing but dV is asked for then
    do: Doubles  # (rows, Dv)
    dp: Doubles  # dO·Vᵀ, (rows, keys)
    delta: Doubles  # (rows, 1)
    given: bool  # whether delta is an input
    lse: Doubles | None  # (rows, 1), natural; None where each row's own sum is taken
    o: Doubles | None  # (rows, Dv), of which the sums with dO are taken; None where these are given

    @property
    def ds(self) -> Doubles:
        """P ∘ (dP − delta), the gradient of the scores."""
        return self.weights * (self.dp - self.delta)


def _rows(parameters: Values, inputs: Arrays) -> Iterator[_Rows]:
    q, k, do = (as_heads(inputs[role]) for role in ("q", "k", "do"))
    v = as_heads(inputs["v"]) if "v" in inputs else np.zeros((*k.shape[:3], do.shape[3]))
    terms = _terms(parameters, inputs)
    given = {role: as_heads(inputs[role]) for role in ("o",) if role in inputs}
    sums = {role: inputs[role].reshape(q.shape[:3]) for role in ("lse", "delta") if role in inputs}
    for part in score_rows(q, k, scale=float(parameters["scale"]), terms=terms):
        where = (*part.head, part.rows)
        v64, do64 = v[part.kv_head].astype(np.float64), do[where].astype(np.float64)
        dp = do64 @ v64.T
        lse = sums["lse"][where].astype(np.float64)[:, None] if "lse" in sums else None
        if lse is not None and parameters["lse_base"] == "2":
            lse = lse * _LN2
        with np.errstate(over="ignore"):
            weights = softmax_rows(part.scores)[0] if lse is None else np.exp(part.scores - lse)
        o = given["o"][where].astype(np.float64) if "o" in given and "delta" not in sums else None
        if "delta" in sums:
            delta = sums["delta"][where].astype(np.float64)[:, None]
        else:
            delta = ((weights * dp) if o is None else o * do64).sum(axis=-1, keepdims=True)
        yield _Rows(part, weights, v64, do64, dp, delta, "delta" in sums, lse, o)


def _terms(parameters: Values, inputs: Arrays) -> ScoreTerms:
    return score_terms(parameters, inputs, inputs["q"].shape[-2], inputs["k"].shape[-2])


def _shapes(inputs: Arrays) -> dict[str, tuple[int, ...]]:
    """Of each gradient, as the kernel has it."""
    k, do = inputs["k"].shape, inputs["do"].shape
    return {"dq": inputs["q"].shape, "dk": k, "dv": (*k[:-1], do[-1])}


def _empty(inputs: Arrays) -> dict[str, Doubles]:
    return {role: np.zeros((1,) * (4 - len(shape)) + shape) for role, shape in _shapes(inputs).items()}


def _shaped(found: dict[str, Doubles], inputs: Arrays) -> Outputs:
    """Those that can be computed: without V no other than its own."""
    shapes = _shapes(inputs)
    return {role: one.reshape(shapes[role]) for role, one in found.items() if role == "dv" or "v" in inputs}


def _oracle(parameters: Values, inputs: Arrays) -> Outputs:
    found, scale = _empty(inputs), float(parameters["scale"])
    for rows in _rows(parameters, inputs):
        part = rows.part
        ds = rows.ds
        found["dq"][(*part.head, part.rows)] = scale * (ds @ part.k)
        found["dk"][part.kv_head] += scale * (ds.T @ part.q)
        found["dv"][part.kv_head] += rows.weights.T @ rows.do
    return _shaped(found, inputs)


def _bound(parameters: Values, inputs: Arrays, expected: Outputs, elements: Elements) -> Judged:
    """Bounds of dQ, dK and dV. With u the unit of scalar work, for each row i and key j:

    1. Scores as in `attention`: `sum_error`·Σ|q||k|·|scale|, and `scores.terms_error`.
    2. P = exp(s − lse): the argument is off by the score's error, and by 8u(|s| + |lse|) for the factors, the
       difference and the base; the exponential by `exp_unit`. Without an lse, `softmax.weight_errors`, whose sum of
       errors moves what all are divided by.
    3. dP: `sum_error`·Σ|dO||v|. delta: given as it is, or a sum of products like it, kept in f32.
    4. dS = P∘(dP − delta): ε_P·|dP − delta| + (P + ε_P)·(ε_dP + ε_delta + 3u(|dP| + |delta|)), a unit for the product
       and one for the scale, which may be in it.
    5. P and dS are rounded to the operands' type before they are multiplied; below the normal range by half of its
       smallest spacing, of dS before or after the scale.
    6. dV, dK and dQ: the errors of P and dS times |dO|, |q| and |k|, and `sum_error` of Sq (times the heads of a
       group), or Skv, products, one more for each part that is added by itself; then a unit for the scale.
    """
    model = rounding.arithmetic(parameters, elements["q"])
    terms, scale = _terms(parameters, inputs), abs(float(parameters["scale"]))
    errors = _empty(inputs)
    queries = inputs["q"].shape[-2] * max(1, as_heads(inputs["q"]).shape[1] // as_heads(inputs["k"]).shape[1])
    over_queries = rounding.product_error(queries, model, queries // 16)
    over_keys = rounding.product_error(inputs["k"].shape[-2], model, inputs["k"].shape[-2] // 16)
    narrow, floor = (0.0, 0.0) if model.p_type is None else (model.p_type.unit, model.p_type.half_subnormal)
    narrow = 2.0**-10 if model.p_type is not None and model.p_type.name == "tf32" else narrow
    for rows in _rows(parameters, inputs):
        part = rows.part
        weights, of_weights, ds, of_ds = _of_rows(rows, scale, terms, parameters, model)
        of_weights = of_weights + narrow * (weights + of_weights) + floor * (weights > 0)
        of_ds = of_ds + narrow * (ds + of_ds) + floor * max(1.0, 1.0 / max(scale, 1e-30)) * (weights > 0)
        size_k, size_q, size_do = np.abs(part.k), np.abs(part.q), np.abs(rows.do)
        last = 4.0 * model.unit
        errors["dq"][(*part.head, part.rows)] = scale * (
            of_ds @ size_k + ((ds + of_ds) @ size_k) * (over_keys.relative + last) + over_keys.absolute
        )
        errors["dk"][part.kv_head] += scale * (
            of_ds.T @ size_q + ((ds + of_ds).T @ size_q) * (over_queries.relative + last) + over_queries.absolute
        )
        errors["dv"][part.kv_head] += (
            of_weights.T @ size_do
            + ((weights + of_weights).T @ size_do) * (over_queries.relative + last)
            + over_queries.absolute
        )
    return rounding.judged(_shaped(errors, inputs), expected, elements)


def _of_rows(
    rows: _Rows, scale: float, terms: ScoreTerms, parameters: Values, model: rounding.Arithmetic
) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """P and |dS| of some rows, each with its error before it is rounded to be multiplied: steps 1 to 4."""
    part, unit = rows.part, model.unit
    dot = rounding.product_error(part.q.shape[1], model)
    relative = dot.relative + model.scaled_query
    of_scores = scale * ((np.abs(part.q) @ np.abs(part.k).T) * relative + dot.absolute)
    if terms.modifies:
        of_scores = of_scores + terms_error(part, terms, parameters, model, relative)
    if rows.lse is None:
        found = weight_errors(part.scores, of_scores, model)
        total = found.errors.sum(axis=-1, keepdims=True, dtype=np.float64)
        of_weights = np.minimum((found.errors + rows.weights * total) / np.maximum(1.0 - total, 0.5), 1.0)
    else:
        argument = of_scores + (8.0 * unit + model.exp_argument) * (
            np.abs(np.where(np.isfinite(part.scores), part.scores, 0.0)) + np.abs(rows.lse)
        )
        if model.score_type is not None:
            argument = argument + model.score_type.unit * np.abs(np.where(np.isfinite(part.scores), part.scores, 0.0))
        of_weights = rows.weights * (np.expm1(np.minimum(argument, 50.0)) * (1.0 + model.exp_unit) + model.exp_unit)
    sums = rounding.product_error(rows.v.shape[1], model)
    size = np.abs(rows.do) @ np.abs(rows.v).T
    of_dp = size * sums.relative + sums.absolute
    near = np.abs(rows.dp - rows.delta)
    ds = rows.weights * near
    of_ds = of_weights * near + (rows.weights + of_weights) * (
        of_dp + _of_delta(rows, of_weights, of_dp, model) + 3.0 * unit * (np.abs(rows.dp) + np.abs(rows.delta))
    )
    return rows.weights, of_weights, ds, of_ds + 2.0 * unit * (ds + of_ds)


def _of_delta(rows: _Rows, of_weights: Doubles, of_dp: Doubles, model: rounding.Arithmetic) -> Doubles:
    """The error of the sums that dP is taken less of, (rows, 1)."""
    if rows.given:
        return np.zeros_like(rows.delta)
    if rows.o is not None:
        size, own = np.abs(rows.o) * np.abs(rows.do), np.zeros_like(rows.delta)
    else:
        size = (rows.weights + of_weights) * (np.abs(rows.dp) + of_dp)
        own = (of_weights * np.abs(rows.dp) + (rows.weights + of_weights) * of_dp).sum(axis=-1, keepdims=True)
    return np.asarray(own + size.sum(axis=-1, keepdims=True) * ((size.shape[-1] + 8.0) * 2.0 * model.unit))


_ROWS = ("B", "H", "Sq")

OPERATION = replace(
    sequence.OF_HEADS,
    name="attention_backward",
    meaning="dV = Pᵀ·dO, dS = P ∘ (dO·Vᵀ − delta), dQ = scale · dS·K, dK = scale · dSᵀ·Q, with "
    "P = exp(scale · Q·Kᵀ + bias + mask − lse) and delta = Σ O∘dO of each row",
    notes="Without `lse` P is the softmax of each row. Without `o` and `delta` the latter is Σ P∘dP, which is the same "
    "of an O that is P·V. Without `v` dV alone can be told. Heads that share keys add up their gradients.",
    roles={
        "q": Role("BHSD", ("B", "H", "Sq", "D"), spellings="q query queries"),
        "k": Role("BHSD", ("B", "Hkv", "Skv", "D"), spellings="k key keys"),
        "v": Role("BHSD", ("B", "Hkv", "Skv", "Dv"), required=False, spellings="v value values val"),
        "o": Role("BHSD", ("B", "H", "Sq", "Dv"), required=False, spellings="o out output attnout"),
        "do": Role(
            "BHSD",
            ("B", "H", "Sq", "Dv"),
            spellings="do dout doutput gradout gradoutput grado gradattn dattn dattnout",
        ),
        "lse": Role("BHS", _ROWS, required=False, drawn=LOG_SUMS, spellings="lse softmaxlse logsumexp l"),
        "delta": Role(
            "BHS", _ROWS, required=False, spellings="delta deltas dsum dpsum dsoftmaxsum softmaxd dosum rowdot di"
        ),
        **sequence.ADDED,
        "mask": Role("BHSK", sequence.OVER_SCORES, required=False, usual="SK", drawn=BITS),
        "lengths": Role(
            "B",
            sequence.OVER_SCORES[:1],
            required=False,
            usual="B",
            drawn=KEY_COUNTS,
            element="int",
            spellings="lens lengths seqlens kvlens kvlengths seqlensk seqlenskv",
        ),
        **{
            f"d{role}": Role(
                "BHSD", shape, output=True, required=False, spellings=f"d{role} grad{role} {role}grad {others}"
            )
            for role, shape, others in (
                ("q", ("B", "H", "Sq", "D"), "dquery gradquery dqaccum dqacc"),
                ("k", ("B", "Hkv", "Skv", "D"), "dkey gradkey dkaccum dkacc"),
                ("v", ("B", "Hkv", "Skv", "Dv"), "dvalue gradvalue dvaccum dvacc"),
            )
        },
    },
    parameters={
        "scale": Parameter("real", "1/sqrt(D)", "factor of Q·Kᵀ", spellings=sequence.SCALE_SPELLINGS),
        "causal": Parameter("flag", "causal", "whether key j > query i is masked", spellings=sequence.CAUSAL_SPELLINGS),
        "alignment": Parameter("word", "top-left", "corner of the causal mask", ("top-left", "bottom-right")),
        "mask_hides": Parameter("flag", "0", "what is not 0 in the mask hides a key, instead of keeping it"),
        "lse_base": Parameter("word", "e", "base of the logarithms that are given", ("e", "2")),
        "p_dtype": Parameter("word", "auto", "type that P and dS are rounded to", ("auto", *FLOAT_TYPES)),
        "scaled_q_dtype": Parameter("word", "none", "type that scale·Q is rounded to", ("none", *FLOAT_TYPES)),
        "score_dtype": Parameter("word", "f32", "type that scores are kept in", ("f16", "bf16", "f32", "f64")),
        **PRODUCTS,
        **EXPONENTIALS,
    },
    oracle=_oracle,
    bound=_bound,
    derived=sequence.DERIVED,
    work="2*B*H*Sq*Skv*(3*D + 2*Dv)*(0.5 if causal else 1)",
    signs=Signs(
        "attentionbackward attnbackward attentionbwd attnbwd flashbwd flashbackward fmhabwd mhabwd mhabackward "
        "sdpabwd sdpabackward attentiongrad attngrad flashattentionbackward flashattnbwd",
        parts=("attention", "gemm", "softmax", "qkt", "pv"),
        agreeing="bwd backward grad dq dk dv dkv",
        needs=(TENSOR_CORES, EXPONENTIAL),
        arrays=True,
    ),
    choices=(
        sequence.MASKED_KEYS,
        sequence.laid_out("q", "k", "v", "o", "do", "dq", "dk", "dv"),
        Choice(
            "What are the scores multiplied by?",
            "meaning",
            (
                Alternative("a scale of 1/√D", {"scale": "1/sqrt(D)"}),
                Alternative("a scale of 1", {"scale": "1"}, deliberate=False),
            ),
        ),
        by_value(
            "Which logarithm are those of the sums?",
            "meaning",
            "lse_base",
            {"natural logarithms of the sums": "e", "logarithms to base 2 of the sums": "2"},
            "lse",
        ),
        kept_in("q", "scaled queries", "scaled_q_dtype", "none", "f16", "bf16"),
        kept_in("q", "scores", "score_dtype", "f32", "f16", "bf16"),
        *types_of_products("q"),
        kept_in("q", "weights", "p_dtype", "auto", "bf16"),
    ),
)
