"""Carved arrays that start at one place: which are parted, and which are left alone."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

KERNEL = """__global__ void k(const float* x, float* y, int n, int d) {{
    extern __shared__ float room[];
    float* q = room;
    {body}
    q[0] = x[0]; kk[0] = x[1]; v[0] = x[2]; s[0] = q[0] + kk[0];
    y[0] = v[0] + s[0];
}}
"""


def offered(body: str) -> list[str]:
    model = read_source(KERNEL.format(body=body))
    lines = set(range(1, len(model.lines) + 1))
    return [apply(model.text, one) for one in edits(model, lines=lines) if one.kind == "aliases"]


def test_a_pointer_without_an_offset_gets_that_of_its_neighbour() -> None:
    found = offered("float* kk = q + 32 * d; float* v = kk; float* s = v + n * d;")
    assert KERNEL.format(body="float* kk = q + 32 * d; float* v = kk + n * d; float* s = v + n * d;") == found[0]
    assert KERNEL.format(body="float* kk = q + 32 * d; float* v = kk + 32 * d; float* s = v + n * d;") in found


@pytest.mark.parametrize(
    "body",
    [
        "float* kk = q + 32 * d; float* v = kk + n * d; float* s = v + n * d;",
        "float* kk = q + 32 * d; float* v = q + 64 * d; half* s = reinterpret_cast<half*>(kk);",
    ],
)
def test_what_is_left_alone(body: str) -> None:
    assert offered(body) == []
