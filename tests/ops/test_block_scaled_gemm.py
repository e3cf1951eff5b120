"""The product of operands that are scaled in blocks, against its formula element by element, and its bound."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.numerics.element_types import TYPES
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.evaluation import judge, reference


def operands(seed, m=6, n=10, k=20, deep=8, rows=2, columns=4, dtype=np.float32):
    rng = np.random.default_rng(seed)
    along = -(-k // deep)
    return {
        "a": rng.integers(-8, 8, (m, k)).astype(dtype),
        "b": rng.integers(-8, 8, (k, n)).astype(dtype),
        "scale_a": rng.uniform(0.5, 2, (-(-m // rows), along)).astype(np.float32),
        "scale_b": rng.uniform(0.5, 2, (along, -(-n // columns))).astype(np.float32),
        "bias": rng.standard_normal(n).astype(np.float32),
    }


def parameters(**said):
    known = {name: one.default for name, one in OPERATIONS["block_scaled_gemm"].parameters.items()}
    return {**known, "accumulate_step": 8, "block_k": 8, "block_m": 2, "block_n": 4, **said}


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_it_is_its_definition(dtype):
    data = operands(0, dtype=dtype)
    got = reference("block_scaled_gemm", parameters(), data)["d"]
    plain = {role: one.astype(float) for role, one in data.items()}
    for m, n in np.ndindex(got.shape):
        want = plain["bias"][n] + sum(
            plain["scale_a"][m // 2, k // 8] * plain["a"][m, k] * plain["scale_b"][k // 8, n // 4] * plain["b"][k, n]
            for k in range(20)
        )
        assert got[m, n] == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_sums_of_blocks_that_are_scaled_are_within_the_bound_and_another_blocks_scale_is_not(seed):
    data = operands(seed, 16, 16, 64, 16, 1, 8, np.int8)
    said = parameters(block_k=16, block_m=1, block_n=8)
    expected = reference("block_scaled_gemm", said, data)
    types = {role: TYPES["s8" if role in "ab" else "f32"] for role in (*data, "d")}
    bound = judge("block_scaled_gemm", said, data, expected, types)["d"].bound

    def run(shift):
        total = np.zeros((16, 16), np.float32)
        for block in range(4):
            part = slice(16 * block, 16 * block + 16)
            sums = (data["a"][:, part].astype(np.int64) @ data["b"][part].astype(np.int64)).astype(np.float32)
            scale = data["scale_a"][:, [(block + shift) % 4]] * np.repeat(data["scale_b"][block], 8)
            total += sums * scale
        return np.abs((total + data["bias"]).astype(float) - expected["d"]) > bound

    assert not run(0).any()
    assert run(1).mean() > 0.5
