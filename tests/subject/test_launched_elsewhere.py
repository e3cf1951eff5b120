"""A header of kernels is checked as the project's other files launch it; one that does not include it says nothing."""

from __future__ import annotations

import re

import pytest

import wmmadiag
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.derive import derived_card
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.drafts.launched_elsewhere import launched_elsewhere
from wmmadiag.subject.drafts.new_card import new_card
from wmmadiag.subject.open_subject import SubjectOptions

KERNEL = """\
#pragma once
template <int TILE, int ROWS>
__global__ void gemm_tiled(int M, int N, int K, const float* A, const float* B, float* C) {
  __shared__ float sa[TILE][TILE], sb[TILE][TILE];
  const int column = blockIdx.x * TILE + threadIdx.x % TILE, first = blockIdx.y * TILE + threadIdx.x / TILE * ROWS;
  float sums[ROWS] = {};
  for (int k = 0; k < K; k += TILE) {
    for (int r = 0; r < ROWS; ++r) {
      sa[threadIdx.x / TILE * ROWS + r][threadIdx.x % TILE] = A[(first + r) * K + k + threadIdx.x % TILE];
      sb[threadIdx.x / TILE * ROWS + r][threadIdx.x % TILE] = B[(k + threadIdx.x / TILE * ROWS + r) * N + column];
    }
    __syncthreads();
    for (int i = 0; i < TILE; ++i)
      for (int r = 0; r < ROWS; ++r) sums[r] += sa[threadIdx.x / TILE * ROWS + r][i] * sb[i][threadIdx.x % TILE];
    __syncthreads();
  }
  for (int r = 0; r < ROWS; ++r) C[(first + r) * N + column] = sums[r];
}
"""
HOST = """\
#include <cuda_runtime.h>
#include "kernels/all.h"
void launch(int M, int N, int K, const float* A, const float* B, float* C) {
  dim3 grid(N / 48, M / 48);
  gemm_tiled<48, 16><<<grid, 48 * 3>>>(M, N, K, A, B, C);
}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "Makefile").write_text("all:\n")
    folder = tmp_path / "src" / "kernels"
    folder.mkdir(parents=True)
    (folder / "all.h").write_text('#include "tiled.cuh"\n')
    (folder / "tiled.cuh").write_text(KERNEL)
    (folder.parent / "host.cu").write_text(HOST)
    return folder / "tiled.cuh"


def status(path):
    return wmmadiag.check(path).status


def test_a_header_is_checked_as_the_project_launches_it(project):
    card = derived_card(project, SubjectOptions())
    assert isinstance(card, Card) and card.path == project.parents[1] / "host.cu"
    assert list(card.launch.block) == [144]
    assert any("launches it, which includes its file" in one for one in card.assumed)
    assert status(project) == "passed"


@pytest.mark.slow
def test_a_wrong_kernel_of_a_header_is_not_right(project):
    project.write_text(KERNEL.replace("k < K; k", "k < K - TILE; k"))
    assert project.read_text() != KERNEL
    assert status(project) in ("failed", "undecided")


def test_a_launch_of_another_kernel_of_that_name_says_nothing(project):
    (project.parents[1] / "host.cu").write_text(
        re.sub(r"#include \"kernels.*", KERNEL, HOST).replace("#pragma once", "")
    )
    given = GivenSource(project, SubjectOptions())
    assert launched_elsewhere(given, read_kernel(given)) is None


def test_a_file_that_does_not_compile_says_nothing(project):
    (project.parents[1] / "host.cu").write_text(HOST + "\n__device__ int broken() { return nothing_of_that_name; }\n")
    given = GivenSource(project, SubjectOptions())
    assert launched_elsewhere(given, read_kernel(given)) is None


def test_a_drafted_card_names_the_file_that_launches(project):
    card = project.with_suffix(".toml")
    text, todos = new_card(project, card=card, entry="", computes="", macros={}, include_paths=())
    assert 'source = "../host.cu"' in text and "gemm_tiled<48, 16>" in text
    assert todos == 0
