"""Which accesses touch what their block has no use for, on which line that is made, and what mends a stride."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from wmmadiag.checks.run import emulator_of
from wmmadiag.diagnose.addressing import misread
from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.engine import _bench
from wmmadiag.diagnose.evidence import Evidence
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card

KERNELS = Path(__file__).parents[2] / "kernels"


def first_failing(path):
    card = load_card(path)
    bench = _bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    for case in bench.cases():
        run = bench.run(case)
        if not run.passed:
            return Evidence(bench, case, {}, run)
    raise AssertionError("no case fails")


@pytest.mark.parametrize(
    ("name", "roles", "strides"),
    [
        ("attention/wrong/packed_row_stride", {"q", "k", "v"}, {("row", 64, 192)}),
        ("attention/wrong/packed_out_stride", {"o"}, {("head", 4096, 64), ("row", 64, 128)}),
        ("attention/wrong/first_head_stride", {"q", "k", "v", "o"}, {("head", 64, 4096)}),
        ("attention/wrong/bshd_row_stride", {"q", "k", "v", "o"}, {("head", 2048, 32), ("row", 32, 64)}),
        ("attention/wrong/gqa_head_modulo", {"k", "v"}, set()),
        ("pv/wrong/pv_p_row_pitch", {"p"}, {("row", 16, 96)}),
        ("gemm/wrong/tf32_rows_of_b", {"b"}, {("row", 48, 64)}),
    ],
)
def test_the_wrong_access_its_stride_and_the_line_that_makes_it(name, roles, strides):
    evidence = first_failing(KERNELS / f"{name}.toml")
    found = evidence.misread
    assert {one.role for one in found} == roles
    assert all(one.matrix == name.startswith("attention") for one in found)
    assert {(stride.axis, stride.read, stride.lies) for one in found for stride in one.strides} == strides
    truth = tomllib.loads((KERNELS / f"{name}.truth.toml").read_text("utf-8"))
    assert set(truth["lines"]) & {line for _, line in found[0].lines[:4]}


@pytest.mark.parametrize(
    "name",
    [
        "attention/lookalike/packed_qkv", "attention/lookalike/flash_bshd", "attention/lookalike/gqa_cross_bf16",
        "attention/lookalike/pipeline_kv", "gemm/lookalike/split_k", "gemm/lookalike/row_tail",
        "attention_fused/lookalike/fa2_mma",
    ],
)  # fmt: skip
def test_right_kernels_touch_what_their_blocks_need(name):
    card = load_card(KERNELS / f"{name}.toml")
    bench = _bench(card, card.variants[0].name, "sm_90", "emulator", "default", None, "", None)
    for case in bench.cases():
        run = bench.run(case)
        kernel = emulator_of(run.kernel)
        assert kernel is not None
        assert misread(bind(card, case, card.variants[0]), kernel) == (), case.name


STAGED = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c, int M, int N, int K) {
    __shared__ __align__(32) half as[32 * 16], bs[16 * 32];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const half* from = b + blockIdx.x * 32;
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = threadIdx.x; i < 16 * 16; i += 128) {
            as[i] = a[(blockIdx.y * 32 + i / 16) * K + k0 + i % 16];
            as[i + 256] = a[(blockIdx.y * 32 + UPPER + i / 16) * K + k0 + i % 16];
        }
        for (int i = threadIdx.x; i < 16 * 32; i += 128) bs[i] = from[i / 32 * N + i % 32];
        __syncthreads();
        from += 16 * N;
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, as + warp / 2 * 256, 16);
        wmma::load_matrix_sync(fb, bs + warp % 2 * 16, 32);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncthreads();
    }
    float* tile = c + (blockIdx.y * 32 + warp / 2 * 16) * N + blockIdx.x * 32 + warp % 2 * 16;
    wmma::store_matrix_sync(tile, acc, N, wmma::mem_row_major);
}
"""
STAGED_CARD = """format = 1
name = "staged"
source = "staged.cu"
entry = "k"
arguments = [
  { role = "a", dtype = "f16" }, { role = "b", dtype = "f16" }, { role = "d", dtype = "f32" },
  { dtype = "s32", value = "M" }, { dtype = "s32", value = "N" }, { dtype = "s32", value = "K" },
]
launch = { grid = ["N // 32", "M // 32"], block = 128 }
computes = { operation = "gemm" }
cases = [{ name = "small", M = 64, N = 96, K = 48 }]
"""


@pytest.mark.parametrize(
    ("upper", "words"),
    [
        # Rows 24 to 31 are left out, and rows 8 to 15 taken for them.
        ("8", "block 0 never reads rows 24 to 31, columns 0 to 47 of A, and others twice"),
        ("(k0 ? 16 : 0)", "block 0 never reads rows 16 to 31, columns 0 to 15 of A, and others twice"),
    ],
)
def test_what_a_block_leaves_out_and_what_it_takes_instead(tmp_path, upper, words):
    (tmp_path / "staged.cu").write_text(STAGED.replace("UPPER", upper), "utf-8")
    (tmp_path / "staged.toml").write_text(STAGED_CARD, "utf-8")
    found = first_failing(tmp_path / "staged.toml").misread
    assert [one.words for one in found] == [words] * 2
    assert not any(one.certain for one in found)
    assert {one.place.line for one in found} == {12, 13}


def test_what_is_left_out_alone_is_no_matter_of_addresses(tmp_path):
    text = STAGED.replace("UPPER", "16").replace("k0 < K; k0", "k0 < K - 16; k0")
    (tmp_path / "staged.cu").write_text(text, "utf-8")
    (tmp_path / "staged.toml").write_text(STAGED_CARD, "utf-8")
    assert first_failing(tmp_path / "staged.toml").misread == ()


def test_a_launch_that_is_too_large_is_left_alone(monkeypatch):
    evidence = first_failing(KERNELS / "attention/wrong/packed_row_stride.toml")
    monkeypatch.setattr("wmmadiag.diagnose.addressing.footprints._MOST", 100)
    assert evidence.misread == ()


@pytest.mark.parametrize(
    "name",
    [
        "attention/wrong/bshd_alpha_inverted",
        "qkt/wrong/qk_grid_floor",
        # All that is needed, and more behind the end.
        "attention/wrong/split_q_tail",
        "qkt/wrong/qk_last_slice_reads_on",
        "gemm/wrong/splitk_uneven_k",
    ],
)
def test_other_faults_are_no_matter_of_addresses(name):
    assert first_failing(KERNELS / f"{name}.toml").misread == ()


def test_numbers_of_a_case_have_the_kernels_own_names():
    evidence = first_failing(KERNELS / "attention/wrong/packed_row_stride.toml")
    died = replace(evidence, run=replace(evidence.run, bound=None))
    assert died.values == evidence.values
    assert evidence.values["p.seq"] == evidence.values["S"]
    assert evidence.values["p.heads"] == evidence.values["H"]
    assert "p.scale" not in evidence.values  # a float is no extent


SOURCE = """#define WIDTH 32
struct Shape { int rows; int heads; };
__global__ void k(const float* x, float* y, Shape s, int keys) {
  const int stride = s.heads * WIDTH;
  x += blockIdx.y * s.rows * WIDTH;
  y[blockIdx.x * stride + threadIdx.x] = x[threadIdx.x];
}
"""
KNOWN = {"s.rows": 20, "s.heads": 2, "keys": 48}


def mended(line, values):
    found = edits(read_source(SOURCE), hypotheses={"tensor-strides"}, lines={line}, values={**KNOWN, **values})
    strides = [edit for edit in found if edit.kind == "strides"]
    return [apply(SOURCE, edit).split("\n")[line - 1].strip() for edit in strides]


@pytest.mark.parametrize(
    ("line", "read", "lies", "code"),
    [
        (4, 64, 192, "const int stride = 3 * s.heads * WIDTH;"),
        (4, 64, 32, "const int stride = WIDTH;"),
        (4, 64, 1280, "const int stride = s.heads * WIDTH * s.rows;"),
        (5, 640, 1536, "x += blockIdx.y * keys * WIDTH;"),
    ],
)
def test_a_stride_is_made_that_of_the_layout(line, read, lies, code):
    assert code in mended(line, {"read-0": read, "lies-0": lies})[:2]


def test_what_another_case_refutes_is_not_tried():
    known = {"read-0": 64, "lies-0": 64 * 24}  # 2 heads, 24 = keys / heads = rows + 4
    other = {"s.rows@0": 24, "s.heads@0": 5, "keys@0": 7}
    assert mended(4, known) == ["const int stride = keys * WIDTH;"]
    assert mended(4, {**known, **other, "lies-0@0": 7 * 32}) == ["const int stride = keys * WIDTH;"]
    assert not mended(4, {**known, **other, "lies-0@0": 24 * 32})
    assert not mended(4, {})


POINTERS = """__global__ void k(const half* keys, const half* values, float* out, int heads, int n) {
  const int head = blockIdx.x % heads, batch = blockIdx.x / heads;
  const half* k = keys + (batch * heads + head) * n;
  const half* v = values + head * n;
  float* o = out + blockIdx.x * n;
  __shared__ half tile[64];
  half* side = tile + 32;
}
"""


def test_a_pointer_begins_where_another_one_of_an_argument_does():
    found = edits(read_source(POINTERS), hypotheses={"tensor-strides"}, lines={4}, values={"misread": 1})
    likewise = [apply(POINTERS, edit).split("\n")[3].strip() for edit in found if edit.kind == "strides"]
    assert set(likewise) == {
        "const half* v = values + (batch * heads + head) * n;",
        "const half* v = values + blockIdx.x * n;",
    }
    assert not [
        e for e in edits(read_source(POINTERS), hypotheses={"tensor-strides"}, lines={4}) if e.kind == "strides"
    ]


def test_an_output_that_is_a_permutation_is_the_storing_lines_fault():
    evidence = first_failing(KERNELS / "attention/wrong/packed_out_stride.toml")
    (found,) = evidence.misread
    assert found.store
    assert "needs O[0,0]" in found.words
