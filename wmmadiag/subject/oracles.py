"""Float64 references, one function per operation, over the inputs as the kernel reads them (already rounded).

Arrays are logical tensors of any storage dtype. Rows are taken in chunks, so that S = 2048 needs megabytes, not
gigabytes. Each reference is the textbook formula: nothing of a kernel's tiling or online softmax is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.subject.epilogue import SPREAD, finished
from wmmadiag.subject.score_terms import ScoreTerms, score_terms

Doubles: TypeAlias = NDArray[np.float64]

_CHUNK_ELEMENTS = 1 << 20


def as_heads(array: NDArray[Any]) -> NDArray[Any]:
    """A tensor of 2 to 4 dimensions as (B, H, rows, columns); missing leading axes become 1."""
    return array.reshape((1,) * (4 - array.ndim) + array.shape) if array.ndim < 4 else array


@dataclass(frozen=True, slots=True)
class ScoreRows:
    """Some rows of one head's scores.

    Attributes:
        head: (batch, head) of the query.
        kv_head: (batch, head) of the key and value.
        rows: which query rows.
        q: (rows, D); k: (Skv, D).
        scores: (rows, Skv), masked entries -inf.
        scaled: scale·Q·Kᵀ of these rows; None where the scores are just that, masked.
    """

    head: tuple[int, int]
    kv_head: tuple[int, int]
    rows: slice
    q: Doubles
    k: Doubles
    scores: Doubles
    scaled: Doubles | None = None


def score_rows(
    q: NDArray[Any],
    k: NDArray[Any],
    *,
    scale: float,
    causal: bool = False,
    alignment: str = "top-left",
    terms: ScoreTerms | None = None,
) -> Iterator[ScoreRows]:
    """Scores in chunks of rows: scaled, and with what else is done to them.

    Args:
        q: (B, H, Sq, D); k: (B, Hkv, Skv, D) with Hkv a divisor of H: query head h uses key head h // (H / Hkv).
        causal: mask key j for query i unless j ≤ i ("top-left") or j - Skv ≤ i - Sq ("bottom-right").
        terms: in place of `causal` and `alignment`, with everything else.
    """
    batches, heads, queries, _ = q.shape
    keys = k.shape[2]
    group = heads // k.shape[1]
    terms = terms or score_terms({"causal": causal, "alignment": alignment}, {}, queries, keys)
    step = max(16, _CHUNK_ELEMENTS // max(keys, 1))
    for batch in range(batches):
        for head in range(heads):
            keys64 = k[batch, head // group].astype(np.float64)
            for start in range(0, queries, step):
                rows = slice(start, min(start + step, queries))
                q64 = q[batch, head, rows].astype(np.float64)
                scaled = (q64 @ keys64.T) * scale
                index = np.arange(rows.start, rows.stop)
                scores = terms.score(scaled, (batch, head), index) if terms.modifies else scaled
                before = scaled if terms.modifies else None
                if terms.masks:
                    scores[~terms.allowed((batch, head), index)] = -np.inf
                yield ScoreRows((batch, head), (batch, head // group), rows, q64, keys64, scores, before)


def softmax_rows(scores: Doubles) -> tuple[Doubles, Doubles]:
    """(weights, log of the sum of exponentials) of each row; a row of only -inf gives weights 0 and -inf."""
    largest = scores.max(axis=-1, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    weights = np.exp(scores - shift)
    total = weights.sum(axis=-1, keepdims=True)
    empty = total == 0
    weights /= np.where(empty, 1.0, total)
    lse = np.where(empty, -np.inf, shift + np.log(np.where(empty, 1.0, total)))
    return weights, lse[..., 0]


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    scale: float,
    causal: bool = False,
    alignment: str = "top-left",
    terms: ScoreTerms | None = None,
) -> tuple[Doubles, Doubles]:
    """O = softmax(softcap(scale·Q·Kᵀ) + bias + mask)·V and the log-sum-exp of each row.

    Args:
        q: (B, H, Sq, D); k: (B, Hkv, Skv, D); v: (B, Hkv, Skv, Dv); leading axes may be missing in all three.
        scale, causal, alignment, terms: as in `score_rows`.

    Returns:
        O shaped (B, H, Sq, Dv) and the log-sum-exp (B, H, Sq), without the axes that q lacks. A row without any key
        is 0, its log-sum-exp -inf.
    """
    q4, k4, v4 = as_heads(q), as_heads(k), as_heads(v)
    out = np.empty((*q4.shape[:3], v4.shape[3]))
    lse = np.empty(q4.shape[:3])
    for part in score_rows(q4, k4, scale=scale, causal=causal, alignment=alignment, terms=terms):
        weights, lse_rows = softmax_rows(part.scores)
        out[(*part.head, part.rows)] = weights @ v4[part.kv_head].astype(np.float64)
        lse[(*part.head, part.rows)] = lse_rows
    return out.reshape(*q.shape[:-1], v4.shape[3]), lse.reshape(q.shape[:-1])


def qkt(q: NDArray[Any], k: NDArray[Any], *, scale: float = 1.0, terms: ScoreTerms | None = None) -> Doubles:
    """softcap(scale·Q·Kᵀ) + bias, shaped (B, H, Sq, Skv) without the axes that q lacks."""
    q4, k4 = as_heads(q), as_heads(k)
    out = np.empty((*q4.shape[:3], k4.shape[2]))
    for part in score_rows(q4, k4, scale=scale, terms=terms):
        out[(*part.head, part.rows)] = part.scores
    return out.reshape(*q.shape[:-1], k4.shape[2])


def pv(p: NDArray[Any], v: NDArray[Any]) -> Doubles:
    """P·V with p (B, H, Sq, Skv) and v (B, Hkv, Skv, Dv), shaped (B, H, Sq, Dv) without the axes that p lacks."""
    p4, v4 = as_heads(p), as_heads(v)
    out = np.empty((*p4.shape[:3], v4.shape[3]))
    group = p4.shape[1] // v4.shape[1]
    for batch, head in np.ndindex(p4.shape[:2]):
        out[batch, head] = p4[batch, head].astype(np.float64) @ v4[batch, head // group].astype(np.float64)
    return out.reshape(*p.shape[:-1], v4.shape[3])


def softmax(x: NDArray[Any], *, scale: float = 1.0) -> Doubles:
    """Exponentials of scale·X over their sum, along the last axis, shaped as x."""
    return softmax_rows(x.astype(np.float64) * scale)[0]


def gemm(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any] | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    activation: str = "none",
    further: Mapping[str, NDArray[Any]] | None = None,
) -> Doubles:
    """activation(alpha·op(A)·op(B)·scales + beta·C + bias).

    Args:
        a: (…, M, K) or (…, K, M); b: (…, K, N) or (…, N, K); c: (…, M, N).
        further: "scale_a", "scale_b" and "bias", spread over (…, M, N), as far as there are any.
    """
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    product = alpha * (left.astype(np.float64) @ right.astype(np.float64))
    inputs = {**(further or {}), **({} if c is None else {"c": c})}
    return finished(product, inputs, beta=beta, activation=activation)


def reference(
    operation: str, parameters: Mapping[str, float | int | bool | str], inputs: Mapping[str, NDArray[Any]]
) -> dict[str, Doubles]:
    """The expected outputs of a built-in operation, by role.

    Args:
        operation: a name in `operations.OPERATIONS` other than "python".
        parameters: evaluated, as `symbols.evaluate_parameters` gives them.
        inputs: logical tensors by role.
    """
    p = parameters
    match operation:
        case "attention":
            out, lse = attention(
                inputs["q"],
                inputs["k"],
                inputs["v"],
                scale=float(p["scale"]),
                terms=score_terms(p, inputs, inputs["q"].shape[-2], inputs["k"].shape[-2]),
            )
            if p["masked_rows"] == "nan":
                out[np.isneginf(lse)] = np.nan
            return {"o": out, "lse": lse}
        case "qkt":
            terms = score_terms(p, inputs, inputs["q"].shape[-2], inputs["k"].shape[-2])
            return {"scores": qkt(inputs["q"], inputs["k"], scale=float(p["scale"]), terms=terms)}
        case "pv":
            return {"o": pv(inputs["p"], inputs["v"])}
        case "softmax":
            return {"y": softmax(inputs["x"], scale=float(p["scale"]))}
        case "gemm":
            result = gemm(
                inputs["a"],
                inputs["b"],
                inputs.get("c"),
                alpha=float(p["alpha"]),
                beta=float(p["beta"]),
                transpose_a=bool(p["transpose_a"]),
                transpose_b=bool(p["transpose_b"]),
                activation=str(p["activation"]),
                further={role: inputs[role] for role in SPREAD if role in inputs},
            )
            return {"d": result, "c": result}
    raise ValueError(f"no reference for the operation {operation!r}")
