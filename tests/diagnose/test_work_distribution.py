"""Who stores what, computed from a source alone; which changes let every element be stored once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.engine import _bench
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.source.evaluate import Unknown
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.source.threads import Shape, Threads
from wmmadiag.subject.card_files.read import load_card

CARD = """
format = 1
source = "k.cu"
entry = "product"
[computes]
operation = "gemm"
[[arguments]]
name = "A"
role = "a"
dtype = "f16"
[[arguments]]
name = "B"
role = "b"
dtype = "f16"
[[arguments]]
name = "C"
role = "d"
dtype = "f32"
[[arguments]]
name = "M"
dtype = "s32"
value = "M"
[[arguments]]
name = "N"
dtype = "s32"
value = "N"
[[arguments]]
name = "K"
dtype = "s32"
value = "K"
[launch]
grid = GRID
block = 64
[[cases]]
name = "wide"
M = 48
N = 64
K = 16
[[cases]]
name = "tall"
M = 80
N = 32
K = 32
"""

# Two warps; each computes a tile of 16 x 16; `tile` counts tiles through the rows of the output.
SOURCE = """
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void product(const half* A, const half* B, float* C, int M, int N, int K)
{
    const int warp = threadIdx.x / 32;
    const int across = N / 16;
    const int tile = blockIdx.x * 2 + warp;
    const int row = tile / across * 16, col = tile % across * 16;
    if (row >= M) return;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    if (row + 16 <= M && col + 16 <= N)
        wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
"""
GRID = '"ceil_div(M // 16 * (N // 16), 2)"'


def failing(path):
    card = load_card(path)
    bench = _bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    runs = [(case, bench.run(case)) for case in bench.cases()]
    assert all(emulator_of(run.kernel) is not None for _, run in runs)
    case, run = next((one for one in runs if not one[1].passed), runs[0])
    return Evidence(bench, case, {}, run)


def evidence_of(tmp_path, *changes):
    text = SOURCE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "k.cu").write_text(text)
    (tmp_path / "k.toml").write_text(CARD.replace("GRID", GRID))
    return failing(tmp_path / "k.toml")


@pytest.mark.parametrize(
    ("old", "new", "back", "hypothesis"),
    [
        ("blockIdx.x * 2 + warp", "blockIdx.x * 1 + warp", "2", "index-arithmetic"),
        ("across = N / 16", "across = M / 16", "N", "index-arithmetic"),
        ("row + 16 <= M && col + 16 <= N", "row + 16 < M && col + 16 < N", "<=", "guard-condition"),
        ("if (row >= M) return;", "if (row + 16 >= M) return;", "", "guard-condition"),
    ],
)
def test_changes_after_which_every_element_is_stored_once(tmp_path, old, new, back, hypothesis):
    evidence = evidence_of(tmp_path, (old, new))
    assert evidence.forecast.known
    found = [edit for _, edit in evidence.forecast.mends()]
    wrong = evidence.text_of(evidence.forecast.file)
    assert any(back in change.text for edit in found[:4] for change in edit.changes)
    assert hypothesis in {edit.hypothesis for edit in found[:4]}
    # What is forecast comes true.
    best = evidence.bench.run(evidence.case, {evidence.bench.source.resolve(): apply(wrong, found[0])})
    assert not any(one.unwritten for one in best.result.observations)


def test_a_right_kernel_has_no_forecast(tmp_path):
    evidence = evidence_of(tmp_path)
    assert evidence.run.passed
    assert not evidence.forecast.known and not list(evidence.forecast.mends())


def test_what_a_change_would_do(tmp_path):
    forecast = evidence_of(tmp_path, ("blockIdx.x * 2 + warp", "blockIdx.x * 1 + warp")).forecast
    text = (tmp_path / "k.cu").read_text()

    def outlook(old, new):
        at = text.index(old)
        return forecast.of(Edit("any", "index-arithmetic", 1, "", (Change(at, at + len(old), new),), 0.1))

    assert outlook("blockIdx.x * 1", "blockIdx.x * 2") == "mends"
    assert outlook("blockIdx.x * 1", "blockIdx.x * 3") == "unknown"  # nothing twice, but more is left out elsewhere
    assert outlook("row * K + k", "row * K") == "same"
    assert outlook("C + row * N", "C + 0 * N") == "worse"
    assert outlook("N / 16", "nobody_knows(N)") == "unknown"


def stores(body, *, grid=(1, 1, 1), block=(64, 1, 1), parameters="float* C, int n", changes=(), **values):
    text = f"__global__ void k({parameters})\n{{\n{body}\n}}\n"
    model = read_source(text)
    targets = [one.statement for one in model.assignments if "[" in one.target.text or one.target.text[0] == "*"]
    made = [Change(text.index(old), text.index(old) + len(old), new) for old, new in changes]
    found = Threads(model, Shape(grid, block), values, {"C": 4}, made).stores(targets)
    return {(int(w), int(e)) for one in found for w, e in zip(one.warp, one.element, strict=True)}


def test_loops_guards_and_returns_on_the_way_to_a_store():
    body = (
        "if (threadIdx.x >= n) return; for (int i = threadIdx.x; i < 2 * n; i += blockDim.x) if (i % 2 == 0) C[i] = 1;"
    )
    # Threads 0 to 39 of 64 stay; each takes i, i + 64, of these the even ones below 80.
    wanted = {(t // 32, i) for t in range(40) for i in range(t, 80, 64) if i % 2 == 0}
    assert stores(body, n=40) == wanted
    assert stores(body, n=40, changes=[("i % 2 == 0", "i % 2 == 1")]) == {
        (t // 32, i) for t in range(40) for i in range(t, 80, 64) if i % 2 == 1
    }


def test_pointers_that_are_moved_cast_or_carved():
    body = "C += blockIdx.x * n; float* at = C + threadIdx.x; *reinterpret_cast<float2*>(at + threadIdx.x) = {};"
    found = stores(body, grid=(2, 1, 1), n=128)
    assert found == {(b * 2 + t // 32, b * 128 + 2 * t + j) for b in range(2) for t in range(64) for j in range(2)}


def test_arrays_of_several_dimensions():
    found = stores("__shared__ float s[8][20]; s[threadIdx.y][threadIdx.x] = 0;", block=(4, 8, 1))
    assert found == {(0, y * 20 + x) for y in range(8) for x in range(4)}


@pytest.mark.parametrize(
    "body",
    [
        "C[unknown(threadIdx.x)] = 1;", "int i = threadIdx.x; i *= 2; C[i] = 1;", "while (n--) C[threadIdx.x] = 1;",
        "int i = i; C[i] = 1;", "__shared__ int s[4]; C[s[0]] = 1;", "C[threadIdx.x / (n - n)] = 1;",
    ],
)  # fmt: skip
def test_what_is_not_understood_is_unknown(body):
    with pytest.raises((Unknown, ArithmeticError)):
        stores(body, n=4)


def test_operators_are_those_of_c():
    found = stores("C[(threadIdx.x - 3) / 2 + 8 + ((threadIdx.x >> 1) & 1 ? 100 : 0) + min(threadIdx.x, 2)] = 1;", n=4)
    wanted = {(t // 32, int(np.trunc((t - 3) / 2)) + 8 + (100 if t >> 1 & 1 else 0) + min(t, 2)) for t in range(64)}
    assert found == wanted


def changed(text, hypothesis, line):
    model = read_source(text)
    return [apply(text, edit) for edit in edits(model, hypotheses=[hypothesis], lines=[line])]


def test_the_other_half_of_a_number_where_both_coordinates_have_the_same():
    body = "int w = threadIdx.y;\nint r = (w >> 1) * 8, c = (w >> 1) * 8;\nC[r * 16 + c] = 1;"
    text = f"__global__ void k(float* C)\n{{\n{body}\n}}\n"
    wanted = text.replace("c = (w >> 1)", "c = (w & 1)")
    assert wanted in changed(text, "index-arithmetic", 4)
    assert text in changed(wanted, "index-arithmetic", 4)


STRIP = """
__global__ void k(float* C, int width)
{
    __shared__ float s[16 * 128];
    const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
    {
        const int col = warp * 16;
        wmma::store_matrix_sync(s + col, f, 128, wmma::mem_row_major);
    }
    __syncthreads();
}
"""


def test_a_strip_for_each_warp_becomes_a_loop_over_strips():
    wanted = "for (int col = warp * 16; col < width; col += warps * 16) {"
    assert any(wanted in one for one in changed(STRIP, "too-few-warps", 7))
    barrier = STRIP.replace("{\n        const int col", "{\n        __syncthreads(); const int col")
    assert not any(wanted in one for one in changed(barrier, "too-few-warps", 7))


def test_a_return_before_the_store_is_left_out():
    text = "__global__ void k(float* C, int n)\n{\nif (n < 4) return;\nC[threadIdx.x] = 1;\n}\n"
    assert text.replace("if (n < 4) return;", "") in changed(text, "unwritten-output", 3)
    kept = text.replace("if (n < 4) return;", "if (n < 4) { C[0] = 1; return; }")
    assert not any("return" not in one for one in changed(kept, "unwritten-output", 3))


SLICES = """
__global__ void k(float* C, int n)
{
    const int first = blockIdx.z * (n / gridDim.z);
    const int end = min(first + LENGTH + 16, n);
    for (int i = first; i < end; ++i) C[i] = 1;
}
"""


def test_slices_begin_as_far_apart_as_they_are_long():
    text = "#define LENGTH 32\n" + SLICES.replace(" + 16", "")
    assert any("first = blockIdx.z * LENGTH;" in one for one in changed(text, "index-arithmetic", 5))
    right = text.replace("(n / gridDim.z)", "LENGTH")
    assert not any("begin" in edit.summary for edit in edits(read_source(right), lines=[5]))


def test_a_slice_that_ends_too_late():
    text = "#define LENGTH 32\n" + SLICES
    assert any("min(first + LENGTH, n)" in one for one in changed(text, "loop-extent", 6))


def test_a_count_with_which_the_blocks_cover_the_output_is_the_launchs(tmp_path):
    rows = ("blockIdx.x * 2 + warp", "blockIdx.x * PER_BLOCK + warp")
    evidence = evidence_of(tmp_path, rows, ("__global__", "static const int PER_BLOCK = 1;\n__global__"))
    found = {edit.summary: edit.hypothesis for _, edit in evidence.forecast.mends()}
    assert found["PER_BLOCK = 2"] == "launch-coverage"


@pytest.mark.parametrize("name", ["attention/wrong/split_d_128", "pv/wrong/pv_half_columns"])
def test_strips_of_an_array_of_which_threads_clear_more_than_its_tiles_cover(name):
    forecast = failing(Path(__file__).parents[2] / "kernels" / f"{name}.toml").forecast
    best = next(edit for _, edit in forecast.mends())
    assert best.hypothesis == "too-few-warps" and "for (int" in best.changes[0].text
