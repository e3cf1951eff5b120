"""LayerNorm and RMSNorm against their definitions; the bounds against one pass, two passes, and narrow steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.inputs import draw

F32 = np.float32


def rows_of(distribution, shape, seed, **roles):
    tensors = {"x": (shape, TYPES["f16"]), "weight": (shape[-1:], TYPES["f16"]), "bias": (shape[-1:], TYPES["f16"])}
    tensors |= dict.fromkeys(roles, (shape, TYPES["f16"]))
    return draw(distribution, tensors, seed, hard=OPERATIONS["layernorm"].hard_inputs)


def test_layernorm_is_its_definition():
    data = rows_of("normal", (3, 7), 0)
    got = wmmadiag.reference("layernorm", **data, eps=0.01).value
    for i, row in enumerate(data["x"].astype(float)):
        mean = math.fsum(row) / 7
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / 7 + 0.01)
        want = [(v - mean) / deviation * float(w) + float(b) for v, w, b in zip(row, data["weight"], data["bias"])]  # noqa: B905
        np.testing.assert_allclose(got[i], want, rtol=1e-12)


def test_what_is_added_to_all_rows_is_normalised_with_them():
    data = rows_of("normal", (3, 7), 0, residual="")
    added = data.pop("bias")
    whole = data["x"].astype(float) + data["residual"].astype(float) + added.astype(float)
    got = wmmadiag.reference("layernorm", **data, added=added, eps=0.01, dtype="f32")
    want = wmmadiag.reference("layernorm", x=whole, weight=data["weight"], eps=0.01)
    np.testing.assert_allclose(got.value, want.value, rtol=1e-12)
    sums = (data["x"].astype(F32) + data["residual"].astype(F32)) + added.astype(F32)
    nothing = np.zeros(7, F32)
    single = layernorm_in_single({"x": sums, "weight": data["weight"], "bias": nothing}, 4, one_pass=False, eps=0.01)
    assert wmmadiag.compare_arrays(single, got).passed


@pytest.mark.parametrize("offset", [False, True])
def test_rmsnorm_is_its_definition(offset):
    data = rows_of("normal", (3, 7), 1, residual="")
    del data["bias"]
    got = wmmadiag.reference("rmsnorm", **data, eps=0.01, unit_offset=offset).value
    for i, row in enumerate(data["x"].astype(float) + data["residual"].astype(float)):
        root = math.sqrt(math.fsum(v * v for v in row) / 7 + 0.01)
        np.testing.assert_allclose(got[i], row / root * (data["weight"].astype(float) + offset), rtol=1e-12)


@pytest.mark.parametrize("activated", [False, True])
def test_group_norm_is_its_definition(activated):
    rng = np.random.default_rng(0)
    x, weight, bias = rng.standard_normal((2, 3, 2, 2, 5)), rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    settings = {"eps": 0.01, "activation": "silu", "activated": activated}
    got = wmmadiag.reference("group_norm", x=x, weight=weight, bias=bias, dtype="f64", **settings).value
    for n, g, d, h, w in np.ndindex(x.shape):
        group = x[n, g].ravel()
        mean = math.fsum(group) / 20
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in group) / 20 + 0.01)
        want = (x[n, g, d, h, w] - mean) / deviation * weight[g, d] + bias[g, d]
        want = want / (1 + math.exp(-want)) if activated else want
        assert got[n, g, d, h, w] == pytest.approx(want, rel=1e-12)


def summed(values, lanes):
    """A sum in single precision, as so many lanes and then a tree of them take it."""
    parts = np.zeros((*values.shape[:-1], lanes), F32)
    for start in range(0, values.shape[-1], lanes):
        part = values[..., start : start + lanes]
        parts[..., : part.shape[-1]] += part
    while parts.shape[-1] > 1:
        half = (parts.shape[-1] + 1) // 2
        joined = parts[..., :half].copy()
        joined[..., : parts.shape[-1] - half] += parts[..., half:]
        parts = joined
    return parts


def layernorm_in_single(data, lanes, one_pass, eps=1e-5):
    x = data["x"].astype(F32)
    count = F32(x.shape[-1])
    mean = summed(x, lanes) / count
    if one_pass:
        variance = np.maximum(summed(x * x, lanes) / count - mean * mean, F32(0))
    else:
        variance = summed((x - mean) * (x - mean), lanes) / count
    rstd = F32(1) / np.sqrt(variance + F32(eps))
    return (x - mean) * rstd * data["weight"].astype(F32) + data["bias"].astype(F32)


@settings(max_examples=60, deadline=None)
@given(
    distribution=st.sampled_from(["normal", "large_mean", "outlier", "tiny_rows", "uniform"]),
    columns=st.sampled_from([1, 5, 64, 333, 1024]),
    lanes=st.sampled_from([1, 32, 256]),
    one_pass=st.booleans(),
    out=st.sampled_from([np.float32, np.float16]),
    seed=st.integers(0, 50),
)
def test_any_order_in_single_precision_is_within_the_bound(distribution, columns, lanes, one_pass, out, seed):
    data = rows_of(distribution, (4, columns), seed)
    want = wmmadiag.reference("layernorm", **data, dtype=np.dtype(out).name)
    assert wmmadiag.compare_arrays(layernorm_in_single(data, lanes, one_pass).astype(out), want).passed
    if not one_pass:
        want = wmmadiag.reference("layernorm", **data, dtype=np.dtype(out).name, variance="two-pass")
        assert wmmadiag.compare_arrays(layernorm_in_single(data, lanes, one_pass).astype(out), want).passed


def test_a_variance_in_one_pass_is_told_from_two_passes_where_the_mean_is_large():
    data = rows_of("normal", (8, 512), 0)
    data["x"] = (data["x"].astype(F32) + F32(300)).astype(F32)
    got = layernorm_in_single(data, 32, one_pass=True)
    loose = wmmadiag.reference("layernorm", **data, dtype="f32")
    assert wmmadiag.compare_arrays(got, loose).passed
    strict = wmmadiag.reference("layernorm", **data, dtype="f32", variance="two-pass")
    assert not wmmadiag.compare_arrays(got, strict).passed
    assert wmmadiag.compare_arrays(layernorm_in_single(data, 32, one_pass=False), strict).passed


MISTAKES = {
    "unbiased variance": lambda x, e: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + e),
    "eps outside the root": lambda x, e: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + e),
    "no mean": lambda x, e: x / np.sqrt(x.var(-1, keepdims=True) + e),
    "mean of all but one": lambda x, e: (
        (x - x[..., :-1].mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + e)
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_beyond_the_bound(name):
    data = rows_of("tiny_rows" if name.startswith("eps") else "normal", (4, 64), 3)
    want = wmmadiag.reference("layernorm", x=data["x"], dtype="f16")
    wrong = MISTAKES[name](data["x"].astype(float), 1e-5).astype(np.float16)
    assert not wmmadiag.compare_arrays(wrong, want).passed


@settings(max_examples=30, deadline=None)
@given(
    columns=st.sampled_from([8, 96, 640]), seed=st.integers(0, 50), distribution=st.sampled_from(["normal", "outlier"])
)
def test_steps_in_half_are_within_the_bound_of_a_card_that_says_so(columns, seed, distribution):
    data = rows_of(distribution, (4, columns), seed, residual="")
    total = data["x"] + data["residual"]  # in half
    wide = total.astype(F32)
    rstd = F32(1) / np.sqrt(summed(wide * wide, 32) / F32(columns) + F32(1e-6))
    got = (wide * rstd).astype(np.float16) * data["weight"]
    inputs = {role: data[role] for role in ("x", "residual", "weight")}
    want = wmmadiag.reference("rmsnorm", **inputs, sum_dtype="f16", normalized_dtype="f16")
    assert wmmadiag.compare_arrays(got, want).passed
