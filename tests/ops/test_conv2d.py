"""The convolution against its definition, element by element, and its bound against sums in another order and type."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wmmadiag
from wmmadiag.errors import ConfigurationError
from wmmadiag.ops import OPERATIONS


def naive(x, w, stride, pad, dilation, groups):
    (count, channels, height, width), (filters, depth, rows, columns) = x.shape, w.shape
    high = (height + 2 * pad[0] - dilation[0] * (rows - 1) - 1) // stride[0] + 1
    wide = (width + 2 * pad[1] - dilation[1] * (columns - 1) - 1) // stride[1] + 1
    y = np.zeros((count, filters, high, wide))
    for n, k, p, q in np.ndindex(y.shape):
        first = k // (filters // groups) * (channels // groups)
        terms = []
        for c, r, s in np.ndindex(depth, rows, columns):
            i, j = p * stride[0] + r * dilation[0] - pad[0], q * stride[1] + s * dilation[1] - pad[1]
            if 0 <= i < height and 0 <= j < width:
                terms.append(float(x[n, first + c, i, j]) * float(w[k, c, r, s]))
        y[n, k, p, q] = math.fsum(terms)
    return y


@settings(max_examples=40, deadline=None)
@given(
    extents=st.tuples(*[st.integers(1, 2), st.integers(1, 3), st.integers(5, 9), st.integers(5, 8)]),
    filters=st.integers(1, 3),
    window=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    pad=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    groups=st.integers(1, 2),
    seed=st.integers(0, 9),
)
def test_it_is_the_correlation_of_its_definition(extents, filters, window, stride, pad, dilation, groups, seed):
    rng = np.random.default_rng(seed)
    count, depth, height, width = extents
    x = rng.standard_normal((count, depth * groups, height, width)).astype(np.float32)
    w = rng.standard_normal((filters * groups, depth, *window)).astype(np.float32)
    along = {f"{name}_{axis}": pair[at] for name, pair in (("stride", stride), ("pad", pad), ("dilation", dilation))
             for at, axis in enumerate("hw")}  # fmt: skip
    got = wmmadiag.reference("conv2d", x=x, w=w, groups=groups, **along).value
    np.testing.assert_allclose(got, naive(x, w, stride, pad, dilation, groups), rtol=1e-12, atol=1e-12)


def test_bias_and_activation_come_last():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 6, 5)).astype(np.float32), rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    bias = rng.standard_normal((4, 1, 1)).astype(np.float32)
    plain = wmmadiag.reference("conv2d", x=x, w=w, pad_h=1, pad_w=1).value
    got = wmmadiag.reference("conv2d", x=x, w=w, bias=bias, pad_h=1, pad_w=1, activation="relu").value
    np.testing.assert_allclose(got, np.maximum(plain + bias, 0))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), channels=st.sampled_from([1, 8, 64]), activation=st.sampled_from(["none", "silu"]))
def test_sums_in_single_precision_are_within_the_bound_and_a_missing_tap_is_not(seed, channels, activation):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, channels, 6, 7)).astype(np.float16)
    w = rng.standard_normal((4, channels, 3, 3)).astype(np.float16)
    want = wmmadiag.reference("conv2d", x=x, w=w, pad_h=1, pad_w=1, dtype="f32", activation=activation)
    padded = np.pad(x.astype(np.float32), ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums, missing = np.zeros((1, 4, 6, 7), np.float32), np.zeros((1, 4, 6, 7), np.float32)
    for c, r, s in rng.permutation([*np.ndindex(channels, 3, 3)]):
        term = padded[:, c : c + 1, r : r + 6, s : s + 7] * w[None, :, c, r, s, None, None].astype(np.float32)
        sums += term
        missing += term if (c, r, s) != (0, 1, 1) else 0
    if activation == "silu":
        with np.errstate(over="ignore"):  # of a large negative number, which silu takes to 0
            sums, missing = [each / (1 + np.exp(-each)) for each in (sums, missing)]
    assert wmmadiag.compare_arrays(sums, want).passed
    assert not wmmadiag.compare_arrays(missing, want).passed


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"x": (1, 4, 8, 8), "w": (4, 3, 3, 3)}, {}),
        ({"x": (1, 4, 8, 8), "w": (4, 4, 3, 3)}, {"groups": 2}),
        ({"x": (1, 4, 8, 8), "w": (4, 4, 3, 3), "bias": (4, 3, 1)}, {}),
    ],
    ids=["channels", "groups", "bias"],
)
def test_what_does_not_fit_is_refused(shapes, said):
    with pytest.raises(ConfigurationError):
        wmmadiag.reference("conv2d", **{role: np.ones(shape, np.float32) for role, shape in shapes.items()}, **said)


def test_drafted_cases_give_the_axes_different_numbers():
    known = OPERATIONS["conv2d"].parameters
    for name in ("stride", "pad", "dilation"):
        assert known[f"{name}_h"].drafted[-1] != known[f"{name}_w"].drafted[-1]


def test_groups_that_divide_nothing_are_an_error_of_the_case():
    x, w = np.ones((1, 15, 6, 6), np.float32), np.ones((6, 7, 3, 3), np.float32)
    with pytest.raises(ConfigurationError, match="2 groups do not divide 15 channels") as raised:
        wmmadiag.reference("conv2d", x=x, w=w, groups=2)
    assert "x [1, 15, 6, 6]" in raised.value.message and raised.value.hint
