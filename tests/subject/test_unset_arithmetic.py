"""A kernel that sums in halves, and a card that says nothing of it: nobody can say whether it is meant."""

from __future__ import annotations

import pytest

from wmmadiag.api import check, diagnosis
from wmmadiag.results.model import KernelReport

KERNEL = """#include <mma.h>
using namespace nvcuda::wmma;
__global__ void product(const half* a, const half* b, float* d, int n, int k) {
    fragment<accumulator, 16, 16, 16, SUM> sum;
    fill_fragment(sum, SUM(0.0f));
    for (int i = 0; i < k; i += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> fa;
        fragment<matrix_b, 16, 16, 16, half, row_major> fb;
        load_matrix_sync(fa, a + blockIdx.y * 16 * k + i, k);
        load_matrix_sync(fb, b + i * n + blockIdx.x * 16, n);
        mma_sync(sum, fa, fb, sum);
    }
    __shared__ SUM tile[256];
    store_matrix_sync(tile, sum, 16, mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        d[(blockIdx.y * 16 + i / 16) * n + blockIdx.x * 16 + i % 16] = FACTOR float(tile[i]);
}
"""
CARD = """format = 1
source = "kernel.cu"
entry = "product"
[computes]
operation = "gemm"
{said}
[[arguments]]
name = "a"
role = "a"
dtype = "f16"
[[arguments]]
name = "b"
role = "b"
dtype = "f16"
[[arguments]]
name = "d"
role = "d"
dtype = "f32"
direction = "out"
[[arguments]]
name = "n"
dtype = "s32"
value = "N"
[[arguments]]
name = "k"
dtype = "s32"
value = "K"
[launch]
grid = ["N / 16", "M / 16"]
block = 32
[[cases]]
name = "deep"
M = 16
N = 32
K = 256
"""


@pytest.fixture
def checked(tmp_path):
    def checked(kernel: str, said: str = "") -> KernelReport:
        (tmp_path / "kernel.cu").write_text(kernel, "utf-8")
        (tmp_path / "card.toml").write_text(CARD.format(said=said), "utf-8")
        return check(tmp_path / "card.toml")

    return checked


def with_sums(kind: str, factor: str = "") -> str:
    return KERNEL.replace("SUM", kind).replace("FACTOR", factor)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("", "undecided"),
        ('accumulate = "f16"', "passed"),
        ('accumulate = "auto"', "failed"),
        ('accumulate = "f32"', "failed"),
    ],
)
def test_what_a_card_says_of_sums_in_halves_decides(checked, said, status):
    report = checked(with_sums("half"), said)
    assert [case.status for case in report.cases] == [status]


def test_the_question_names_both_answers(checked):
    problem = checked(with_sums("half")).cases[0].problem
    assert problem is not None
    assert 'accumulate = "f16", which the compiled code has and the card says nothing of' in problem.message
    assert 'say accumulate = "f16"; if not, accumulate = "auto"' in problem.hint


def test_what_rounding_to_half_does_not_explain_is_wrong(checked):
    assert checked(with_sums("half", "1.25f *")).status == "failed"


def test_errors_as_small_without_sums_in_halves_are_wrong(checked):
    report = checked(with_sums("float", "(1.0f + 0.001f * (i % 3)) *"))
    assert [case.status for case in report.cases] == ["failed"]


def test_what_a_check_finds_is_wrong_whatever_is_meant(checked):
    outside = "__shared__ half other[64]; other[threadIdx.x] = tile[0]; tile[n * 8 + threadIdx.x] = half(1.0f);"
    kernel = with_sums("half", "float(other[threadIdx.x] - other[threadIdx.x]) +")
    case = checked(kernel.replace("__syncwarp();", f"__syncwarp(); {outside} __syncwarp();")).cases[0]
    assert case.status == "failed"
    assert case.problem is None
    assert any(one.check == "memory" and one.level == "error" for one in case.findings)


def test_sums_in_floats_are_right(checked):
    assert checked(with_sums("float")).status == "passed"


def test_no_cause_is_proven_where_halves_may_be_meant(checked, tmp_path):
    assert checked(with_sums("half")).status == "undecided"
    found = diagnosis(tmp_path / "card.toml")
    assert found.outcome == "undecided"
    assert 'accumulate = "f16" is not meant, which the compiled code has' in found.assumed
    assert all(cause.verdict != "proven" for cause in found.causes)


def test_a_mistake_beside_sums_in_halves_is_found(checked, tmp_path):
    case = '[[cases]]\nname = "ragged"\nM = 32\nN = 16\nK = 256\n'
    assert (
        checked(with_sums("half").replace("blockIdx.x * 16 + i % 16]", "blockIdx.y * 16 + i % 16]")).status == "failed"
    )
    (tmp_path / "card.toml").write_text(CARD.format(said="") + case, "utf-8")
    found = diagnosis(tmp_path / "card.toml")
    assert found.causes[0].place.endswith("kernel.cu:17")
    assert found.causes[0].verdict == "likely"
