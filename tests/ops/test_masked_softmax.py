"""The softmax of rows with scale, additive and boolean masks, and causal: against its definition, and its bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.errors import ConfigurationError


def naive(x, scale, bias, allowed):
    y = np.zeros(x.shape)
    for b, i in np.ndindex(x.shape[:2]):
        kept = [j for j in range(x.shape[2]) if allowed(b, i, j)]
        scores = [scale * float(x[b, i, j]) + float(bias[b, i, j]) for j in kept]
        largest = max(scores, default=0.0)
        total = math.fsum(math.exp(s - largest) for s in scores)
        for j, s in zip(kept, scores, strict=True):
            y[b, i, j] = math.exp(s - largest) / total
    return y


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 6),
    scale=st.sampled_from([1.0, 0.25]),
    alignment=st.sampled_from(["top-left", "bottom-right"]),
    causal=st.booleans(),
    hides=st.booleans(),
    axes=st.sampled_from(["BMN", "MN", "N", "BN", "BM"]),
    seed=st.integers(0, 9),
)
def test_it_is_its_definition_whatever_axes_the_masks_have(rows, columns, scale, alignment, causal, hides, axes, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, rows, columns)).astype(np.float32)
    shape = [n if letter in axes else 1 for letter, n in zip("BMN", x.shape, strict=True)]
    bias, mask = rng.standard_normal(shape).astype(np.float32), (rng.random(shape) < 0.7).astype(np.uint8)
    seen = np.broadcast_to(mask != int(hides), x.shape) if hides else np.broadcast_to(mask != 0, x.shape)
    corner = columns - rows if alignment == "bottom-right" else 0
    got = wmmadiag.reference(
        "softmax", x=x, bias=bias, mask=mask, scale=scale, causal=causal, alignment=alignment, mask_hides=hides
    )
    want = naive(
        x, scale, np.broadcast_to(bias, x.shape), lambda b, i, j: seen[b, i, j] and (not causal or j <= i + corner)
    )
    np.testing.assert_allclose(got.value, want, rtol=1e-12, atol=1e-300)
    empty = ~want.any(axis=-1)
    free = np.zeros(x.shape, bool) if got.nonfinite_ok is None else got.nonfinite_ok
    np.testing.assert_array_equal(free, np.broadcast_to(empty[..., None], x.shape))


@settings(max_examples=30, deadline=None)
@given(columns=st.sampled_from([1, 17, 300]), seed=st.integers(0, 50), out=st.sampled_from([np.float32, np.float16]))
def test_single_precision_is_within_the_bound_and_a_mask_one_off_is_not(columns, seed, out):
    rng = np.random.default_rng(seed)
    x = (4 * rng.standard_normal((1, 6, columns))).astype(np.float16)
    bias = rng.standard_normal((6, columns)).astype(np.float16)
    want = wmmadiag.reference("softmax", x=x, bias=bias, scale=0.3, causal=True, dtype=np.dtype(out).name)

    def kernel(reach):
        scores = x[0].astype(np.float32) * np.float32(0.3) + bias.astype(np.float32)
        j, i = np.arange(columns)[None, :], np.arange(6)[:, None]
        scores = np.where(j <= i + reach, scores, np.float32(-1e9))
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True, dtype=np.float32))[None].astype(out)

    assert wmmadiag.compare_arrays(kernel(0), want).passed
    if columns > 6:
        assert not wmmadiag.compare_arrays(kernel(1), want).passed


def test_a_mask_that_cannot_be_spread_is_refused():
    with pytest.raises(ConfigurationError, match="cannot be spread over 4×5"):
        wmmadiag.reference("softmax", x=np.ones((4, 5), np.float32), mask=np.ones((4, 4), np.uint8))
