"""Weights of few bits: packed as the libraries that made the formats pack them, dequantised value by value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.ops.catalogue.quantized_gemm import unpacked


def packed_by_gptq(values):
    """AutoGPTQ `qlinear_cuda.py`: qweight[row] |= intweight[i] << (4·(i − 8·row)), along the first axis."""
    words = np.zeros((values.shape[0] // 8, values.shape[1]), np.uint32)
    for k, row in enumerate(values):
        words[k // 8] |= row.astype(np.uint32) << np.uint32(4 * (k % 8))
    return words.view(np.int32)


def packed_by_awq(values):
    """AWQ `qmodule.py`: qweight[:, col] |= intweight[:, 8·col + order_map[i]] << 4·i."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    words = np.zeros((values.shape[0], values.shape[1] // 8), np.uint32)
    for column in range(words.shape[1]):
        for i, of_word in enumerate(order):
            words[:, column] |= values[:, 8 * column + of_word].astype(np.uint32) << np.uint32(4 * i)
    return words.view(np.int32)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 3), columns=st.integers(1, 3), seed=st.integers(0, 99))
def test_what_was_packed_is_unpacked(rows, columns, seed):
    values = np.random.default_rng(seed).integers(0, 16, (8 * rows, 8 * columns))
    np.testing.assert_array_equal(unpacked(packed_by_gptq(values), 4, 8, axis=0), values)
    np.testing.assert_array_equal(unpacked(packed_by_awq(values), 4, 8, axis=1, order="awq"), values)
    pairs = (values[:, ::2] | values[:, 1::2] << 4).astype(np.uint8)
    np.testing.assert_array_equal(unpacked(pairs, 4, 2, axis=1), values)


def test_two_complements_and_bytes():
    np.testing.assert_array_equal(unpacked(np.array([[0x8F]], np.uint8), 4, 2, axis=1, signed=True), [[-1, -8]])
    np.testing.assert_array_equal(unpacked(np.array([[-3]], np.int8), 8, 1, axis=1, signed=True), [[-3]])
    np.testing.assert_array_equal(unpacked(np.array([[-3]], np.int8), 8, 1, axis=1), [[253]])


@pytest.mark.parametrize(
    ("said", "what"),
    [({"bits": 8, "pack": 8}, "do not fit"), ({"order": "awq", "bits": 8, "pack": 4}, "is that of 8 values")],
)
def test_what_an_element_cannot_hold_is_refused(said, what):
    k = 8 * said["pack"]
    with pytest.raises(ConfigurationError, match=what):
        wmmadiag.reference(
            "quantized_gemm",
            a=np.ones((2, k), np.float16),
            b=np.ones((8, 4), np.int32),
            scales=np.ones((1, 4), np.float16),
            **said,
        )


def parts(seed, form, k=64, n=16, group=4):
    """(inputs, parameters, dequantised weights) of one way to store weights."""
    rng = np.random.default_rng(seed)
    values, zeros = rng.integers(0, 16, (k, n)), rng.integers(1, 16, (k // group, n))
    scales = rng.uniform(0.01, 0.1, (k // group, n)).astype(np.float16)
    of_rows = np.repeat(np.arange(k // group), group)
    inputs = {"a": rng.standard_normal((6, k)).astype(np.float16), "scales": scales}
    said = {"group": group}
    scale = scales.astype(float)[of_rows]
    weights = (values - zeros[of_rows]) * scale
    if form == "gptq":
        inputs |= {"b": packed_by_gptq(values), "zeros": packed_by_gptq((zeros - 1).T).T.copy()}
        said |= {"zero_pack": 8, "zero_offset": 1}
    elif form == "along groups":
        inputs |= {"b": packed_by_gptq(values), "zeros": packed_by_gptq(zeros)}
        said |= {"zero_pack": 8, "zeros_along_groups": True}
    elif form == "awq":
        inputs |= {"b": packed_by_awq(values), "zeros": packed_by_awq(zeros)}
        said |= {"zero_pack": 8, "packed_along_n": True, "order": "awq"}
    elif form == "symmetric":
        inputs |= {"b": packed_by_gptq(values)}
        weights = (values - 8) * scale
    elif form == "nf4":  # two to a byte, the first in the high bits; the levels are those of torchao's NF4_LUT
        levels = np.array([-1.0, -0.69619, -0.52507, -0.39492, -0.28444, -0.18477, -0.09105, 0.0,
                           0.07958, 0.16093, 0.24611, 0.33792, 0.44071, 0.56262, 0.72296, 1.0])  # fmt: skip
        inputs |= {"b": (values[0::2] * 16 + values[1::2]).astype(np.uint8)}
        said |= {"pack": 2, "code": "nf4"}
        weights = levels[values] * scale
    elif form == "bytes":
        inputs |= {"b": (16 * values - 128).astype(np.int8)}
        said |= {"bits": 8, "pack": 1, "signed": True}
        weights = (16 * values - 128) * scale
    else:
        added = rng.standard_normal(zeros.shape).astype(np.float16)
        inputs |= {"b": packed_by_gptq(values), "zeros": added}
        said |= {"zero_form": "added"}
        weights = (values - 8) * scale + added.astype(float)[of_rows]
    return inputs, said, weights


FORMS = ("gptq", "awq", "along groups", "symmetric", "bytes", "added")


@pytest.mark.parametrize("form", (*FORMS, "nf4"))
def test_the_product_is_with_the_dequantised_weights(form):
    inputs, said, weights = parts(0, form)
    got = wmmadiag.reference("quantized_gemm", **inputs, **said).value
    close = {"rtol": 1e-3, "atol": 1e-4} if form == "nf4" else {"rtol": 1e-12}  # levels of five digits
    np.testing.assert_allclose(got, inputs["a"].astype(float) @ weights, **close)


@settings(max_examples=30, deadline=None)
@given(form=st.sampled_from(FORMS), seed=st.integers(0, 99), fused=st.booleans())
def test_weights_in_half_are_within_the_bound_and_the_wrong_groups_are_not(form, seed, fused):
    inputs, said, weights = parts(seed, form)
    want = wmmadiag.reference("quantized_gemm", **inputs, **said, dtype="f32")
    rounded = weights.astype(np.float16)
    if fused and form in ("gptq", "awq"):
        scale = np.repeat(inputs["scales"], said["group"], axis=0)
        values = unpacked(inputs["b"], 4, 8, axis=1 if form == "awq" else 0, order="awq" if form == "awq" else "linear")
        zero = np.rint(values - weights / scale.astype(float))
        rounded = (values.astype(np.float16) * scale - zero.astype(np.float16) * scale).astype(np.float16)
    a = inputs["a"].astype(np.float32)
    assert wmmadiag.compare_arrays(a @ rounded.astype(np.float32), want).passed
    shifted = np.roll(weights, 1, axis=0).astype(np.float16)
    assert not wmmadiag.compare_arrays(a @ shifted.astype(np.float32), want).passed


def test_rows_of_bytes_have_a_scale_each():
    rng = np.random.default_rng(11)
    a = rng.integers(-128, 128, (3, 8)).astype(np.int8)
    b = rng.integers(0, 256, (4, 5)).astype(np.uint8)
    scales, rows = rng.standard_normal((2, 5)).astype(np.float32), np.array([0.5, 1.0, 2.0], np.float32)
    found = wmmadiag.reference("quantized_gemm", a=a, b=b, scales=scales, a_scales=rows, bits=4, pack=2, group=4)
    values = np.empty((8, 5))
    values[0::2], values[1::2] = (b & 15).astype(float) - 8, (b >> 4).astype(float) - 8
    want = rows[:, None] * (a.astype(float) @ (values * np.repeat(scales.astype(float), 4, axis=0)))
    np.testing.assert_allclose(found.value, want, rtol=1e-12)
    assert (found.bound > 0).all()  # groups are scaled in the working type


def silu(x):
    return x / (1 + np.exp(-x))


def test_an_activation_is_of_the_sum_with_its_bias():
    inputs, said, weights = parts(3, "bytes")
    inputs["bias"] = np.random.default_rng(4).normal(0, 30, 16).astype(np.float16)
    sums, bias = inputs["a"].astype(float) @ weights, inputs["bias"].astype(float)
    want = wmmadiag.reference("quantized_gemm", **inputs, **said, activation="silu", dtype="f32")
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(want.value, silu(sums + bias), rtol=1e-12, atol=1e-30)
        assert wmmadiag.compare_arrays(silu(sums + bias).astype(np.float32), want).passed
        assert not wmmadiag.compare_arrays(silu(silu(sums) + bias).astype(np.float32), want).passed
        assert not wmmadiag.compare_arrays(silu(sums).astype(np.float32), want).passed
