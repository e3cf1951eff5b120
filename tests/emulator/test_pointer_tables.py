"""Kernels that get an array of pointers, one to each matrix: where these lie, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import load
from wmmadiag.errors import ConfigurationError, KernelFault
from wmmadiag.launch import Launch
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import parse_card

SOURCE = """
extern "C" __global__ void add(float* const* rows, const float* const* others, int n) {
  if (threadIdx.x < n) rows[blockIdx.x][threadIdx.x] += others[blockIdx.x][threadIdx.x];
}
"""
CARD = """
format = 1
source = "k.cu"
entry = "add"
[[arguments]]
name = "rows"
role = "c"
dtype = "f32"
direction = "inout"
pointers = true
[[arguments]]
name = "a"
role = "a"
dtype = "f32"
pointers = POINTERS
layout = "BMK"
[[arguments]]
name = "b"
role = "b"
dtype = "f32"
[launch]
grid = "batch"
block = 32
[computes]
operation = "gemm"
[[cases]]
name = "one"
M = 8
N = 4
K = 16
batch = BATCH
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "k.cu"
    path.write_text(SOURCE)
    return load(compile_source(path, CompileOptions(arch="sm_80")).ptx, "add")


def test_the_kernel_follows_a_pointer_to_each_row(kernel):
    rows, others = np.zeros((3, 8), np.float32), np.arange(24, dtype=np.float32).reshape(3, 8)
    turned = np.ascontiguousarray(others[::-1])
    launch = Launch(
        (3, 1, 1), (32, 1, 1), [rows, turned, 8], names=("rows", "others", "n"), tables={0: (3, 32), 1: (3, 32)}
    )
    kernel.launch(launch)
    np.testing.assert_array_equal(rows, others[::-1])


def test_a_pointer_that_is_none_of_the_table_is_said(kernel):
    rows, others = np.zeros((2, 8), np.float32), np.zeros((2, 8), np.float32)
    launch = Launch(
        (3, 1, 1), (32, 1, 1), [rows, others, 8], names=("rows", "others", "n"), tables={0: (2, 32), 1: (2, 32)}
    )
    with pytest.raises(KernelFault, match="past the end of the pointers of others"):
        kernel.launch(launch)


@pytest.mark.parametrize(("batch", "table"), [(3, (3, 8 * 4 * 4)), (1, (1, 0))])
def test_a_card_says_that_there_is_a_pointer_to_each_matrix(tmp_path, batch, table):
    (tmp_path / "k.cu").write_text(SOURCE)
    card = parse_card(CARD.replace("BATCH", str(batch)).replace("POINTERS", "false"), tmp_path / "k.toml")
    launch = bind(card, card.cases[0], card.variants[0]).launch
    assert launch.tables == {0: table}


def test_what_is_no_truth_is_refused_at_its_place(tmp_path):
    (tmp_path / "k.cu").write_text(SOURCE)
    with pytest.raises(ConfigurationError, match="'pointers' must be true or false"):
        parse_card(CARD.replace("BATCH", "1").replace("POINTERS", '"yes"'), tmp_path / "k.toml")
