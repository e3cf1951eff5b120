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
from wmmadiag.diagnose.source_model import read_source
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_file import load_card

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
