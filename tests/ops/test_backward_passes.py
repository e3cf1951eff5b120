"""Gradients against differences of the forward pass, what cannot be told, and the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.ops.parts.epilogue import FUNCTIONS

STEP = 1e-5


def defaults(operation, **changes):
    known = {name: one.default for name, one in OPERATIONS[operation].parameters.items()}
    return {**known, **changes}


def differences(loss, data, role):
    """The gradient of a function by one of its inputs, element by element."""
    found = np.empty_like(data[role])
    for at in np.ndindex(found.shape):
        sides = []
        for step in (STEP, -STEP):
            moved = data[role].copy()
            moved[at] += step
            sides.append(loss({**data, role: moved}))
        found[at] = (sides[0] - sides[1]) / (2 * STEP)
    return found


def heads(seed, h=4, kv=2, sq=3, skv=5, d=4, dv=3):
    rng = np.random.default_rng(seed)
    shapes = {"q": (1, h, sq, d), "k": (1, kv, skv, d), "v": (1, kv, skv, dv), "do": (1, h, sq, dv)}
    return {role: rng.standard_normal(shape) for role, shape in shapes.items()}


@pytest.mark.parametrize("masks", [{"causal": 0}, {"causal": 1, "alignment": "bottom-right"}], ids=["all", "causal"])
@pytest.mark.parametrize("kept", [(), ("lse",), ("lse", "o"), ("o",)], ids=lambda kept: " ".join(kept) or "nothing")
def test_gradients_of_attention_are_differences_of_its_forward_pass(masks, kept):
    data = heads(0)
    forward = defaults("attention", scale=0.5, softcap=0.0, **masks)

    def loss(moved):
        return float((reference("attention", forward, {role: moved[role] for role in "qkv"})["o"] * data["do"]).sum())

    passed = reference("attention", forward, {role: data[role] for role in "qkv"})
    given = {**data, **{role: passed[role] for role in kept}}
    got = reference("attention_backward", defaults("attention_backward", scale=0.5, **masks), given)
    for role in "qkv":
        np.testing.assert_allclose(got[f"d{role}"], differences(loss, data, role), rtol=1e-6, atol=1e-8)


def test_delta_is_taken_as_it_is_given_and_logarithms_may_be_to_base_2():
    data = heads(1)
    plain = defaults("attention_backward", scale=0.5, causal=0)
    lse = np.random.default_rng(2).uniform(1, 2, data["q"].shape[:-1])
    sums = np.random.default_rng(3).standard_normal(lse.shape)
    one = reference("attention_backward", plain, {**data, "lse": lse, "delta": sums})
    other = reference("attention_backward", plain, {**data, "lse": lse, "delta": sums + 1.0})
    p = np.exp(0.5 * data["q"] @ np.repeat(data["k"], 2, axis=1).swapaxes(-1, -2) - lse[..., None])
    np.testing.assert_allclose(other["dq"] - one["dq"], -0.5 * p @ np.repeat(data["k"], 2, axis=1), rtol=1e-9)
    of_two = reference(
        "attention_backward", {**plain, "lse_base": "2"}, {**data, "lse": lse / np.log(2), "delta": sums}
    )
    np.testing.assert_allclose(of_two["dk"], one["dk"], rtol=1e-9)


def test_what_overflows_is_told_by_its_elements_and_not_by_warnings():
    """A kernel is given logarithms of sums that its inputs do not have; here warnings are errors."""
    data = {role: array * 1e3 for role, array in heads(5).items()}
    plain = defaults("attention_backward", scale=0.5, causal=0)
    given = {**data, "lse": np.full(data["q"].shape[:-1], -1e4), "delta": np.zeros(data["q"].shape[:-1])}
    got = reference("attention_backward", plain, given)
    assert not np.isfinite(got["dk"]).all()
    bounds = judge("attention_backward", plain, given, got, dict.fromkeys([*given, *got], TYPES["f32"]))
    assert set(bounds) == set(got)


def test_without_v_nothing_but_its_own_gradient_is_told():
    data = heads(4)
    plain = defaults("attention_backward", scale=0.5, causal=0)
    got = reference("attention_backward", plain, {role: data[role] for role in ("q", "k", "do")})
    assert set(got) == {"dv"}
    np.testing.assert_allclose(got["dv"], reference("attention_backward", plain, data)["dv"], rtol=1e-12)


def layer(seed, m=4, n=3, k=5):
    rng = np.random.default_rng(seed)
    shapes = {"x": (m, k), "w": (n, k), "b": (n,), "dy": (m, n)}
    return {role: rng.standard_normal(shape) for role, shape in shapes.items()}


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "gelu_tanh", "silu"])
def test_gradients_of_a_layer_are_differences_of_its_forward_pass(activation):
    data = layer(0)

    def summed(moved):
        return moved["x"] @ moved["w"].T + moved["b"]

    def loss(moved):
        return float((FUNCTIONS[activation].apply(summed(moved)) * data["dy"]).sum())

    given = {"dy": data["dy"], "x": data["x"], "w": data["w"], "y": summed(data)}
    got = reference("linear_backward", defaults("linear_backward", activation=activation, alpha=1, beta=0), given)
    for role, gradient in (("x", "dx"), ("w", "dw"), ("b", "db")):
        np.testing.assert_allclose(got[gradient], differences(loss, data, role), rtol=1e-6, atol=1e-8)
    if activation == "relu":
        of_result = {**given, "y": np.maximum(given["y"], 0)}
        again = reference("linear_backward", defaults("linear_backward", alpha=1, beta=0), of_result)
        np.testing.assert_array_equal(again["dz"], got["dz"])


def test_what_outputs_held_is_added_to_those_of_w_and_the_bias_or_to_neither():
    data = layer(1)
    plain = defaults("linear_backward", alpha=2, beta=3)
    given = {"dy": data["dy"], "x": data["x"], "w": data["w"]}
    one = reference("linear_backward", plain, given)
    held = {"dw_held": np.ones_like(data["w"]), "db_held": np.ones_like(data["b"])}
    both = reference("linear_backward", plain, {**given, **held})
    np.testing.assert_allclose(both["dw"] - one["dw"], 3.0)
    np.testing.assert_allclose(both["db"] - one["db"], 3.0)
    del held["db_held"]
    given |= held
    expected = reference("linear_backward", plain, given)
    assert "db" not in expected
    types = dict.fromkeys([*given, "db"], TYPES["f32"])  # W's gradient lies over what was held
    assert set(judge("linear_backward", plain, given, expected, types)) == {"dw_held"}
    # What X's gradient held says nothing where that cannot be told.
    types["dx_held"] = TYPES["f32"]
    without = {role: one for role, one in {**given, "dx_held": data["x"]}.items() if role != "w"}
    expected = reference("linear_backward", plain, without)
    assert set(judge("linear_backward", plain, without, expected, types)) == {"dw_held"}


@pytest.mark.parametrize("seed", range(4))
def test_halves_are_within_the_bounds_and_what_is_forgotten_is_not(seed):
    """Products of halves, summed in single precision, P and dS in halves between."""
    data = {role: one.astype(np.float16) for role, one in heads(seed, 2, 1, 16, 32, 16, 16).items()}
    lse = (np.log(32) + np.random.default_rng(seed).uniform(0, 1, (1, 2, 16))).astype(np.float32)
    sums = np.random.default_rng(seed + 9).standard_normal((1, 2, 16)).astype(np.float32)
    inputs = {**data, "lse": lse, "delta": sums}
    plain = defaults("attention_backward", scale=0.25, causal=0, accumulate_step=8)
    expected = reference("attention_backward", plain, inputs)
    types = dict.fromkeys((*data, "dq", "dk", "dv"), TYPES["f16"]) | dict.fromkeys(("lse", "delta"), TYPES["f32"])
    bounds = {role: one.bound for role, one in judge("attention_backward", plain, inputs, expected, types).items()}

    def run(forget=""):
        found = {role: np.zeros(expected[role].shape, np.float32) for role in ("dq", "dk", "dv")}
        for h in range(2):
            q, k, v, do = (data[role][0, h if role in ("q", "do") else 0].astype(np.float32) for role in data)
            p = np.exp(np.float32(0.25) * (q @ k.T) - lse[0, h][:, None])
            ds = p * (do @ v.T - (sums[0, h][:, None] if forget != "delta" else 0)) * np.float32(0.25)
            p, ds = (one.astype(np.float16).astype(np.float32) for one in (p, ds))
            found["dq"][0, h] = ds @ k
            found["dk"][0, 0] += ds.T @ q
            found["dv"][0, 0] += p.T @ (do if forget != "head" or h == 0 else 0 * do)
        return {role: np.abs(one.astype(np.float16) - expected[role]) > bounds[role] for role, one in found.items()}

    assert not any(off.any() for off in run().values())
    assert run("delta")["dq"].mean() > 0.5 and run("head")["dv"].mean() > 0.5
