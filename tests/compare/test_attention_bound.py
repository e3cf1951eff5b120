"""The attention bound flags no correct kernel, however it orders its work, and flags small faults."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_kernels import Style, flash
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.compare.comparison import compare
from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.catalogue.attention import attention
from wmmadiag.ops.evaluation import judge, reference
from wmmadiag.ops.parts.score_terms import ScoreTerms
from wmmadiag.subject.distributions import DISTRIBUTIONS
from wmmadiag.subject.inputs import draw


def parameters(scale, **changes):
    values = {name: p.default for name, p in OPERATIONS["attention"].parameters.items()}
    return {**values, "scale": scale, "causal": False, "mask_hides": False, "accumulate_step": 8, **changes}


def judged(q, k, v, elements, params):
    expected = reference("attention", params, {"q": q, "k": k, "v": v})
    return expected, judge("attention", params, {"q": q, "k": k, "v": v}, expected, elements)


def inputs(dtype, shape_q, shape_k, distribution, seed):
    element = TYPES[dtype]
    tensors = {"q": (shape_q, element), "k": (shape_k, element), "v": (shape_k, element)}
    return draw(distribution, tensors, seed)


def causal_mask(rows, keys, alignment="top-left"):
    offset = keys - rows if alignment == "bottom-right" else 0
    return np.arange(keys)[None, :] <= np.arange(rows)[:, None] + offset


STYLES = st.builds(
    Style,
    matmul=st.sampled_from(["scalar", "sm_80", "sm_90", "blas"]),
    tile=st.sampled_from([1, 8, 16, 32, 64]),
    order=st.sampled_from(["forward", "backward", "odd-even"]),
    base2=st.booleans(),
    fused_argument=st.booleans(),
    rounded_sum=st.booleans(),
    normalise_early=st.booleans(),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    style=STYLES,
    dtype=st.sampled_from(["f16", "bf16", "tf32", "f32"]),
    out=st.sampled_from(["same", "f32"]),
    rows=st.integers(1, 70),
    keys=st.integers(1, 100),
    depth=st.sampled_from([8, 16, 40, 64]),
    distribution=st.sampled_from(sorted(DISTRIBUTIONS)),
    causal=st.sampled_from(["", "top-left", "bottom-right"]),
    seed=st.integers(0, 1000),
)
def test_flags_no_correct_kernel(style, dtype, out, rows, keys, depth, distribution, causal, seed):
    q_heads, shape_k = 2, (1, 1, keys, depth)
    data = inputs(dtype, (1, q_heads, rows, depth), shape_k, distribution, seed)
    out_type = dtype if out == "same" else "f32"
    p_type = "" if dtype == "f32" else dtype
    style = Style(**{**style.__dict__, "p_type": p_type, "matmul": "tf32" if dtype == "tf32" else style.matmul})
    scale = depth**-0.5
    mask = causal_mask(rows, keys, causal) if causal else None
    observed = flash(data["q"], data["k"], data["v"], scale, style, out_type, mask)
    params = parameters(scale, causal=bool(causal), alignment=causal or "top-left")
    elements = {**dict.fromkeys("qkv", TYPES[dtype]), "o": TYPES[out_type]}
    expected, bounds = judged(data["q"], data["k"], data["v"], elements, params)
    seen = compare(observed, expected["o"], bounds["o"], output="o", element=TYPES[out_type])
    assert seen.wrong == 0, (seen.worst, seen.max_in_bounds)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    tile=st.sampled_from([16, 64]),
    depth=st.sampled_from([16, 64]),
    step=st.sampled_from([4, 8, 16]),
    distribution=st.sampled_from(["normal", "uniform", "positive", "growing_max"]),
    seed=st.integers(0, 100),
)
def test_flags_no_kernel_that_accumulates_in_f16_where_the_card_says_so(tile, depth, step, distribution, seed):
    import emulated_kernels as emulated

    data = inputs("f16", (1, 1, 48, depth), (1, 1, 64, depth), distribution, seed)
    emulated.MATMULS["half"] = lambda a, b: emulated.half_matmul(a, b, step=step)
    style = Style(matmul="half", tile=tile, p_type="f16")
    scale = depth**-0.5
    observed = flash(data["q"], data["k"], data["v"], scale, style, "f16")
    params = parameters(scale, accumulate="f16", accumulate_step=step, score_dtype="f16")
    elements = dict.fromkeys("qkvo", TYPES["f16"])
    expected, bounds = judged(data["q"], data["k"], data["v"], elements, params)
    seen = compare(observed, expected["o"], bounds["o"], output="o", element=TYPES["f16"])
    assert seen.wrong == 0, (seen.worst, seen.max_in_bounds)


FAULTS = ["missing key", "scale", "slice", "rescale", "overwrite", "transposed", "mask off by one", "neighbour head"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "f32"])
@pytest.mark.parametrize("size", [64, 256])
def test_flags_small_faults(fault, dtype, size):
    depth = 64
    data = inputs(dtype, (1, 2, size, depth), (1, 2, size, depth), "normal", 1)
    style = Style(matmul="blas", tile=size if fault == "transposed" else 32, p_type="" if dtype == "f32" else dtype)
    mask = causal_mask(size, size) if fault == "mask off by one" else None
    used = np.roll(mask, 1, axis=1) | mask if mask is not None else None
    k = data["k"][:, ::-1] if fault == "neighbour head" else data["k"]
    name = "" if fault in ("mask off by one", "neighbour head") else fault
    if fault == "mask off by one":
        used[:, 0] = mask[:, 0]
    elements = dict.fromkeys("qkvo", TYPES[dtype])
    params = parameters(depth**-0.5, causal=mask is not None)
    expected, bounds = judged(data["q"], data["k"], data["v"], elements, params)
    right = flash(data["q"], data["k"], data["v"], depth**-0.5, style, dtype, mask)
    wrong = flash(data["q"], k, data["v"], depth**-0.5, style, dtype, used, name)
    assert compare(right, expected["o"], bounds["o"], output="o", element=TYPES[dtype]).passed
    seen = compare(wrong, expected["o"], bounds["o"], output="o", element=TYPES[dtype])
    assert seen.wrong > 0, "not noticed"


@pytest.mark.parametrize(("dtype", "least"), [("f16", 0.1), ("bf16", 0.1), ("tf32", 0.1), ("f32", 5e-4)])
def test_is_tight(dtype, least):
    """The worst element of a correct kernel uses a good part of its bound (sums in f32 are far better than theirs)."""
    data = inputs(dtype, (1, 2, 128, 64), (1, 2, 128, 64), "normal", 0)
    style = Style(matmul="tf32" if dtype == "tf32" else "sm_80", p_type="" if dtype == "f32" else dtype)
    if dtype == "f32":
        style = Style(matmul="scalar")
    observed = flash(data["q"], data["k"], data["v"], 0.125, style, dtype)
    expected, bounds = judged(data["q"], data["k"], data["v"], dict.fromkeys("qkvo", TYPES[dtype]), parameters(0.125))
    seen = compare(observed, expected["o"], bounds["o"], output="o", element=TYPES[dtype])
    assert least < seen.max_in_bounds <= 1.0


def test_tf32_operands_that_the_tensor_core_truncates():
    element = TYPES["f32"]
    data = inputs("f32", (1, 1, 32, 32), (1, 1, 32, 32), "normal", 3)
    cut = {r: (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for r, a in data.items()}
    observed = flash(cut["q"], cut["k"], cut["v"], 0.2, Style(matmul="tf32", p_type="tf32"), "f32")
    elements = dict.fromkeys("qkvo", element)
    expected, plain = judged(data["q"], data["k"], data["v"], elements, parameters(0.2))
    _, truncating = judged(data["q"], data["k"], data["v"], elements, parameters(0.2, multiply="tf32"))
    assert not compare(observed, expected["o"], plain["o"], output="o", element=element).passed
    assert compare(observed, expected["o"], truncating["o"], output="o", element=element).passed


@pytest.mark.parametrize(("rule", "answer", "right"), [
    ("any", 0.0, True), ("any", np.nan, True), ("any", 0.5, False),
    ("zero", 0.0, True), ("zero", np.nan, False), ("nan", np.nan, True), ("nan", 0.0, False),
])  # fmt: skip
def test_rows_without_keys(rule, answer, right):
    data = inputs("f16", (1, 1, 20, 16), (1, 1, 12, 16), "normal", 0)
    params = parameters(0.25, causal=True, alignment="bottom-right", masked_rows=rule)
    expected, bounds = judged(data["q"], data["k"], data["v"], dict.fromkeys("qkvo", TYPES["f16"]), params)
    terms = ScoreTerms(20, 12, causal=True, corner=12 - 20)  # as "bottom-right" aligns the mask
    observed, _ = attention(data["q"], data["k"], data["v"], scale=0.25, terms=terms)
    observed[0, 0, :8] = answer
    seen = compare(observed.astype(np.float16), expected["o"], bounds["o"], output="o", element=TYPES["f16"])
    assert seen.passed is right
    assert seen.wrong == (0 if right else 8 * 16)


def test_log_sum_exp_is_bounded():
    data = inputs("f16", (1, 2, 33, 64), (1, 2, 70, 64), "growing_max", 5)
    elements = {**dict.fromkeys("qkvo", TYPES["f16"]), "lse": TYPES["f32"]}
    expected, bounds = judged(data["q"], data["k"], data["v"], elements, parameters(0.125))
    s = (data["q"].astype(np.float32) @ np.swapaxes(data["k"], -1, -2).astype(np.float32)) * np.float32(0.125)
    m = s.max(axis=-1)
    lse = m + np.log(np.exp(s - m[..., None]).sum(axis=-1))
    seen = compare(lse, expected["lse"], bounds["lse"], output="lse", element=TYPES["f32"])
    assert seen.passed
    assert not compare(lse + np.float32(1e-2), expected["lse"], bounds["lse"], output="l", element=TYPES["f32"]).passed
