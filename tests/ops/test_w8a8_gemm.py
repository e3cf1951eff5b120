"""Products of bytes with scales and zero points, against their formula element by element, and their bound."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference


def operands(seed, m=6, n=10, k=20):
    rng = np.random.default_rng(seed)
    b = rng.integers(-128, 128, (k, n)).astype(np.int8)
    return {
        "a": rng.integers(-128, 128, (m, k)).astype(np.int8),
        "b": b,
        "scale_a": rng.uniform(0.5, 2, m).astype(np.float32)[:, None],
        "zero_a": rng.integers(-128, 128, (m, 1)).astype(np.int32),
        "scale_b": rng.uniform(0.5, 2, n).astype(np.float32)[None],
        "sum_b": b.sum(axis=0, dtype=np.int32)[None],
        "bias": rng.standard_normal((1, n)).astype(np.float32),
    }


def parameters(**said):
    known = {name: one.default for name, one in OPERATIONS["w8a8_gemm"].parameters.items()}
    return {**known, "alpha": 1.0, **said}


def test_it_is_the_product_of_what_the_bytes_stand_for():
    data = operands(0)
    got = reference("w8a8_gemm", parameters(), data)["d"]
    plain = {role: one.astype(float) for role, one in data.items()}
    for m, n in np.ndindex(got.shape):
        want = plain["bias"][0, n] + sum(
            plain["scale_a"][m, 0]
            * (plain["a"][m, k] - plain["zero_a"][m, 0])
            * plain["scale_b"][0, n]
            * plain["b"][k, n]
            for k in range(20)
        )
        assert got[m, n] == pytest.approx(want, rel=1e-11)


def test_a_kernel_that_takes_no_sums_sums_the_weights_itself_and_sums_alone_hold_the_product():
    data = operands(1)
    whole = reference("w8a8_gemm", parameters(), data)["d"]
    without = {role: one for role, one in data.items() if role != "sum_b"}
    assert np.array_equal(reference("w8a8_gemm", parameters(), without)["d"], whole)
    made = {**data, "sum_b": data["zero_a"] * data["sum_b"]}
    del made["zero_a"]
    assert np.allclose(reference("w8a8_gemm", parameters(), made)["d"], whole, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_is_within_the_bound_and_a_neighbours_zero_point_is_not(seed):
    data = operands(seed, 16, 16, 64)
    said = parameters()
    expected = reference("w8a8_gemm", said, data)
    kinds = {"a": "s8", "b": "s8", "zero_a": "s32", "sum_b": "s32"}
    types = {role: TYPES[kinds.get(role, "f32")] for role in (*data, "d")}
    bound = judge("w8a8_gemm", said, data, expected, types)["d"].bound

    def run(zero, order):
        sums = data["a"].astype(np.int32) @ data["b"].astype(np.int32) - zero * data["sum_b"]
        scaled = sums.astype(np.float32)
        for role in order:
            scaled = scaled * data[role]
        return np.abs((scaled + data["bias"]).astype(float) - expected["d"]) > bound

    assert not run(data["zero_a"], ("scale_a", "scale_b")).any()
    assert not run(data["zero_a"], ("scale_b", "scale_a")).any()
    assert run(np.roll(data["zero_a"], 1, axis=0), ("scale_a", "scale_b")).any()


def test_an_activation_widens_the_bound():
    data = operands(7)
    said = parameters(activation="silu")
    expected = reference("w8a8_gemm", said, data)
    types = {role: TYPES["s8" if role in "ab" else "f32"] for role in (*data, "d")}
    assert (judge("w8a8_gemm", said, data, expected, types)["d"].bound > 0).all()
