"""Changes for mistakes with a form of their own: casts and offsets, helpers that swizzle, parts of a tensor, steps."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source


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


@pytest.mark.parametrize("v", ["v + head", "v + n"])
def test_a_tensor_with_an_offset_is_left_alone(v: str) -> None:
    text = PARTS.format(v=v).replace("    g(bias);", "")
    assert offered(text, "sibling-offsets") == []


PASSED = """struct W {{
    __device__ void step(const half* a, unsigned lda, const half* b, unsigned ldb) {{
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, a, lda);
        wmma::load_matrix_sync(fb, b, ldb);
    }}
}};
__global__ void k(const half* A, const half* B, float* D, int m, int n, int k) {{
    W w;
    for (int p = 0; p < k; p += 16) w.step(A + p * m, m, B + p, {ldb});
}}
"""


def test_a_leading_dimension_that_a_caller_passes_on() -> None:
    text = PASSED.format(ldb="n")
    found = edits(read_source(text), hypotheses={"leading-dimension"}, lines={11}, values={"ldm": 64, "k": 64, "n": 48})
    assert PASSED.format(ldb="k") in [apply(text, one) for one in found[:4]]


PLACES = """template <int W, int M, int S> __device__ int place(int r, int c) {{ return r * W + (c ^ (r >> S & M)); }}
#define STORE(r, c) tile[place<64, 3, 1>(r, c)] = x[r * n + c]
__global__ void k(const half* x, half* y, int n) {{
    __shared__ half tile[64 * 64];
    STORE(threadIdx.y, threadIdx.x);
    y[threadIdx.x] = tile[place<64, 3, {shift}>(threadIdx.x, threadIdx.y)] + tile[place<32, 7, 0>(0, 0)];
}}
"""


def test_a_helper_is_instantiated_as_elsewhere() -> None:
    assert PLACES.format(shift="1") in offered(PLACES.format(shift="0"), "template-arguments")
    assert offered(PLACES.format(shift="1"), "template-arguments") == []


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


MEETING = """#include <cuda/barrier>
__global__ void k(const float* x, float* y, cuda::barrier<cuda::thread_scope_block>* filled) {{
    __shared__ float tile[128];
    tile[threadIdx.x] = x[threadIdx.x];
    {meet}
    y[threadIdx.x] = tile[127 - threadIdx.x];
}}
"""


def test_who_arrives_and_forgets_its_token_waits_as_well() -> None:
    wrong, right = "filled[0].arrive();", "filled[0].arrive_and_wait();"
    assert MEETING.format(meet=right) in offered(MEETING.format(meet=wrong), "arrivals")


@pytest.mark.parametrize(
    "meet",
    ["auto token = filled[0].arrive(); filled[0].wait(token);", "(void)filled[0].arrive();", "go(filled[0].arrive());"],
)
def test_who_keeps_the_token_is_left_alone(meet: str) -> None:
    assert offered(MEETING.format(meet=meet), "arrivals") == []


TILES = """__global__ void k(const half* x, float* y, int n) {{
    int warp = threadIdx.x / 32;
    for (int i = 0; i < 2; ++i) {{
        load(x + (warp * {first} + i * 16) * n, n);
        store(y + (warp * 32 + i * 16) * n, n);
    }}
}}
"""


def test_a_sum_has_the_multipliers_that_it_has_elsewhere() -> None:
    assert TILES.format(first="32") in offered(TILES.format(first="16"), "same-sums")
    assert offered(TILES.format(first="32"), "same-sums") == []
    assert (
        offered(TILES.format(first="16").replace("i * 16) * n, n);\n    }", "i * 8) * n, n);\n    }"), "same-sums")
        == []
    )


TWICE = """__global__ void k(const half* x, const half* z, float* y, int n) {{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < n; i += 16) wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(y, c, n, wmma::mem_row_major);
    {fill}
    for (int i = 0; i < n; i += 16) {{
        wmma::mma_sync(c, a, b, c);
    }}
}}
"""


@pytest.mark.parametrize(("fill", "likely"), [("", True), ("wmma::fill_fragment(c, 0.0f);", False)])
def test_an_accumulator_that_is_used_again_is_zeroed_again(fill: str, likely: bool) -> None:
    model = read_source(TWICE.format(fill=fill))
    found = edits(model, hypotheses={"accumulator-init"}, lines={10})
    ranks = [one.rank for one in found if one.summary == "zero c before the loop at line 9"]
    assert ranks
    assert (min(ranks) < 0.1) == likely
