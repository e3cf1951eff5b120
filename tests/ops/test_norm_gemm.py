"""Products of normalised rows against the formulas, written out; the bound; masked scores beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference

SHAPES = {"x": "mk", "residual": "mk", "gamma": "k", "beta": "k", "b": "kn", "bias": "n"}


def matrices(seed, m=5, n=4, k=6, dtype=np.float32, roles=tuple(SHAPES)):
    rng, sizes = np.random.default_rng(seed), {"m": m, "n": n, "k": k}
    return {
        role: rng.standard_normal([sizes[axis] for axis in axes]).astype(dtype)
        for role, axes in SHAPES.items()
        if role in roles
    }


@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("roles", [tuple(SHAPES), ("x", "b"), ("x", "gamma", "b", "bias")])
def test_it_is_its_definition(norm, roles):
    data = matrices(0, roles=roles)
    got = wmmadiag.reference("norm_gemm", **data, norm=norm, eps=0.5).value
    plain = {role: one.astype(float) for role, one in data.items()}
    for i, j in np.ndindex(got.shape):
        row = plain["x"][i] + plain.get("residual", np.zeros((5, 6)))[i]
        if norm == "layernorm":
            row = row - math.fsum(row) / 6
        row = row / math.sqrt(math.fsum(row**2) / 6 + 0.5) * plain.get("gamma", np.ones(6))
        if norm == "layernorm":
            row = row + plain.get("beta", np.zeros(6))
        want = math.fsum(row * plain["b"][:, j]) + float(plain.get("bias", np.zeros(4))[j])
        assert math.isclose(got[i, j], want, rel_tol=1e-9, abs_tol=1e-12)


def test_weights_may_lie_the_other_way_around():
    data = matrices(1)
    turned = {**data, "b": np.ascontiguousarray(data["b"].T)}
    one, other = (
        wmmadiag.reference("norm_gemm", **each, transpose_b=flag).value
        for each, flag in ((data, False), (turned, True))
    )
    np.testing.assert_array_equal(one, other)


def in_halves(data, eps, *, forget=()):
    """As kernels have it: statistics in single precision, normalised rows in halves, sums in single precision."""
    x = data["x"].astype(np.float32)
    mean = np.zeros((len(x), 1), np.float32) if "mean" in forget else x.mean(axis=1, keepdims=True)
    apart = x - mean
    rstd = np.float32(1) / np.sqrt((apart * apart).mean(axis=1, keepdims=True) + np.float32(eps))
    normed = (apart * rstd * data["gamma"]).astype(np.float16)
    if "beta" not in forget:
        normed = (apart * rstd * data["gamma"] + data["beta"]).astype(np.float16)
    return (normed.astype(np.float32) @ data["b"].astype(np.float32) + data["bias"]).astype(np.float16)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 99), depth=st.sampled_from([16, 48, 160]), size=st.sampled_from([0.05, 1.0, 20.0]))
def test_halves_are_within_the_bound_and_what_is_forgotten_is_not(seed, depth, size):
    data = matrices(seed, 8, 8, depth, np.float16, ("x", "gamma", "beta", "b", "bias"))
    data["x"] = (data["x"].astype(np.float32) * size).astype(np.float16)
    parameters = {name: one.default for name, one in OPERATIONS["norm_gemm"].parameters.items()}
    parameters |= {"norm": "layernorm", "eps": 1e-5, "transpose_b": False, "unit_offset": False, "accumulate_step": 8}
    expected = reference("norm_gemm", parameters, data)
    types = dict.fromkeys([*data, "d"], "f16")
    judged = judge("norm_gemm", parameters, data, expected, {role: TYPES[kind] for role, kind in types.items()})["d"]
    off = np.abs(in_halves(data, 1e-5).astype(float) - expected["d"])
    assert (off <= judged.bound).all()
    for forgotten in ("mean", "beta"):
        wrong = np.abs(in_halves(data, 1e-5, forget=(forgotten,)).astype(float) - expected["d"])
        assert (wrong > judged.bound).any()


@pytest.mark.parametrize(("masked", "value"), [("-inf", -math.inf), ("-1e9", -1e9), ("0", 0.0)])
@pytest.mark.parametrize("alignment", ["top-left", "bottom-right"])
def test_scores_of_hidden_keys(masked, value, alignment):
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((3, 4)), rng.standard_normal((5, 4))
    got = wmmadiag.reference("qkt", q=q, k=k, causal=True, alignment=alignment, masked_scores=masked).value
    corner = 2 if alignment == "bottom-right" else 0
    for i, j in np.ndindex(3, 5):
        want = math.fsum(q[i] * k[j]) if j <= i + corner else value
        assert got[i, j] == pytest.approx(want, rel=1e-12)


def test_images_are_scaled_and_shifted_each_for_itself():
    rng = np.random.default_rng(7)
    x, b = rng.standard_normal((2, 3, 8)), rng.standard_normal((8, 5))
    scale, shift = rng.standard_normal((2, 8)), rng.standard_normal((2, 8))
    got = wmmadiag.reference("modulated_gemm", x=x, scale=scale, shift=shift, b=b, eps=0.5).value
    for image, row in np.ndindex(2, 3):
        apart = x[image, row] - x[image, row].mean()
        normed = apart / np.sqrt((apart**2).mean() + 0.5)
        want = (normed * (1 + scale[image]) + shift[image]) @ b
        np.testing.assert_allclose(got[image, row], want, rtol=1e-12)


def test_a_layernorm_may_have_a_factor_of_1_and_gamma():
    rng = np.random.default_rng(8)
    x, gamma, b = rng.standard_normal((3, 8)), rng.standard_normal(8), np.eye(8)
    one, other = (
        wmmadiag.reference("norm_gemm", x=x, gamma=added, b=b, norm="layernorm", unit_offset=unit)
        for added, unit in ((gamma, True), (1 + gamma, False))
    )
    np.testing.assert_allclose(one.value, other.value, rtol=1e-12)
    np.testing.assert_allclose(one.bound, other.bound, rtol=1e-6)
