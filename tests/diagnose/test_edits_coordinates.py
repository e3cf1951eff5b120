"""Coordinates of blocks and warps: which extents and halves are mended, and which are left alone."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

KERNEL = """__global__ void k(const float* x, float* y, int n, int d) {{
    const int warp = threadIdx.x / 32;
    {body}
    y[at] = x[at];
}}
"""


def texts(body: str) -> list[str]:
    model = read_source(KERNEL.format(body=body))
    lines = set(range(1, len(model.lines) + 1))
    return [apply(model.text, one) for one in edits(model, lines=lines) if one.kind == "coordinates"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("int at = blockIdx.x * gridDim.x + blockIdx.y;", "int at = blockIdx.x * gridDim.y + blockIdx.y;"),
        ("int at = blockIdx.y + gridDim.x * blockIdx.x;", "int at = blockIdx.y + gridDim.y * blockIdx.x;"),
        (
            "int at = (size_t(blockIdx.z) * gridDim.z + blockIdx.x) * n;",
            "int at = (size_t(blockIdx.z) * gridDim.x + blockIdx.x) * n;",
        ),
        ("int at = threadIdx.y * blockDim.y + threadIdx.x;", "int at = threadIdx.y * blockDim.x + threadIdx.x;"),
        (
            "int row = warp / 2 * 16, col = warp / 2 * 16, at = row * n + col;",
            "int row = warp / 2 * 16, col = warp % 2 * 16, at = row * n + col;",
        ),
        (
            "int row = (warp % d) * 16; int col = (warp % d) * 16; int at = row * n + col;",
            "int row = (warp / d) * 16; int col = (warp % d) * 16; int at = row * n + col;",
        ),
    ],
)
def test_what_is_mended(wrong: str, right: str) -> None:
    assert KERNEL.format(body=right) in texts(wrong)


@pytest.mark.parametrize(
    "body",
    [
        "int at = blockIdx.x * gridDim.y + blockIdx.y;",
        "int at = blockIdx.x * blockDim.x + threadIdx.x;",
        "int at = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;",
        "int at = blockIdx.x * n + blockIdx.y;",
        "int row = warp / 2 * 16, col = warp % 2 * 16, at = row * n + col;",
        "int row = warp / 2 * 16, col = warp / 4 * 16, at = row * n + col;",
        "int row = warp / (n / 8), col = warp % (n / 8), at = row * n + col;",
        "int row = warp / 2, other = n / 2, at = row * n + other;",
        "int row = warp / 2, half = warp / 2, col = warp % 2, at = row * n + half + col;",
    ],
)
def test_what_is_left_alone(body: str) -> None:
    assert texts(body) == []
