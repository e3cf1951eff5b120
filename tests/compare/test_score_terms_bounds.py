"""Attention with softcap, bias, ALiBi and further masks: no correct kernel is flagged, small faults are."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_kernels import flash, to_type
from hypothesis import given, settings
from hypothesis import strategies as st
from test_attention_bound import STYLES, Style, parameters

from wmmadiag.compare.comparison import compare
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.ops.parts.score_terms import score_terms
from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.inputs import draw

F32 = np.float32


def case(dtype, rows, keys, depth, distribution, seed, *, bias="", alibi=False):
    """Inputs of 2 batches and 2 heads."""
    element = TYPES[dtype]
    tensors = {"q": ((2, 2, rows, depth), element), "k": ((2, 2, keys, depth), element)}
    tensors["v"] = tensors["k"]
    data = draw(distribution, tensors, seed)
    rng = np.random.default_rng(seed)
    shapes = {"SK": (rows, keys), "HSK": (2, rows, keys), "BK": (2, 1, 1, keys), "BHSK": (2, 2, rows, keys)}
    if bias:
        data["bias"] = to_type(3 * rng.standard_normal(shapes[bias]), "f32" if dtype == "f32" else "f16")
    if alibi:
        data["alibi_slopes"] = (2.0 ** -rng.uniform(0, 6, 2)).astype(F32)
    return data


def kernel(data, params, style, out, *, form=0):
    """A kernel that computes all of it in float32."""
    rows, keys = data["q"].shape[2], data["k"].shape[2]
    terms = score_terms(params, data, rows, keys)
    cap = F32(params["softcap"])

    def change(b, h):
        def of(s, part):
            s = s.astype(F32)
            if cap:
                z = (s / cap).astype(F32)
                s = cap * (np.tanh(z) if form == 0 else F32(1) - F32(2) / (np.exp(F32(2) * z) + F32(1)))
            if terms.bias is not None:
                s = s + terms.bias_of((b, h), np.arange(rows)).astype(F32)[:, part]
            if terms.slopes is not None:
                slope, i, j = F32(terms.slope_of((b, h))), np.arange(rows)[:, None], np.arange(keys)[None, part]
                far = -slope * np.abs(i + terms.corner - j).astype(F32)
                s = s + (slope * j.astype(F32) if form == 1 and terms.causal else far)
            return s

        return of

    masks = np.stack([[terms.allowed((b, h), np.arange(rows)) for h in range(2)] for b in range(2)])
    with np.errstate(over="ignore"):
        return flash(data["q"], data["k"], data["v"], params["scale"], style, out, masks, change=change)


def seen(data, params, elements, observed, out):
    expected = reference("attention", params, data)
    bounds = judge("attention", params, data, expected, elements)
    return compare(observed, expected["o"], bounds["o"], output="o", element=TYPES[out])


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    style=STYLES,
    dtype=st.sampled_from(["f16", "bf16", "f32"]),
    rows=st.integers(1, 50),
    keys=st.integers(1, 70),
    depth=st.sampled_from([8, 16, 64]),
    distribution=st.sampled_from(sorted(DISTRIBUTIONS)),
    causal=st.sampled_from(["", "top-left", "bottom-right"]),
    softcap=st.sampled_from([0.0, 0.0, 2.0, 30.0]),
    bias=st.sampled_from(["", "SK", "HSK", "BK", "BHSK"]),
    alibi=st.booleans(),
    window=st.sampled_from([(-1, -1), (7, -1), (16, 0), (5, 3)]),
    form=st.integers(0, 1),
    seed=st.integers(0, 1000),
)
def test_flags_no_correct_kernel(
    style, dtype, rows, keys, depth, distribution, causal, softcap, bias, alibi, window, form, seed
):
    data = case(dtype, rows, keys, depth, distribution, seed, bias=bias, alibi=alibi)
    params = parameters(depth**-0.5, causal=bool(causal), alignment=causal or "top-left", softcap=softcap)
    params |= {"window_left": window[0], "window_right": window[1]}
    style = Style(**{**style.__dict__, "p_type": "" if dtype == "f32" else dtype})
    observed = kernel(data, params, style, dtype, form=form)
    elements = {**dict.fromkeys("qkvo", TYPES[dtype]), "bias": TYPES["f16"], "alibi_slopes": TYPES["f32"]}
    found = seen(data, params, elements, observed, dtype)
    assert found.wrong == 0, (found.worst, found.max_in_bounds)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(["f16", "f32"]),
    out=st.sampled_from(["f16", "f32"]),
    softcap=st.sampled_from([0.0, 1.5, 20.0]),
    approximate=st.booleans(),
    bias=st.sampled_from(["", "SK", "BHSK"]),
    seed=st.integers(0, 1000),
)
def test_flags_no_correct_scores(dtype, out, softcap, approximate, bias, seed):
    data = case(dtype, 21, 33, 32, "normal", seed, bias=bias)
    del data["v"]
    scaled = (data["q"].astype(F32) @ data["k"].astype(F32).swapaxes(-1, -2)) * F32(0.25)
    tanh = np.tanh(scaled / F32(softcap or 1)).astype(F32)
    if approximate:  # within the error of tanh.approx
        tanh = tanh * F32(1 + 2.0**-11 * np.sin(seed))
    scores = F32(softcap) * tanh if softcap else scaled
    observed = to_type(scores + data["bias"].astype(F32) if bias else scores, out)
    params = {**parameters(0.25), "softcap": softcap, "tanh_dtype": "f16" if approximate else "f32"}
    expected = reference("qkt", params, data)["scores"]
    elements = {**dict.fromkeys("qk", TYPES[dtype]), "scores": TYPES[out], "bias": TYPES["f16"]}
    bound = judge("qkt", params, data, {"scores": expected}, elements)["scores"]
    found = compare(observed, expected, bound, output="scores", element=TYPES[out])
    assert found.wrong == 0, (found.worst, found.max_in_bounds)


FAULTS = {
    "bias missing": ({"bias": ""}, {}),
    "alibi missing": ({"alibi": False}, {}),
    "softcap missing": ({}, {"softcap": 0.0}),
    "window off by one": ({}, {"window_left": 8}),
    "window missing": ({}, {"window_left": -1}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_flags_small_faults(fault, dtype):
    less, other = FAULTS[fault]
    given_ = {"bias": "BHSK", "alibi": True}
    params = parameters(0.125, softcap=2.0, window_left=7, window_right=-1, causal=True)
    style = Style(matmul="blas", p_type="" if dtype == "f32" else dtype)
    data = case(dtype, 64, 64, 64, "normal", 1, **given_)
    elements = {**dict.fromkeys("qkvo", TYPES[dtype]), "bias": TYPES["f16"], "alibi_slopes": TYPES["f32"]}
    assert seen(data, params, elements, kernel(data, params, style, dtype), dtype).passed
    wrong = kernel(case(dtype, 64, 64, 64, "normal", 1, **{**given_, **less}), {**params, **other}, style, dtype)
    assert seen(data, params, elements, wrong, dtype).wrong > 500


def test_lengths_and_masks_hide_keys_and_infinite_biases_do_too():
    data = case("f16", 20, 40, 16, "normal", 3)
    elements = dict.fromkeys("qkvo", TYPES["f16"])
    lengths = np.array([17, 40], np.int32)
    keep = (np.arange(40)[None, :] < lengths[:, None])[:, None, None, :]
    minus = np.where(keep, 0.0, -np.inf).astype(np.float32)
    style = Style(matmul="blas", p_type="f16")
    wanted = None
    for further in ({"lengths": lengths}, {"mask": keep.astype(np.uint8)}, {"bias": minus}):
        given_ = {**data, **further}
        expected = reference("attention", parameters(0.25), given_)
        wanted = expected["o"] if wanted is None else wanted
        np.testing.assert_allclose(expected["o"], wanted, rtol=1e-12)
        short = data["k"].copy()
        short[0, :, 17:] = 0  # what is masked does not count
        np.testing.assert_allclose(reference("attention", parameters(0.25), {**given_, "k": short})["o"], wanted)
        params = parameters(0.25)
        observed = kernel(given_, params, style, "f16") if "bias" not in further else to_type(wanted, "f16")
        assert seen(given_, params, {**elements, "bias": TYPES["f32"]}, observed, "f16").passed
        plain = kernel(data, params, style, "f16")
        assert seen(given_, params, {**elements, "bias": TYPES["f32"]}, plain, "f16").wrong > 200
