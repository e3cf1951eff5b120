"""The gated linear units against torch's and the paper's formulas, written out; packed weights; the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operation_cards import card_of

import wmmadiag
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.parts.epilogue import GATES
from wmmadiag.subject.binding import bind

FORMULAS = {
    "swiglu": lambda x: x / (1 + math.exp(-x)),
    "geglu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "geglu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "reglu": lambda x: max(x, 0.0),
    "glu": lambda x: 1 / (1 + math.exp(-x)),
    "bilinear": lambda x: x,
}


def matrices(seed, m=5, n=4, k=6, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes = {"a": (m, k), "gate": (k, n), "up": (k, n), "gate_bias": (n,), "up_bias": (n,)}
    return {role: rng.standard_normal(shape).astype(dtype) for role, shape in shapes.items()}


def test_every_gate_has_a_formula_here():
    assert set(FORMULAS) == set(GATES)


@pytest.mark.parametrize("gating", FORMULAS)
def test_it_is_its_definition(gating):
    data = matrices(0)
    got = wmmadiag.reference("gated_gemm", **data, gating=gating).value
    a, gate, up = (data[role].astype(float) for role in ("a", "gate", "up"))
    for i, j in np.ndindex(got.shape):
        x = math.fsum(a[i] * gate[:, j]) + float(data["gate_bias"][j])
        y = math.fsum(a[i] * up[:, j]) + float(data["up_bias"][j])
        assert math.isclose(got[i, j], FORMULAS[gating](x) * y, rel_tol=1e-9, abs_tol=1e-12)


def test_blocks_of_both_weights_may_take_turns():
    data = matrices(1, n=8)
    plain = wmmadiag.reference("gated_gemm", **data).value
    # Two columns of the gate, two of the other, and so on; then cut in halves, as one tensor of both is read.
    turns = np.stack([data["gate"].reshape(6, 4, 2), data["up"].reshape(6, 4, 2)], axis=2).reshape(6, 16)
    stored = {**data, "gate": turns[:, :8].copy(), "up": turns[:, 8:].copy()}
    got = wmmadiag.reference("gated_gemm", **stored, block=2).value
    np.testing.assert_array_equal(got, plain)
    assert not np.allclose(wmmadiag.reference("gated_gemm", **stored, block=4).value, plain)
    with pytest.raises(wmmadiag.ConfigurationError, match="8 columns are no blocks of 3"):
        wmmadiag.reference("gated_gemm", **stored, block=3)


ONE = np.float32(1)
SINGLE = {  # as kernels have them, in single precision throughout
    "swiglu": lambda x: x / (ONE + np.exp(-x)),
    "glu": lambda x: ONE / (ONE + np.exp(-x)),
    "geglu_tanh": lambda x: x * (ONE + np.tanh(np.float32(0.79788456) * (x + np.float32(0.044715) * x * x * x))) / 2,
}


@settings(max_examples=40, deadline=None)
@given(gating=st.sampled_from(sorted(FORMULAS)), seed=st.integers(0, 99), size=st.sampled_from([0.01, 1.0, 8.0]))
def test_single_precision_is_within_the_bound_and_the_factors_exchanged_are_not(gating, seed, size):
    data = matrices(seed, 8, 8, 48, np.float16)
    data["a"] = (data["a"] * np.float16(size)).astype(np.float16)
    want = wmmadiag.reference("gated_gemm", **data, gating=gating, dtype="f32")

    def sums(which):
        return data["a"].astype(np.float32) @ data[which].astype(np.float32) + data[f"{which}_bias"].astype(np.float32)

    def kernel(gate, up):
        function = SINGLE.get(gating, np.vectorize(FORMULAS[gating], otypes=[np.float32]))
        with np.errstate(over="ignore"):
            return (function(sums(gate)) * sums(up)).astype(np.float32)

    assert wmmadiag.compare_arrays(kernel("gate", "up"), want).passed
    assert wmmadiag.compare_arrays(kernel("up", "gate"), want).passed == (gating == "bilinear")


@pytest.mark.parametrize(
    ("role", "layout", "place"),
    [
        ("gate_up", "K2N", lambda weights: (weights[:, :8], weights[:, 8:])),
        ("up_gate", "K2N", lambda weights: (weights[:, 8:], weights[:, :8])),
        ("gate_up", "KN2", lambda weights: (weights[:, ::2], weights[:, 1::2])),
        ("gate_up", "2NK", lambda weights: (weights.reshape(16, 16)[:8].T, weights.reshape(16, 16)[8:].T)),
        ("gate_up", "N2K", lambda weights: (weights.reshape(16, 16)[::2].T, weights.reshape(16, 16)[1::2].T)),
    ],
)
def test_weights_in_one_storage_lie_as_their_layout_says(tmp_path, role, layout, place):
    """Of a K = 16 by 2N = 16 weight, or its transpose."""
    (tmp_path / "k.cu").write_text("")
    text = f"""
format = 1
source = "k.cu"
entry = "k"
computes = {{ operation = "gated_gemm" }}
launch = {{ grid = 1, block = 32 }}
arguments = [
  {{ role = "a", dtype = "f16" }},
  {{ name = "weights", role = "{role}", layout = "{layout}", dtype = "f16" }},
  {{ role = "d", dtype = "f16" }},
]
cases = [{{ M = 4, N = 8, K = 16 }}]
"""
    from wmmadiag.subject.card_files.read import parse_card

    card = parse_card(text, tmp_path / "k.toml")
    bound = bind(card, card.cases[0], card.variants[0])
    storage = bound.arguments[1].storage
    gate, up = place(storage.reshape(16, 16))
    np.testing.assert_array_equal(bound.inputs()["gate"], gate)
    np.testing.assert_array_equal(bound.inputs()["up"], up)


def test_the_two_weights_may_be_arguments_of_their_own(tmp_path):
    card = card_of(OPERATIONS["gated_gemm"], tmp_path, {"gate": 'layout = "NK"', "up": 'layout = "NK"'})
    bound = bind(card, card.cases[0], card.variants[0])
    assert bound.inputs()["gate"].flags.f_contiguous
