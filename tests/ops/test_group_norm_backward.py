"""Gradients of GroupNorm with an activation, against differences of its forward pass, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.evaluation import judge, reference

N, G, D, H, W = 2, 3, 4, 3, 5
EPS = 1e-5


def operands(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, G, D, H, W))
    return {
        "dy": rng.standard_normal(x.shape),
        "x": x,
        "weight": rng.standard_normal((G, D)),
        "bias": rng.standard_normal((G, D)),
        "mean": x.mean(axis=(2, 3, 4)),
        "rstd": 1 / np.sqrt(x.var(axis=(2, 3, 4)) + EPS),
    }


def forward(x, weight, bias, silu):
    mean, var = (one(axis=(2, 3, 4), keepdims=True) for one in (x.mean, x.var))
    v = (x - mean) / np.sqrt(var + EPS) * weight[None, :, :, None, None] + bias[None, :, :, None, None]
    return v / (1 + np.exp(-v)) if silu else v


@pytest.mark.parametrize("activation", ["none", "silu"])
def test_each_gradient_is_the_slope_of_the_loss(activation):
    data = operands(0)
    got = reference("group_norm_backward", {"activation": activation}, data)
    rng = np.random.default_rng(1)
    for role, output in (("x", "dx"), ("weight", "dweight"), ("bias", "dbias")):
        direction, step = rng.standard_normal(data[role].shape), 1e-5

        def loss(sign, role=role, direction=direction, step=step):
            moved = {**data, role: data[role] + sign * step * direction}
            y = forward(moved["x"], moved["weight"], moved["bias"], activation == "silu")
            return (y * data["dy"]).sum()

        slope = (loss(1) - loss(-1)) / (2 * step)
        assert (got[output] * direction).sum() == pytest.approx(slope, rel=1e-4)
    assert np.allclose(got["parts"][:, 0].sum(axis=0), got["dweight"])
    assert np.allclose(got["parts"][:, 1].sum(axis=0), got["dbias"])


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("seed", range(4))
def test_f32_is_within_the_bounds_and_a_bias_left_out_is_not(activation, seed):
    data = {role: one.astype(np.float32) for role, one in operands(seed).items()}
    said = {"activation": activation}
    expected = reference("group_norm_backward", said, data)
    types = dict.fromkeys((*data, *expected), TYPES["f32"])
    bounds = judge("group_norm_backward", said, data, expected, types)

    def run(bias):
        def wide(one):
            return one.reshape(*one.shape, *(1,) * (5 - one.ndim)) if one.shape[0] == N else one[None, ..., None, None]

        normed = (data["x"] - wide(data["mean"])) * wide(data["rstd"])
        slope = data["dy"]
        if activation == "silu":
            v = normed * wide(data["weight"]) + wide(bias)
            s = 1 / (1 + np.exp(-v))
            slope = slope * s * (1 + v * (1 - s))
        each = slope * wide(data["weight"])
        whole, along = (one.mean(axis=(2, 3, 4), keepdims=True) for one in (each, each * normed))
        return {
            "dx": wide(data["rstd"]) * (each - whole - normed * along),
            "dweight": (slope * normed).sum(axis=(0, 3, 4)),
            "dbias": slope.sum(axis=(0, 3, 4)),
        }

    def outside(found):
        return {one: bool((np.abs(found[one] - expected[one]) > bounds[one].bound).any()) for one in found}

    assert not any(outside(run(data["bias"])).values())
    if activation == "silu":
        assert all(outside(run(0 * data["bias"])).values())
