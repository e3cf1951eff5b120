"""Changes for mistakes with a form of their own: casts and offsets, helpers that swizzle, parts of a tensor, steps."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source_model import read_source


def offered(text: str, kind: str) -> list[str]:
    model = read_source(text)
    lines = set(range(1, len(model.lines) + 1))
    return [apply(text, one) for one in edits(model, lines=lines) if one.kind == kind]


CAST = """__global__ void k(const float* x, float* y, int n) {{
    extern __shared__ float room[];
    half* h = {initial};
    room[0] = x[0]; h[0] = x[1]; y[0] = room[0];
}}
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("(half*)room + 32 * n", "(half*)(room + 32 * n)"),
        ("(half *)(room + 32 * n)", "(half *)room + 32 * n"),
        ("reinterpret_cast<half*>(room) + n", "reinterpret_cast<half*>(room + n)"),
        ("reinterpret_cast<half*>(room + n)", "reinterpret_cast<half*>(room) + n"),
    ],
)
def test_an_offset_before_or_behind_a_cast(wrong: str, right: str) -> None:
    assert offered(CAST.format(initial=wrong), "cast-sums") == [CAST.format(initial=right)]


@pytest.mark.parametrize("initial", ["(half*)room", "reinterpret_cast<half*>(room)", "other"])
def test_a_cast_without_an_offset_is_left_alone(initial: str) -> None:
    assert offered(CAST.format(initial=initial), "cast-sums") == []


SWIZZLED = """__device__ int place(int row, int chunk) {{ return row * 8 + (chunk ^ (row & 7)); }}
__global__ void k(const half* x, half* y, int n) {{
    __shared__ half tile[64 * 64];
    int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    tile[place(row, chunk) * 8] = x[threadIdx.x];
    y[threadIdx.x] = read(tile + {at} * 8);
}}
"""


def test_a_place_goes_through_the_helper_that_swizzles() -> None:
    found = offered(SWIZZLED.format(at="(row * 8 + n / 8 + chunk)"), "swizzled-rows")
    assert found == [SWIZZLED.format(at="place(row, n / 8 + chunk)")]


@pytest.mark.parametrize("at", ["place(row, chunk)", "(row * 4 + chunk)", "(row * 8 + (chunk ^ (row & 7)))"])
def test_other_places_are_left_alone(at: str) -> None:
    assert offered(SWIZZLED.format(at=at), "swizzled-rows") == []


PARTS = """__device__ void f(const half* a, const half* b, float* o, int n);
__global__ void k(const half* q, const half* kk, const half* v, const float* bias, float* o, int n) {{
    int head = blockIdx.y * n;
    f(q + head, kk + head, o + head, n);
    f(q + head, {v}, o + head, n);
    g(bias);
}}
"""


def test_a_tensor_begins_where_the_others_do() -> None:
    assert PARTS.format(v="v + head") in offered(PARTS.format(v="v"), "sibling-offsets")


def test_a_tensor_with_the_offset_is_left_alone() -> None:
    assert PARTS.format(v="v + head + head") not in offered(PARTS.format(v="v + head"), "sibling-offsets")


STEP = """__global__ void k(const half* a, const half* b, float* o, int lda, int ldb, int n) {{
    for (int i = 0; i < n; i += 32) {{
        use(true ? a + threadIdx.y * lda + threadIdx.x : a, b + threadIdx.y * ldb + threadIdx.x);
        a += 32;
        b += {step};
    }}
}}
"""


def test_a_step_takes_the_pitch_that_the_pointer_has() -> None:
    model = read_source(STEP.format(step="32"))
    ranks = {apply(model.text, one): one.rank for one in edits(model, lines={5}) if one.kind == "layouts"}
    own, other = STEP.format(step="32 * ldb"), STEP.format(step="32 * lda")
    assert ranks[own] < ranks[other]


PAIR = """__global__ void k(const half* x, float* y, int ld) {{
    // mma.sync
    const half* p = x + threadIdx.x;
    unsigned a0 = pair(p), a1 = pair(p + {rows} * ld);
    y[0] = a0 + a1;
}}
"""
MMA = '__device__ void m() {{ asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"); }}\n'


def test_the_second_register_of_a_pair_is_eight_rows_further() -> None:
    text = MMA + PAIR
    assert text.format(rows="8") in offered(text.format(rows="4"), "registers")
    assert offered(text.format(rows="8"), "registers") == []
