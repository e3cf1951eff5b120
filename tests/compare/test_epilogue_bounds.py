"""Bounds of a GEMM with scales, bias and activation: no correct rounding is flagged, small faults are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from emulated_kernels import MATMULS, to_type
from hypothesis import given, settings
from hypothesis import strategies as st
from test_product_bounds import check

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops.parts.epilogue import FUNCTIONS
from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.inputs import draw

ERF = np.frompyfunc(math.erf, 1, 1)


def erf32(x):
    return ERF(x).astype(np.float32)


def forms(x, name, work):
    """An activation as kernels write it, every step rounded to `work`."""
    x = x.astype(work)
    one, half = work(1), work(0.5)
    if name == "relu":
        yield np.maximum(x, work(0))
    if name == "gelu":
        yield half * x * (one + erf32(x * work(0.70710678)).astype(work))
        yield x * (half + half * erf32(x / work(1.41421356)).astype(work))
    if name == "gelu_tanh":
        z = work(0.79788456) * (x + work(0.044715) * x * x * x)
        yield half * x * (one + np.tanh(z))
        yield x * (one - one / (one + np.exp(z + z)))
        yield half * x * (one + (one - work(2) / (np.exp(work(2) * z) + one)))
    if name == "silu":
        yield x / (one + np.exp(-x))
        yield x * (one / (one + np.exp2(-x * work(1.442695))))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(["f16", "bf16", "f32"]),
    out=st.sampled_from(["f32", "f16", "bf16"]),
    shape=st.tuples(st.integers(1, 33), st.integers(1, 33), st.integers(1, 130)),
    scaling=st.sampled_from([(1.0, 0.0), (0.7, 0.0), (-2.0, 1.0), (1.0, 0.3)]),
    activation=st.sampled_from(sorted(FUNCTIONS)),
    per_row=st.booleans(),
    bias_first=st.booleans(),
    epilogue=st.sampled_from(["auto", "f16"]),
    distribution=st.sampled_from(sorted(DISTRIBUTIONS)),
    seed=st.integers(0, 99),
)
def test_flags_no_correct_epilogue(
    dtype, out, shape, scaling, activation, per_row, bias_first, epilogue, distribution, seed
):
    m, n, k = shape
    alpha, beta = scaling
    element = TYPES[dtype]
    tensors = {"a": ((m, k), element), "b": ((k, n), element), "c": ((m, n), TYPES["f32"])}
    tensors["bias"] = ((m, 1) if per_row else (n,), element)
    data = draw(distribution, tensors, seed)
    if epilogue == "f16" and dtype != "f16":
        data["c"] /= np.float32(64)
    work = np.float16 if epilogue == "f16" else np.float32
    bias = data["bias"].astype(np.float32)
    product = MATMULS["scalar" if dtype == "f32" else "sm_90"](data["a"], data["b"])
    with np.errstate(all="ignore"):
        if bias_first and alpha == 1.0 and epilogue == "auto":
            x = (product + bias) + np.float32(beta) * data["c"]  # the bias is the accumulator's first value
        else:
            added = work(beta) * data["c"].astype(work)
            x = (work(alpha) * product.astype(work) + added).astype(work) + bias.astype(work)
        x = x.astype(work)
        if not np.isfinite(x).all():
            return
        elements = {"a": element, "b": element, "c": TYPES["f32"], "bias": element, "d": TYPES[out]}
        for result in [x] if activation == "none" else forms(x, activation, work):
            observed = to_type(result, out)
            seen = check(
                "gemm", observed, data, elements, alpha=alpha, beta=beta, activation=activation,
                epilogue_dtype=epilogue,
            )  # fmt: skip
            assert seen.passed, (seen.worst, seen.max_in_bounds)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    out=st.sampled_from(["f32", "f16"]),
    shape=st.tuples(st.integers(1, 33), st.integers(1, 33), st.integers(1, 130)),
    activation=st.sampled_from(["none", "relu", "silu"]),
    together=st.booleans(),
    seed=st.integers(0, 99),
)
def test_flags_no_correct_dequantisation(out, shape, activation, together, seed):
    m, n, k = shape
    s8, f32 = TYPES["s8"], TYPES["f32"]
    tensors = {"a": ((m, k), s8), "b": ((k, n), s8), "scale_a": ((m, 1), f32), "scale_b": ((n,), f32)}
    tensors["bias"] = ((n,), f32)
    data = draw("", tensors, seed)
    data["scale_a"], data["scale_b"] = np.abs(data["scale_a"]) / 64, np.abs(data["scale_b"]) / 64
    total = (data["a"].astype(np.int32) @ data["b"].astype(np.int32)).astype(np.float32)
    scaled = total * (data["scale_a"] * data["scale_b"]) if together else total * data["scale_a"] * data["scale_b"]
    x = scaled + data["bias"]
    elements = {"a": s8, "b": s8, "scale_a": f32, "scale_b": f32, "bias": f32, "d": TYPES[out]}
    with np.errstate(over="ignore"):
        results = [x] if activation == "none" else list(forms(x, activation, np.float32))
    for result in results:
        seen = check("gemm", to_type(result, out), data, elements, activation=activation)
        assert seen.passed, (seen.worst, seen.max_in_bounds)


def test_integers_stay_exact_through_bias_and_relu():
    s8, s32 = TYPES["s8"], TYPES["s32"]
    data = draw("", {"a": ((20, 64), s8), "b": ((64, 20), s8), "bias": ((20,), s32)}, 0)
    exact = np.maximum(data["a"].astype(np.int32) @ data["b"].astype(np.int32) + data["bias"], 0)
    elements = {"a": s8, "b": s8, "bias": s32, "d": s32}
    assert check("gemm", exact, data, elements, activation="relu").passed
    exact[3, 4] += 1
    assert check("gemm", exact, data, elements, activation="relu").wrong == 1


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("out", ["f32", "f16"])
def test_faults_of_an_epilogue_are_flagged(activation, out):
    f16 = TYPES["f16"]
    data = draw("normal", {"a": ((32, 64), f16), "b": ((64, 32), f16), "bias": ((32,), f16)}, 0)
    elements = {"a": f16, "b": f16, "bias": f16, "d": TYPES[out]}
    product = data["a"].astype(np.float64) @ data["b"].astype(np.float64)
    bias, f = data["bias"].astype(np.float64), FUNCTIONS[activation].apply

    def wrong(result):
        return check("gemm", to_type(result, out), data, elements, activation=activation).wrong

    assert wrong(f(product + bias)) == 0
    for result in (f(product), product + bias, f(product) + bias, f(product + bias[:, None]), f(product + 2 * bias)):
        assert wrong(result) > 300


def test_an_activation_of_another_formula_is_flagged_in_f32():
    f16 = TYPES["f16"]
    data = draw("normal", {"a": ((32, 16), f16), "b": ((16, 32), f16)}, 0)
    product = data["a"].astype(np.float64) @ data["b"].astype(np.float64)
    other = FUNCTIONS["gelu_tanh"].apply(product).astype(np.float32)
    assert check("gemm", other, data, {"a": f16, "b": f16, "d": TYPES["f32"]}, activation="gelu").wrong > 100
