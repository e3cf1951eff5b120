"""Arrays carved out of one buffer: which overwrite each other, which only use the same memory again, and the mend."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.edits.carving import FIRST, REACH, START
from wmmadiag.diagnose.engine import failing_evidence
from wmmadiag.diagnose.hypotheses.index_arithmetic import HYPOTHESIS
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.subject.card_files.read import load_card

_SOURCE = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
#define PADDED(n) ((n) + 8)

__device__ void copy(half* to, const half* from, int rows, int columns, int pitch) {
    for (int i = threadIdx.x; i < rows * columns; i += blockDim.x)
        to[i / columns * pitch + i % columns] = from[i];
}

__global__ void product(const half* a, const half* b, float* c, int depth) {
    extern __shared__ __align__(128) unsigned char raw[];
    const int pitch = PADDED(depth);
    half* left = (half*)raw;
    half* right = OFFSET;
    float* result = (float*)(raw + 512);
    copy(left, a, 16, depth, pitch);
    copy(right, b, depth, 16, 24);
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < depth; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, left + k, pitch);
        wmma::load_matrix_sync(fb, right + k * 24, 24);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    __syncthreads();
    if (threadIdx.x < 32) wmma::store_matrix_sync(result, acc, 16, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) c[i] = FACTOR result[i];
}
"""
_CARD = """format = 1
source = "k.cu"
entry = "product"
[computes]
operation = "gemm"
[[arguments]]
role = "a"
dtype = "f16"
[[arguments]]
role = "b"
dtype = "f16"
[[arguments]]
role = "d"
name = "c"
dtype = "f32"
[[arguments]]
name = "depth"
dtype = "s32"
value = "K"
[launch]
grid = 1
block = 64
shared = 8192
[[cases]]
name = "one"
M = 16
N = 16
K = 64
"""


def _evidence(folder, offset, factor=""):
    (folder / "k.cu").write_text(_SOURCE.replace("OFFSET", offset).replace("FACTOR", factor))
    (folder / "k.toml").write_text(_CARD)
    return failing_evidence(load_card(folder / "k.toml"), passing=True)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("left + 16 * depth", "left + 16 * pitch"),
        ("(half*)(raw + sizeof(half) * 8 * pitch)", "(half*)(raw + sizeof(half) * 16 * pitch)"),
        ("&left[16 * depth]", "&left[16 * pitch]"),
    ],
)
def test_an_array_that_starts_inside_another_one(tmp_path, wrong, right):
    evidence = _evidence(tmp_path, wrong)
    assert evidence.wrong_count
    (pair,) = evidence.overlaps
    assert (pair.first, pair.second, pair.buffer) == ("left", "right", "raw")
    assert pair.reach == 2 * (15 * 72 + 64) > pair.room
    claim = HYPOTHESIS.test(evidence)[0]
    assert (claim.verdict, claim.place.line) == ("proven", 15)
    source = evidence.text_of(str(tmp_path / "k.cu"))
    values = {**evidence.values, START: pair.starts[1], FIRST: pair.starts[0], REACH: pair.reach}
    offered = edits(read_source(source), hypotheses=["index-arithmetic"], lines=[15], values=values)
    assert source.replace(wrong, right) in [apply(source, edit) for edit in offered[:6]]


def test_memory_used_again_behind_a_barrier_is_no_overlap(tmp_path):
    assert _evidence(tmp_path, "left + 16 * pitch").run.passed
    wrong = _evidence(tmp_path, "left + 16 * pitch", "2.0f *")
    assert wrong.wrong_count
    assert wrong.overlaps == ()
