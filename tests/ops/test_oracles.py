"""Each reference against an independent, element-by-element formulation."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from wmmadiag.ops.catalogue.attention import attention
from wmmadiag.ops.catalogue.gemm import gemm
from wmmadiag.ops.catalogue.pv import pv
from wmmadiag.ops.catalogue.qkt import qkt
from wmmadiag.ops.catalogue.softmax import softmax
from wmmadiag.ops.parts.score_terms import ScoreTerms

RNG = np.random.default_rng(0)


def naive_attention(q, k, v, scale, allowed):
    out, lse = np.zeros((*q.shape[:3], v.shape[3])), np.full(q.shape[:3], -math.inf)
    for b, h, i in np.ndindex(q.shape[:3]):
        g = h * k.shape[1] // q.shape[1]
        kept = [j for j in range(k.shape[2]) if allowed(i, j)]
        scores = [scale * math.fsum(x * y for x, y in zip(q[b, h, i], k[b, g, j], strict=True)) for j in kept]
        if not kept:
            continue
        total = math.fsum(math.exp(s) for s in scores)
        lse[b, h, i] = math.log(total)
        for d in range(v.shape[3]):
            terms = (math.exp(s) * v[b, g, j, d] for s, j in zip(scores, kept, strict=True))
            out[b, h, i, d] = math.fsum(terms) / total
    return out, lse


@pytest.mark.parametrize(("heads_kv", "rows", "keys", "causal", "alignment"), [
    (4, 5, 7, False, "top-left"), (2, 5, 7, True, "top-left"), (1, 5, 7, True, "bottom-right"),
    (4, 7, 5, True, "bottom-right"), (4, 7, 5, True, "top-left"),
])  # fmt: skip
def test_attention(heads_kv, rows, keys, causal, alignment):
    q, k = RNG.normal(size=(2, 4, rows, 6)), RNG.normal(size=(2, heads_kv, keys, 6))
    v = RNG.normal(size=(2, heads_kv, keys, 3))
    shift = keys - rows if alignment == "bottom-right" else 0
    want, want_lse = naive_attention(q, k, v, 0.4, lambda i, j: not causal or j <= i + shift)
    out, lse = attention(q, k, v, scale=0.4, terms=ScoreTerms(rows, keys, causal, shift))
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-12, atol=1e-14)


def test_shapes_without_batch_or_heads():
    q = RNG.normal(size=(5, 4)).astype(np.float16)
    plain = ScoreTerms(5, 5)
    out, lse = attention(q, q, q, scale=1.0, terms=plain)
    assert (out.shape, lse.shape) == ((5, 4), (5,))
    full, _ = attention(q[None, None], q[None, None], q[None, None], scale=1.0, terms=plain)
    np.testing.assert_array_equal(full[0, 0], out)


def test_long_sequences_stay_within_memory():
    q = np.zeros((1, 2, 4096, 16), np.float16)
    tracemalloc.start()
    attention(q, q, q, scale=1.0, terms=ScoreTerms(4096, 4096))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # the whole scores would be 268 MB


def test_products_and_softmax():
    q, k, p = RNG.normal(size=(1, 4, 3, 5)), RNG.normal(size=(1, 2, 6, 5)), RNG.normal(size=(1, 4, 3, 6))
    np.testing.assert_allclose(qkt(q, k, scale=2.0, terms=ScoreTerms(3, 6))[0, 3], 2 * q[0, 3] @ k[0, 1].T)
    np.testing.assert_allclose(pv(p, k)[0, 1], p[0, 1] @ k[0, 0])
    x = np.array([[1000.0, 1000.0 + math.log(3)]])
    np.testing.assert_allclose(softmax(x), [[0.25, 0.75]])


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_gemm(transpose_a, transpose_b):
    a = RNG.integers(-128, 128, (2, 5, 3) if transpose_a else (2, 3, 5)).astype(np.int8)
    b = RNG.integers(-128, 128, (2, 4, 5) if transpose_b else (2, 5, 4)).astype(np.int8)
    c = RNG.integers(-9, 9, (2, 3, 4)).astype(np.int32)
    got = gemm(a, b, c, alpha=2, beta=-1, transpose_a=transpose_a, transpose_b=transpose_b)
    left = a.swapaxes(1, 2) if transpose_a else a
    right = b.swapaxes(1, 2) if transpose_b else b
    np.testing.assert_array_equal(got, 2 * np.einsum("bmk,bkn->bmn", left.astype(int), right.astype(int)) - c)
