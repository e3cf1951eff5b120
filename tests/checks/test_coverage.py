"""The check `coverage`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

_LINE = """__global__ void k(const float* x, float* out) {
    int warp = threadIdx.x / 32;
    %s
}"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if (warp < 2) out[threadIdx.x] = 1;", "warps 2, 3 of each block's 4 do nothing"),
        ("if (warp != 1) out[threadIdx.x] = 1;", "warp 1 of each block's 4 does nothing"),
        ("out[threadIdx.x] = 1;", None),
        ("if (warp >= blockIdx.x) out[threadIdx.x] = 1;", None),
        ("if (x[0] > 1) out[threadIdx.x] = 1;", None),
    ],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_idle_warps(line: str, expected: str | None, threads: int) -> None:
    x, out = np.zeros(64, np.float32), np.zeros(128, np.float32)
    findings = found("coverage", _LINE % line, x, out, grid=3, block=128, threads=threads)
    assert [one.message for one in findings] == ([expected] if expected else [])
