"""What a race is said to be: its level, its lines, the lanes and the way out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cuda_checks import PRELUDE
from race_kernels import RIGHT_READ, kernel, line, races
from run_checks import run_checks

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks import native_names, select
from wmmadiag.checks.finding import Level
from wmmadiag.emulator import EmulatorOptions
from wmmadiag.launch import Launch

TILES = """
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 1.0f);
    wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major); //W
    {between}
    for (int i = lane; i < 256; i += 32) out[i] = tile[i] * 2.0f; //R
"""


def test_lanes_of_one_warp_are_a_warning():
    source = kernel(TILES.format(between=""))
    (seen,) = races(source, block=32)
    assert (seen.kind, seen.level) == ("lanes-read-write", Level.WARNING)
    assert (seen.place.line, seen.other.line) == (line(source, "R"), line(source, "W"))
    assert "__syncwarp" in seen.hint
    assert races(kernel(TILES.format(between="__syncwarp();")), block=32) == ()


def test_partial_syncwarp_orders_its_lanes_only():
    body = "__shared__ float s[32]; if (lane < 16) {{ s[lane] = lane; __syncwarp(0xffff); out[t] = s[{other}]; }}"
    assert races(kernel(body.format(other="15 - lane")), block=32) == ()
    across = "__shared__ float s[32]; s[lane] = lane; if (lane < 16) { __syncwarp(0xffff); out[t] = s[31 - lane]; }"
    assert [f.kind for f in races(kernel(across), block=32)] == ["lanes-read-write"]


def test_writing_the_same_value_is_a_warning():
    source = kernel("__shared__ int n; n = (int)out[0] + blockDim.x; //W\n __syncthreads(); out[t] = n;")
    (seen,) = races(source)
    assert (seen.kind, seen.level) == ("write-same", Level.WARNING)


def test_one_instruction():
    (seen,) = races(kernel("__shared__ int n; if (warp == 0) n = lane; //W\n __syncthreads(); out[t] = n;"))
    assert (seen.kind, seen.level) == ("one-instruction", Level.WARNING)
    (seen,) = races(kernel("if (warp == 0) out[lane / 2] = lane; //W"))
    assert (seen.kind, seen.level) == ("one-instruction", Level.ERROR)
    assert "out" in seen.message


def test_names_the_array_and_the_element():
    (seen,) = races(RIGHT_READ)
    assert " s," in seen.message and "s[" in seen.detail[0] and "__syncthreads" in seen.hint
    assert seen.count == 2  # both warps read before the other is known to have written


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_same_pair_whichever_ran_first(order):
    source = kernel("__shared__ float s[32]; if (warp == 0) s[lane] = t; //W\n if (warp == 1) out[lane] = s[lane]; //R")
    checks = select("races")
    ptx = wmmadiag.compile_cuda(PRELUDE + source, arch="sm_80").ptx
    options = replace(EmulatorOptions(threads=1, warp_order=order), checks=native_names(checks))
    launch = Launch((1, 1, 1), (64, 1, 1), [np.zeros(64, np.float32)], 0, ("out",))
    (seen,) = run_checks(emulator.load(ptx, options=options), launch, checks)
    assert (seen.kind, seen.place.line, seen.other.line) == ("read-write", line(source, "R"), line(source, "W"))


SAME_TILE = """
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> g;
    wmma::fragment<wmma::accumulator, 16, 16, 16, {element}> c;
    wmma::fill_fragment(c, ({element})0.0f);
    wmma::load_matrix_sync(f, x, 16);
    wmma::load_matrix_sync(g, x + 256, 16);
    wmma::mma_sync(c, f, g, c);
    {change}
    wmma::store_matrix_sync(({element}*)out, c, 24, wmma::mem_{layout}_major); //W
"""


@pytest.mark.parametrize("layout", ["row", "col"])
@pytest.mark.parametrize("element", ["float", "half"])
@pytest.mark.parametrize("grid", [1, 2])
def test_fragments_stored_twice(layout, element, grid):
    x = np.random.default_rng(0).standard_normal(512).astype(np.float16)
    block, whose = (64, "warp") if grid == 1 else (32, "block")

    def seen(change):
        body = SAME_TILE.format(element=element, layout=layout, change=change)
        source = kernel(body, "float* out, const half* x")
        return races(source, np.zeros(512, np.float32), x, block=block, grid=grid), source

    (same,), source = seen("")
    assert same.level is Level.WARNING
    assert same.kind == ("write-same" if grid == 1 else "blocks-write-same")
    assert f"{whose}s store the same values" in same.message
    assert (same.place.line, same.other) == (line(source, "W"), None)
    who = "warp" if grid == 1 else "blockIdx.x"
    others, _ = seen(f"if ({who}) for (int i = 0; i < c.num_elements; ++i) c.x[i] = c.x[i] + ({element})1.0f;")
    assert [one.kind for one in others if one.level is Level.ERROR] == [
        "same-store" if grid == 1 else "blocks-same-store"
    ]


def test_the_lines_are_those_of_the_statements_in_inlined_functions():
    source = (
        "struct Tile { float* s; __device__ float& operator[](int i) const { return s[i]; } };\n"
        "__device__ __forceinline__ void fill(const Tile& tile, float v) {\n    tile[threadIdx.x] = v; //W\n}\n"
        "template <class F> __device__ __forceinline__ void each(F f) { f(threadIdx.x); }\n"
    ) + kernel(
        "__shared__ float s[64]; Tile tile{s};\n fill(tile, t);\n"
        "each([&](int i) {\n    out[i] = tile[63 - i]; //R\n });"
    )
    (seen,) = races(source)
    assert (seen.place.line, seen.other.line) == (line(source, "R"), line(source, "W"))


def test_one_line_says_which_pass_and_which_lanes():
    source = kernel(
        "__shared__ float s[64]; s[t] = t; __syncthreads();\n"
        '_Pragma("unroll 1") for (int i = 1; i < 4; ++i) { s[t] += s[(t + 32 + i) % 64]; //R\n __syncthreads(); }'
        "out[t] = s[t];"
    )
    (seen,) = (one for one in races(source) if one.kind == "read-write")
    assert seen.place == seen.other and seen.level is Level.ERROR
    assert "lane 1 (pass 1)" in seen.detail[0] and "by unrolling, pass 1" in seen.detail[0]


def test_an_error_says_what_the_other_order_changes():
    (seen,) = races(RIGHT_READ)
    assert any("the other way round" in words and "out[" in words for words in seen.detail)


def test_what_changes_no_result_is_a_warning():
    source = kernel("__shared__ float s[64]; s[t] = t; //W\n float v = s[63 - t]; //R\n if (v == -1.0f) out[t] = v;")
    out = np.zeros(256, np.float32)
    (seen,) = races(source, out)
    assert (seen.kind, seen.level) == ("read-write", Level.WARNING)
    assert "changes no result" in seen.detail[-1] and not out.any()


@pytest.mark.parametrize(
    ("body", "how", "whose"),
    [
        ("if (t == 0) out[0] += 1; //W", {"block": 32, "grid": 2}, "block"),
        ("__shared__ int n; n = 0; __syncwarp(); int p = n++; out[t] = p; //W", {"block": 32}, "lane"),
    ],
    ids=["blocks", "lanes"],
)
def test_line_that_changes_what_it_reads_wants_an_atomic(body, how, whose):
    seen = [one for one in races(kernel(body), **how) if one.kind.endswith("read-write")]
    assert seen and all("atomicAdd" in one.hint and f"each {whose} its own" in one.hint for one in seen), seen
    assert not any("result is right" in one.hint for one in races(kernel(body), **how))
