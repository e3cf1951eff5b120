"""Which sizes a kernel guards, and by what the indices are multiples that it compares with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import wmmadiag
from wmmadiag.api import check
from wmmadiag.hostcode.program import read_program
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guards import tiling
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.open_subject import SubjectOptions

KERNEL = """
struct Params { int rows; };
__device__ void store(float* C, int row, int M) { int at = row + threadIdx.x; if (at < M) C[at] = 0; }
__global__ void k(float* C, int M, int N, Params p) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tile = (blockIdx.y * 4 + warp) * TILE;
  int row = blockIdx.x * 64;
  row += lane;
  BODY
}
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("if (row < M) C[row] = 0;", {"M": 1}),
        ("if (row >= N) return;", {"N": 1}),
        ("if (tile < M && tile + 8 < N) C[tile] = 0;", {"M": 16, "N": 8}),
        ("const float x = row < p.rows ? C[row] : 0;", {"rows": 1}),
        ("if ((size_t)row * 2 < M) C[row] = 0;", {"M": 2}),
        ("if (int64_t(row) * 2 < M && static_cast<int>(row) < N) C[row] = 0;", {"M": 2, "N": 1}),
        ("store(C, row, M);", {"M": 1}),
        ("store(C, tile, p.rows);", {"rows": 1}),  # by the name that the number has in the kernel
        ("store(C, somewhere(row), M);", {"M": 1}),  # whatever a thread's index is added to
        ("const int end = min(N, (int)blockIdx.z * 64 + 64); if (row < end) C[row] = 0;", {"N": 1}),
        ("int last = N; if (C) last = std::min(last, M); if (row < last) C[row] = 0;", {"M": 1, "N": 1}),
        ("const int end = N - 64; if (row < end) C[row] = 0;", {}),
        ("store(C, row, 64);", {}),
        ("for (int i = threadIdx.x; i < 512; i += blockDim.x) if (tile + i / 8 < M) C[i] = 0;", {"M": 1}),
        ("for (int i = tile; i < 512; i += blockDim.x) if (i < M) C[i] = 0;", {}),  # by how many threads there are
        ("for (int i = tile; i < 512; i += 24) if (i < M) C[i] = 0;", {"M": 8}),
        ("for (int i = lane; i < N; i += 32) C[i] = 0;", {}),
        # One of two ends of a loop is where it ends, the other one a guard; steps of one come to every number.
        ("for (int i = somewhere(row); i < 8 * row && i < N; i++) C[i] = 0;", {"N": 1}),
        ("for (int i = somewhere(row); i < 8 * row && i < N; i += 16) C[i] = 0;", {}),
        ("for (int i = lane; i < N && C[i] > 0; i++) C[i] = 0;", {}),
        ("assert(row < M);", {}),
        ("if (N % 16 != 0) return; if (row < N) C[row] = 0;", {}),
        ("if (somewhere(row) < M) C[row] = 0;", {}),
        ("if (4 < M) C[row] = 0;", {}),
    ],
)
def test_what_is_compared_with_a_size(tmp_path, body, found):
    path = tmp_path / "k.cu"
    text = KERNEL.replace("BODY", body).replace("TILE", "16")
    path.write_text(text)
    program = read_program(text, path.as_posix(), (), {})
    assert tiling(program, program.kernels("k")[0], {}, 0).guards == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("for (int k = 0; k < N; k += 48) C[k] = 0;", {"N": 48}),
        ("for (int k = row; k < N; k += TILE) C[k] = 0;", {}),
        ("for (int k = blockIdx.x * 64; k < N; k += TILE) C[k] = 0;", {"N": 16}),
        ("for (int k = 0; k < N; k += TILE) for (int i = 0; i < M; i += 24) C[k] = 0;", {"N": 16, "M": 24}),
        ("for (int k = 0; k < N; k += 16) C[k] = 0; const int tiles = N / 24;", {"N": 48}),
        ("for (int i = lane; i < N; i += 32) C[i] = 0;", {}),
        ("for (int i = 0; i < N; i += blockDim.x) C[i] = 0;", {}),
        ("for (int i = 0; i < N; ++i) C[i] = 0;", {}),
        ("const int tiles = (N + 15) / 16, mine = N / blockDim.x;", {}),
        ("for (int i = 0; i < p.rows / 12; i++) C[i] = 0;", {"rows": 12}),
    ],
)
def test_what_is_stepped_through(tmp_path, body, found):
    path = tmp_path / "k.cu"
    text = KERNEL.replace("BODY", body).replace("TILE", "16")
    path.write_text(text)
    program = read_program(text, path.as_posix(), (), {})
    assert tiling(program, program.kernels("k")[0], {}, 0).steps == found


@pytest.mark.parametrize(
    ("body", "threads", "found"),
    [
        ("for (int i = threadIdx.x; i < N; i += blockDim.x) C[i] = 0;", 96, {"N": 96}),
        ("for (int i = threadIdx.x * 4; i < N; i += blockDim.x * 4) C[i] = 0;", 96, {"N": 384}),
        ("for (int i = threadIdx.x; i < N; i += blockDim.x) C[i] = 0;", 0, {}),  # nobody says how many
        ("for (int i = lane; i < N; i += 32) C[i] = 0;", 96, {"N": 32}),
        ("for (int i = lane; i < p.rows; i += 4 * 32) C[i] = 0;", 96, {"rows": 128}),
        ("for (int i = 0; i < N; i += blockDim.x) C[i] = 0;", 96, {}),  # all threads begin there
        ("for (int i = lane; i < N; i += gridDim.x) C[i] = 0;", 96, {}),
    ],
)
def test_what_a_blocks_threads_step_through(tmp_path, body, threads, found):
    path = tmp_path / "k.cu"
    text = KERNEL.replace("BODY", body).replace("TILE", "16")
    path.write_text(text)
    program = read_program(text, path.as_posix(), (), {})
    assert tiling(program, program.kernels("k")[0], {}, threads).strides == found


DEPTH = """
__global__ void gemm(const float* a, float* c, int k) {
  for (int k0 = LOOP) {
    int i = k0 + threadIdx.x % 32;
    if (i < k) c[i] = a[i];
  }
}
"""


@pytest.mark.parametrize(
    ("loop", "tiles"),
    [
        ("0; k0 < k; k0 += 32", {"k": 32}),
        ("0; k0 < (k + 31) / 32 * 32; k0++", {"k": 32}),
        ("0; k0 + 32 <= k; k0 += 32", {"k": 32}),
        ("0; k0 <= k - 32; k0 += 32", {"k": 32}),
        ("0; k0 < k / 32; k0++", {"k": 32}),
        ("0, n = k / 32; k0 < n; k0++", {"k": 32}),
        ("0; k0 < min(k, 64); k0 += 32", {"k": 32}),
    ],
)
def test_what_a_loop_ends_with_a_part_of(loop, tiles):
    program = read_program(DEPTH.replace("LOOP", loop), "k.cu", (), {})
    assert tiling(program, program.kernels("gemm")[0], {}, 0).covered == tiles


GROUPS = """
__global__ void gemm(const float* a, const float* scales, float* c, int k) {
  const int groups = k / 32;
  for (int g = 0; g < groups; g++) {
    int i = g * 32 + threadIdx.x;
    if (i < k) c[i] = a[i] * SCALE;
  }
}
"""


@pytest.mark.parametrize(("scale", "tiles"), [("scales[blockIdx.x * groups + g]", {}), ("scales[g]", {"k": 32})])
def test_what_else_counts_groups_has_whole_ones_alone(scale, tiles):
    program = read_program(GROUPS.replace("SCALE", scale), "k.cu", (), {})
    assert tiling(program, program.kernels("gemm")[0], {}, 0).covered == tiles


def test_a_loop_over_whole_tiles_whose_loads_are_guarded_is_tried_with_a_rest(tmp_path):
    text = (Path(__file__).parents[1] / "reading" / "unseen32" / "batched_hgemm_ctypes.cu").read_text("utf-8")
    source = tmp_path / "bgemm.cu"
    source.write_text(text.replace("k0 < K; k0 += BLOCK_K", "k0 + BLOCK_K <= K; k0 += BLOCK_K"), "utf-8")
    report = check(source)
    assert report.status == "undecided"
    assert {one.case: one.status for one in report.cases} == {"small": "passed", "tiles": "passed", "tail": "undecided"}


SLICES = """
template <typename Config> __global__ void gemm(const half* a, const half* b, float* c, int m, int n, int k) {
  const int row = blockIdx.y * Config::BM + threadIdx.x / Config::BK;
  for (int k0 = 0; k0 < k; k0 += Config::BK)
    if (row < m && k0 + threadIdx.x % Config::BK < k) c[row * n] += __half2float(a[row * k + k0]);
}
template <int BM_, int BK_> struct Tile { static constexpr int BM = BM_, BK = BK_; };
void launch(const half* a, const half* b, float* c, int m, int n, int k) {
  ASSERTED
  gemm<Tile<64, 32>><<<dim3(n / 64, (m + 63) / 64), 128>>>(a, b, c, m, n, k);
}
"""


@pytest.mark.parametrize(
    ("asserted", "ragged"),
    [("", {"M": 80, "K": 48}), ("if (k % 32 != 0) return;", {"M": 80})],
)
def test_sizes_that_members_of_a_template_argument_guard(tmp_path, asserted, ragged):
    path = tmp_path / "gemm.cu"
    path.write_text(SLICES.replace("ASSERTED", asserted))
    card = wmmadiag.open_card(path, computes="gemm")
    tail = next(dict(one.symbols) for one in card.cases if one.name == "tail")
    assert {name: tail[name] for name in ragged} == ragged
    assert asserted == "" or tail["K"] % 32 == 0  # as the host code asks


PARTS = """
#define TILE 32
__global__ void gemm(const half* A, float* C, int M, int K, int part) {
  const int begin = blockIdx.z * part, end = min(K, begin + part);
  for (int k0 = begin; k0 < end; k0 += TILE)
    if (k0 + threadIdx.x < end) C[0] += A[k0 + threadIdx.x];
}
void run(const half* A, float* C, int M, int K) {
  gemm<<<dim3(1, 1, 4), 32>>>(A, C, M, K, PART);
}
"""


@pytest.mark.parametrize(
    ("part", "covered"), [("(K / 4 + TILE - 1) / TILE * TILE", {"K": 32}), ("(K + 3) / 4", {}), ("K / 4 * 2", {})]
)
def test_a_slice_begins_at_a_multiple_of_what_host_code_rounds_it_to(tmp_path, part, covered):
    path = tmp_path / "k.cu"
    path.write_text(PARTS.replace("PART", part))
    kernel = read_kernel(GivenSource(path, SubjectOptions()))
    assert kernel.tiling.guards["K"] == 1 and kernel.tiling.covered == covered


def test_a_number_of_tiles_that_the_kernel_is_given_is_rounded_up_like_a_grid(tmp_path):
    """What guards the last tile is judged without a mask, which hides what lies behind the end, too."""
    text = (Path(__file__).parents[1] / "reading" / "unseen31" / "flash.cu").read_text("utf-8")
    source = tmp_path / "flash.cu"
    source.write_text(text, "utf-8")
    report = check(source)
    tail = next(case for case in report.cases if case.case == "tail")
    assert report.status == "passed" and tail.symbols["S"] % tail.symbols["Bc"] and not tail.symbols["causal"]
    source.write_text(text.replace("min(Bc, N - Bc * j)", "Bc"), "utf-8")
    assert check(source).status == "undecided"
