"""Bounds of products and softmax: no correct rounding is flagged, small faults are."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_kernels import MATMULS, half_matmul, to_type
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.compare.comparison import compare
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.inputs import draw


def parameters(operation, **changes):
    values = {name: p.default if p.kind != "flag" else False for name, p in OPERATIONS[operation].parameters.items()}
    numbers = {"accumulate_step": 8, "transpose_a": False, "transpose_b": False}
    numbers.update(alpha=1.0, beta=0.0, scale=1.0)
    return {**values, **{k: v for k, v in numbers.items() if k in values}, **changes}


def check(operation, observed, inputs, elements, **changes):
    params = parameters(operation, **changes)
    expected = reference(operation, params, inputs)
    judged = judge(operation, params, inputs, expected, elements)
    ((role, judgement),) = judged.items()
    return compare(observed, expected[role], judgement, output=role, element=elements[role])


ENGINES = {
    "f16": ["sm_80", "sm_90", "scalar", "blas"],
    "bf16": ["sm_80", "sm_90", "scalar"],
    "tf32": ["tf32"],
    "f32": ["scalar", "blas"],
}


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(sorted(ENGINES)),
    out=st.sampled_from(["f32", "f16", "bf16"]),
    engine=st.integers(0, 3),
    shape=st.tuples(st.integers(1, 33), st.integers(1, 33), st.integers(1, 130)),
    scaling=st.sampled_from([(1.0, 0.0), (0.7, 0.0), (-2.0, 1.0), (1.0, 0.3)]),
    distribution=st.sampled_from(sorted(DISTRIBUTIONS)),
    seed=st.integers(0, 99),
)
def test_gemm_flags_no_correct_product(dtype, out, engine, shape, scaling, distribution, seed):
    m, n, k = shape
    alpha, beta = scaling
    element = TYPES[dtype]
    data = draw(distribution, {"a": ((m, k), element), "b": ((k, n), element), "c": ((m, n), TYPES["f32"])}, seed)
    multiply = MATMULS[ENGINES[dtype][engine % len(ENGINES[dtype])]]
    with np.errstate(over="ignore"):
        observed = to_type(np.float32(alpha) * multiply(data["a"], data["b"]) + np.float32(beta) * data["c"], out)
    elements = {"a": element, "b": element, "c": TYPES["f32"], "d": TYPES[out]}
    seen = check("gemm", observed, data, elements, alpha=alpha, beta=beta)
    assert seen.passed, (seen.worst, seen.max_in_bounds)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(depth=st.integers(1, 200), step=st.sampled_from([1, 4, 8, 16]), seed=st.integers(0, 99))
def test_f16_accumulation_where_the_card_says_so(depth, step, seed):
    element = TYPES["f16"]
    data = draw("normal", {"q": ((9, depth), element), "k": ((7, depth), element)}, seed)
    observed = half_matmul(data["q"], data["k"].T, step=step).astype(np.float16)
    elements = {"q": element, "k": element, "scores": element}
    assert check("qkt", observed, data, elements, accumulate="f16", accumulate_step=step).passed


@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "f32"])
@pytest.mark.parametrize("depth", [16, 512])
def test_a_missing_slice_or_element_is_flagged(dtype, depth):
    element = TYPES[dtype]
    data = draw("normal", {"p": ((32, depth), element), "v": ((depth, 32), element)}, 0)
    elements = {"p": element, "v": element, "o": TYPES["f32"]}
    exact = data["p"].astype(np.float64) @ data["v"].astype(np.float64)
    assert check("pv", exact.astype(np.float32), data, elements).passed
    for lost in (slice(depth - 1, depth), slice(0, 8)):
        less = exact - data["p"][:, lost].astype(np.float64) @ data["v"][lost].astype(np.float64)
        assert check("pv", less.astype(np.float32), data, elements).wrong > 900


def test_f16_accumulation_is_flagged_where_the_card_does_not_say_so():
    element = TYPES["f16"]
    data = draw("positive", {"a": ((16, 512), element), "b": ((512, 16), element)}, 0)
    observed = half_matmul(data["a"], data["b"])
    elements = {"a": element, "b": element, "d": TYPES["f32"]}
    assert check("gemm", observed, data, elements).wrong > 200


def test_integers_and_doubles():
    s8 = TYPES["s8"]
    data = draw("", {"a": ((20, 64), s8), "b": ((64, 20), s8)}, 0)
    exact = data["a"].astype(np.int32) @ data["b"].astype(np.int32)
    elements = {"a": s8, "b": s8, "d": TYPES["s32"]}
    assert check("gemm", exact, data, elements).passed
    exact[3, 4] += 1
    assert check("gemm", exact, data, elements).wrong == 1
    f64 = TYPES["f64"]
    data = draw("", {"a": ((20, 300), f64), "b": ((300, 20), f64)}, 0)
    total = np.zeros((20, 20))
    for k in range(300):
        total += data["a"][:, k : k + 1] * data["b"][k : k + 1]
    elements = {"a": f64, "b": f64, "d": f64}
    assert check("gemm", total, data, elements).passed
    assert not check("gemm", total * (1 + 1e-11), data, elements).passed


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    dtype=st.sampled_from(["f16", "bf16", "f32"]),
    out=st.sampled_from(["f16", "f32"]),
    columns=st.integers(1, 300),
    tile=st.sampled_from([1, 16, 300]),
    scale=st.sampled_from([1.0, 0.3]),
    distribution=st.sampled_from(sorted(DISTRIBUTIONS)),
    seed=st.integers(0, 99),
)
def test_softmax(dtype, out, columns, tile, scale, distribution, seed):
    data = draw(distribution, {"x": ((5, columns), TYPES[dtype])}, seed)
    x = data["x"].astype(np.float32) * np.float32(scale)
    running, total = np.full((5, 1), -np.inf, np.float32), np.zeros((5, 1), np.float32)
    for start in range(0, columns, tile):
        new = np.maximum(running, x[:, start : start + tile].max(axis=1, keepdims=True))
        total = total * np.exp(running - new) + np.exp(x[:, start : start + tile] - new).sum(axis=1, keepdims=True)
        running = new
    y = np.exp(x - running) * (np.float32(1) / total)
    elements = {"x": TYPES[dtype], "y": TYPES[out]}
    assert check("softmax", to_type(y, out), data, elements, scale=scale).passed
    if columns > 20 and distribution == "normal":
        wrong = np.exp(x - running) / (total - np.exp(x[:, :1] - running))
        assert not check("softmax", to_type(wrong, out), data, elements, scale=scale).passed
