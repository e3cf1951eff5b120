"""Attention as correct kernels compute it, rounding by rounding, and the same with one fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.subject.inputs import rounded

F32 = np.float32
LOG2E = F32(1.4426950408889634)


def to_type(values, name):
    return rounded(np.asarray(values, np.float64), TYPES[name])


def scalar_matmul(a, b):
    """Float32, k ascending, multiply then add."""
    total = np.zeros((a.shape[0], b.shape[1]), F32)
    for k in range(a.shape[1]):
        total = total + a[:, k : k + 1].astype(F32) * b[k : k + 1].astype(F32)
    return total


def tensor_core_matmul(a, b, c=None, fraction=24, step=8):
    """Steps of aligned, truncated terms rounded toward zero, as a tensor core adds."""
    total = np.zeros((a.shape[0], b.shape[1])) if c is None else c.astype(np.float64)
    a, b = a.astype(np.float64), b.astype(np.float64)
    for k in range(0, a.shape[1], step):
        terms = a[:, None, k : k + step] * b.T[None, :, k : k + step]
        terms = np.concatenate([terms, total[..., None]], axis=-1)
        _, exponent = np.frexp(np.abs(terms).max(axis=-1, keepdims=True))
        unit = np.ldexp(1.0, np.maximum(exponent - 1, -126) - fraction)
        total = toward_zero((np.trunc(terms / unit) * unit).sum(axis=-1))
    return total.astype(F32)


def toward_zero(values):
    near = values.astype(F32)
    over = np.abs(near.astype(np.float64)) > np.abs(values)
    return np.where(over, np.nextafter(near, F32(0)), near).astype(np.float64)


def half_matmul(a, b, c=None, step=8):
    """Sums rounded to f16 after each step."""
    total = np.zeros((a.shape[0], b.shape[1])) if c is None else c.astype(np.float64)
    for k in range(0, a.shape[1], step):
        total = total + a[:, k : k + step].astype(np.float64) @ b[k : k + step].astype(np.float64)
        total = total.astype(np.float16).astype(np.float64)
    return total.astype(F32)


MATMULS: dict[str, Callable] = {
    "scalar": scalar_matmul,
    "sm_80": lambda a, b: tensor_core_matmul(a, b, fraction=24, step=8),
    "sm_90": lambda a, b: tensor_core_matmul(a, b, fraction=25, step=16),
    "tf32": lambda a, b: tensor_core_matmul(a, b, fraction=24, step=4),
    "blas": lambda a, b: a.astype(F32) @ b.astype(F32),
}


@dataclass(frozen=True)
class Style:
    """How a correct kernel may choose to work."""

    matmul: str = "sm_80"
    tile: int = 64
    order: str = "forward"
    p_type: str = ""
    base2: bool = False
    fused_argument: bool = False
    rounded_sum: bool = False
    normalise_early: bool = False


def flash_head(q, k, v, scale, style, mask=None, fault="", change=None):
    """One head: q (S, D), k, v (T, D) in storage types; mask (S, T) True where kept. Returns float32 (S, D).

    `change`: what is done to scaled scores of a slice of keys before they are masked.
    """
    multiply = MATMULS[style.matmul]
    scale = F32(scale)
    rows, keys = q.shape[0], k.shape[0]
    running, total = np.full((rows, 1), -np.inf, F32), np.zeros((rows, 1), F32)
    out = np.zeros((rows, v.shape[1]), F32)
    starts = list(range(0, keys, style.tile))
    if style.order == "backward":
        starts.reverse()
    elif style.order == "odd-even":
        starts = starts[1::2] + starts[0::2]
    if style.normalise_early:
        starts, tile = [0], keys
    else:
        tile = style.tile
    for start in starts:
        part = slice(start, min(start + tile, keys))
        s = score_tile(q, k[part], multiply, fault, start)
        if change is not None:
            s, scale_now = change(s * scale, part).astype(F32), F32(1)
        else:
            scale_now = scale
        if style.base2 and style.fused_argument:
            factor = F32(scale_now * LOG2E)
            s, exp = s, lambda x, m, f=factor: np.exp2((x * f - m * f).astype(F32))
        elif style.base2:
            s = s * F32(scale_now * LOG2E)
            exp = lambda x, m: np.exp2(x - m)  # noqa: E731
        else:
            s = s * scale_now
            exp = lambda x, m: np.exp(x - m)  # noqa: E731
        if fault == "scale" and start == starts[0]:
            s[rows // 2] = s[rows // 2] / scale
        if mask is not None:
            s = np.where(mask[:, part], s, F32(-np.inf))
        new = np.maximum(running, s.max(axis=1, keepdims=True))
        safe = np.where(np.isfinite(new), new, F32(0))
        p = np.where(np.isfinite(s), exp(s, safe), F32(0)).astype(F32)
        keep = np.where(np.isfinite(running), exp(running, safe), F32(0)).astype(F32)
        if fault == "rescale":
            keep = np.ones_like(keep)
        if style.normalise_early:
            p = p / np.maximum(p.sum(axis=1, keepdims=True, dtype=F32), F32(1e-30))
        narrow = to_type(p, style.p_type) if style.p_type else p
        sums = narrow.astype(F32) if style.rounded_sum else p
        total = total * keep + sums.sum(axis=1, keepdims=True, dtype=F32)
        product = multiply(narrow, v[part])
        out = product if fault == "overwrite" else out * keep + product
        running = new
    with np.errstate(invalid="ignore"):
        return out if style.normalise_early else (out / total).astype(F32)


def score_tile(q, k, multiply, fault, start):
    q = q.copy()
    if fault == "slice" and q.shape[1] >= 32:
        q[:, 16:32] = q[:, 0:16]
    s = multiply(q, k.T)
    if fault == "missing key" and start == 0:
        s[:, 5] = F32(-np.inf)
    if fault == "transposed" and s.shape[0] == s.shape[1]:
        s = s.T.copy()
    return s


def flash(q, k, v, scale, style, out_type, mask=None, fault="", change=None):
    """All heads of (B, H, S, D); GQA where k has fewer heads. Returns (B, H, S, D) in the output's storage type."""
    # `mask` may have a head axis; `change`: (batch, head) → what `flash_head` takes.
    group = q.shape[1] // k.shape[1]
    out = np.empty((*q.shape[:3], v.shape[3]))
    for b, h in np.ndindex(q.shape[:2]):
        own = mask[b, h] if mask is not None and mask.ndim == 4 else mask
        changed = change(b, h) if change is not None else None
        out[b, h] = flash_head(q[b, h], k[b, h // group], v[b, h // group], scale, style, own, fault, changed)
    return to_type(out, out_type)
