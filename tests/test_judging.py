"""References and comparisons of arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import wmmadiag

RNG = np.random.default_rng(0)
Q = RNG.standard_normal((2, 3, 8, 4)).astype(np.float16)


def test_attention_is_the_textbook_formula():
    k, v = RNG.standard_normal((2, 2, 3, 8, 4)).astype(np.float16)
    scores = Q.astype(float) @ k.astype(float).swapaxes(-1, -2) * 0.5
    scores[..., np.triu(np.ones((8, 8), bool), 1)] = -np.inf
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    want = wmmadiag.reference("attention", q=Q, k=k, v=v, causal=True, scale=0.5)
    np.testing.assert_allclose(want.value, weights @ v.astype(float), rtol=1e-13, atol=1e-15)
    assert want.dtype == "f16" and (want.bound > 0).all() and want.bound.max() < 0.02


@pytest.mark.parametrize(
    ("operation", "given", "shape"),
    [
        ("qkt", {"q": Q, "k": Q}, (2, 3, 8, 8)),
        ("pv", {"p": Q[..., :4, :], "v": Q[..., :4, :]}, (2, 3, 4, 4)),
        ("softmax", {"x": Q[0, 0].astype(np.float32)}, (8, 4)),
        ("gemm", {"a": Q[0, 0], "b": Q[0, 0], "transpose_b": True, "dtype": "f32"}, (8, 8)),
        ("gemm", {"a": Q[0, 0], "b": Q[0, 0], "transpose_a": 1, "alpha": 2}, (4, 4)),
        ("gemm", {"a": np.ones((4, 4), np.int8), "b": np.ones((4, 4), np.int8), "dtype": "s32"}, (4, 4)),
        ("gemm", {"a": np.ones((4, 4), ml_dtypes.bfloat16), "b": np.ones((4, 4), ml_dtypes.bfloat16)}, (4, 4)),
    ],
)
def test_operations(operation, given, shape):
    want = wmmadiag.reference(operation, **given)
    assert want.value.shape == want.bound.shape == shape and want.value.dtype == np.float64


@pytest.mark.parametrize(
    ("operation", "given", "message"),
    [
        ("atention", {}, "did you mean 'attention'?"),
        ("python", {}, "unknown operation 'python'"),
        ("attention", {"q": Q, "k": Q}, "needs the input 'v'"),
        ("attention", {"q": Q, "k": Q, "v": Q[:1]}, "differs from"),
        ("attention", {"q": Q[:1], "k": Q, "v": Q}, "differs from"),
        ("attention", {"q": Q, "k": Q[..., :2], "v": Q}, "differs from"),
        ("attention", {"q": Q, "k": Q, "v": Q, "cusal": True}, "did you mean 'causal'?"),
        ("attention", {"q": Q, "k": Q, "v": Q, "p_dtype": "f8"}, "p_dtype cannot be 'f8'"),
        ("attention", {"q": Q, "k": Q, "v": Q, "scale": "1/E"}, "'E'"),
        ("gemm", {"a": Q[0, 0], "b": Q[0, 0]}, "differs from"),
        ("gemm", {"a": Q[0, 0], "b": Q[0, 0], "dtype": "f33"}, "unknown type 'f33'"),
        ("softmax", {"x": Q[0, 0, 0]}, "it needs at least two"),
        ("softmax", {"x": Q.astype(complex)}, "no kernel has elements of type complex128"),
    ],
)
def test_what_does_not_fit_is_refused(operation, given, message):
    with pytest.raises(wmmadiag.ConfigurationError) as caught:
        wmmadiag.reference(operation, **given)
    assert message in str(caught.value)


def test_a_comparison_finds_the_one_wrong_element():
    want = wmmadiag.reference("gemm", a=Q[0, 0], b=Q[0, 0], transpose_b=True, dtype="f32")
    out = want.value.astype(np.float32)
    assert wmmadiag.compare_arrays(out, want).passed
    out[5, 2] += 4 * want.bound[5, 2] + 1e-5
    seen = wmmadiag.compare_arrays(out, want)
    assert seen.wrong == 1 and seen.first is not None and seen.first.index == (5, 2)


@pytest.mark.parametrize(
    ("bound", "wrong"), [(0.0, 3), (1.5, 1), (2.0, 0), (np.array([2.0, 0.0]), 1), (np.full((2, 2), 2.0), 0)]
)
def test_bounds(bound, wrong):
    observed = np.array([[1.0, 1.0], [2.0, 0.0]], np.float32)
    assert wmmadiag.compare_arrays(observed, np.zeros((2, 2)), bound).wrong == wrong


def test_nan_and_shapes_and_types():
    zeros = np.zeros((2, 2))
    assert wmmadiag.compare_arrays(np.full((2, 2), np.nan, np.float16), zeros, 1e9).nan == 4
    for arguments, message in (
        ((zeros, np.zeros(2)), "has shape [2, 2]"),
        ((zeros, zeros, np.zeros(3)), "the bound has shape [3]"),
        ((zeros.astype(complex), zeros), "complex128"),
        ((zeros, zeros.astype(complex)), "complex128"),
    ):
        with pytest.raises(wmmadiag.ConfigurationError) as caught:
            wmmadiag.compare_arrays(*arguments)
        assert message in str(caught.value)
