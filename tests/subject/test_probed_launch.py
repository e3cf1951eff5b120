"""The launch of a kernel that nobody launches is found by what its blocks write; one that is wrong is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.api import check
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.alternatives import ReadingWork
from wmmadiag.subject.drafts.tried_meanings import _Probing
from wmmadiag.subject.open_subject import SubjectOptions, open_subject
from wmmadiag.subject.probed_launch import likely_blocks

_TILES = """#include <mma.h>
using namespace nvcuda;
__global__ void product(const half* A, const half* B, float* C, int M, int N, int K) {
    BODY
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
"""
_WARP = "const int warp = threadIdx.x / 32;"


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        (_WARP + "const int row = blockIdx.y * 64 + warp % 4 * 16, col = blockIdx.x * 32 + warp / 4 * 16;",
         ("ceil_div(N, 32)", "ceil_div(M, 64)"), (256,)),
        ("const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16;"
         "const int col = (blockIdx.y * blockDim.y + threadIdx.y) * 16;",
         ("ceil_div(M, 16)", "ceil_div(N, 64)"), (32, 4)),
        (_WARP + "const int across = N / 32, row = blockIdx.x / across * 32 + warp / 2 * 16,"
         "col = blockIdx.x % across * 32 + warp % 2 * 16;",
         ("ceil_div(N, 32) * ceil_div(M, 32)",), (128,)),
    ],
    ids=["eight_warps", "by_block_size", "one_axis"],
)  # fmt: skip
def test_a_grid_whose_tiles_meet(tmp_path, body, grid, block):
    path = tmp_path / "k.cu"
    path.write_text(_TILES.replace("BODY", body))
    card = open_subject(path, SubjectOptions())
    assert (card.launch.grid, card.launch.block) == (grid, block)
    assert any("since the source has no launch" in one for one in card.assumed)
    assert check(card).status == "passed"


def test_a_kernel_that_is_wrong_gets_no_launch(tmp_path):
    path = tmp_path / "k.cu"
    body = _WARP + "const int row = blockIdx.y * 64 + warp % 4 * 16, col = blockIdx.x * 32 + warp / 4 * 16;"
    path.write_text(_TILES.replace("BODY", body).replace("k * N + col", "k * N + row"))
    with pytest.raises(ConfigurationError, match="how is it launched") as raised:
        open_subject(path, SubjectOptions())
    assert "the source has no launch" in raised.value.detail
    assert "none makes it right" in raised.value.detail and "--grid" in raised.value.hint


def test_what_is_said_holds(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(_TILES.replace("BODY", "const int row = blockIdx.y * 16, col = blockIdx.x * 16;"))
    card = open_subject(path, SubjectOptions(block=("32",), grid=("N / 16", "M / 16")))
    assert (card.launch.grid, card.launch.block) == (("N / 16", "M / 16"), (32,))


def test_blocks_by_bounds_constants_and_literals():
    assert likely_blocks("for (int i = threadIdx.x; i < 99; i += 96);", (), ())[0] == (96,)
    assert likely_blocks("warp < WARPS", [6], [256])[:2] == [(256,), (192,)]
    assert likely_blocks("threadIdx.y * 16", (), ())[0] == (32, 4)


@pytest.mark.slow
def test_dynamic_shared_memory_is_what_a_block_reaches(tmp_path):
    root = Path(__file__).resolve().parents[2]
    card = open_subject(root / "kernels/attention/lookalike/packed_qkv.cu", SubjectOptions())
    assert card.launch.shared == 2 * 3 * 64 * 72 + 4 * (64 * 68 + 128)  # as its own card says
    assert card.launch.grid == ("ceil_div(Sq, 64)", "H * B")


@pytest.mark.slow
def test_what_is_found_under_such_a_launch_is_undecided(tmp_path):
    path = tmp_path / "k.cu"
    body = _WARP + "const int row = blockIdx.y * 64 + warp % 4 * 16, col = blockIdx.x * 32 + warp / 4 * 16;"
    racing = "__shared__ float zero[32]; if (warp == 0) zero[threadIdx.x] = 0.f;"  # and no barrier
    path.write_text(_TILES.replace("BODY", body + racing).replace("(c, 0.f)", "(c, zero[threadIdx.x % 32])"))
    report = check(path)
    assert report.status == "undecided"
    assert "--block 256" in report.cases[0].problem.hint and report.cases[0].findings
    said = check(path, grid=("ceil_div(N, 32)", "ceil_div(M, 64)"), block=("256",))
    assert said.status == "failed"


def test_one_warp_alone_says_nothing_of_what_several_do_together(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "kernels/reduce/kernel.cu").read_text()
    path = tmp_path / "k.cu"
    assert "i < blockDim.x / 32" in text
    path.write_text(text.replace("i < blockDim.x / 32", "i < blockDim.x / 64"))
    report = check(path)
    assert report.status == "undecided"
    assert "right with blocks of 32 threads, and not with 128" in report.cases[0].problem.message


@pytest.mark.parametrize(
    ("kernel", "grid"), [("elementwise", ("ceil_div(N, 128) * M",)), ("quantize", ("M",)), ("glu", ("M",))]
)
def test_launches_over_elements_and_rows_and_of_integers(tmp_path, kernel, grid):
    text = (Path(__file__).resolve().parents[2] / f"kernels/{kernel}/kernel.cu").read_text()
    path = tmp_path / "k.cu"
    path.write_text(text)
    card = open_subject(path, SubjectOptions())
    assert (card.launch.grid, card.computes.operation) == (grid, kernel)  # silu_and_mul is no activation alone
    assert check(card).status == "passed"


def test_looking_for_a_launch_costs_work():
    class Runs:
        def launch(self, kernel, launch):
            return kernel, launch

        def reported(self):
            return ("found",)

    work = ReadingWork(2.0)
    runs = _Probing(Runs(), work)
    assert runs.launch("kernel", "launch") == ("kernel", "launch") and runs.reported() == ("found",)
    assert not work.over
    runs.launch("kernel", "launch")
    assert work.over
