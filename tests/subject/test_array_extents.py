"""Extents that several numbers of host code count, as the sizes of the arrays tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.api import check
from wmmadiag.cli.main import main
from wmmadiag.hostcode import terms
from wmmadiag.subject.card_session import MOST_TRIED, PlainRuns
from wmmadiag.subject.drafts.array_extents import counted_besides, products_of_sizes
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.open_subject import SubjectOptions

TOKENS = """\
#include <cuda_runtime.h>
__global__ void matmul_forward(float* out, const float* inp, const float* weight, int C, int OC) {
  const int row = blockIdx.x * 16 + threadIdx.y, column = blockIdx.y * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int k = 0; k < C; k++) sum += inp[row * C + k] * weight[column * C + k];
  out[row * OC + column] = sum;
}
void forward(float* out, const float* inp, const float* weight, int B, int T, int C, int OC) {
  matmul_forward<<<dim3(B * T / 16, OC / 16), dim3(16, 16)>>>(out, inp, weight, C, OC);
}
int main() {
  const int B = 32, T = 1024, C = 768, OC = 3072;
  float *out, *inp, *weight;
  cudaMalloc(&out, B * T * OC * sizeof(float));
  cudaMalloc(&inp, B * T * C * sizeof(float));
  cudaMalloc(&weight, C * OC * sizeof(float));
  forward(out, inp, weight, B, T, C, OC);
  return 0;
}
"""


def judged(tmp_path, text):
    path = tmp_path / "k.cu"
    path.write_text(text)
    return check(path)


def test_rows_that_are_tokens_of_a_batch_are_few_where_the_source_has_many(tmp_path):
    report = judged(tmp_path, TOKENS)
    assert report.status == "passed"
    assert any("N×K" in one for one in report.assumed)
    for case in report.cases:
        assert set(case.symbols) == {"M", "N", "K"} and max(case.symbols.values()) <= 512
    assert any(len({*case.symbols.values()}) > 1 for case in report.cases)


@pytest.mark.slow
def test_a_wrong_kernel_of_tokens_is_not_right(tmp_path, monkeypatch):
    """Read as another operation it has the whole sizes of `main`: such a run is given up soon."""
    budgets, launch = set(), PlainRuns.launch

    def counted(runs, kernel, given):
        budgets.add(kernel.options.budget.instructions)
        return launch(runs, kernel, given)

    monkeypatch.setattr(PlainRuns, "launch", counted)
    wrong = TOKENS.replace("out[row * OC + column] = sum", "out[row * OC + column] = row == 1 ? 0.0f : sum")
    assert wrong != TOKENS
    assert judged(tmp_path, wrong).status in ("failed", "undecided")
    assert budgets == {MOST_TRIED}


@pytest.mark.parametrize(
    ("size", "found"),
    [
        ("C * OC", {"M": "B * T", "N": "OC", "K": "C"}),
        ("OC * C", {"M": "B * T", "N": "OC", "K": "C"}),
        ("(C + OC)", {}),  # no product
        ("C * OC * B", {}),  # no extents are so
        ("2 * C * OC", {}),
        ("C", {}),
    ],
)
def test_products_are_told_by_all_arrays_together(tmp_path, size, found):
    path, text = tmp_path / "k.cu", TOKENS.replace("&weight, C * OC", f"&weight, {size}")
    path.write_text(text)
    kernel = read_kernel(GivenSource(path, SubjectOptions(), text))
    names = {symbol: known[0] for symbol, known in kernel.machine.names.items() if known}
    products = products_of_sizes(kernel, "gemm")
    told = {extent: " * ".join(names.get(one, one) for one in terms.text(term).split(" * ")) for extent, term in
            products.items()}  # fmt: skip
    assert told == found


RUNNING_MAXIMUM = """\
#include <cuda_runtime.h>
__global__ void softmax(const float* x, float* y, float* most, int M, int N) {
  const int row = blockIdx.x * 32 + threadIdx.x;
  if (row >= M) return;
  float largest = most[row], sum = 0.0f;
  for (int c = 0; c < N; ++c) largest = fmaxf(largest, x[row * N + c]);
  most[row] = largest;
  for (int c = 0; c < N; ++c) sum += expf(x[row * N + c] - largest);
  for (int c = 0; c < N; ++c) y[row * N + c] = expf(x[row * N + c] - largest) / sum;
}
void forward(const float* x, float* y, int M, int N) {
  float* most;
  cudaMalloc(&most, M * sizeof(float));
  cudaMemset(most, BYTE, M * sizeof(float));
  softmax<<<(M + 31) / 32, 32>>>(x, y, most, M, N);
}
"""


@pytest.mark.parametrize(("byte", "status"), [("-10000.0f", "passed"), ("0xFE", "passed"), ("0x7E", "undecided")])
def test_memory_is_as_host_code_sets_its_bytes(tmp_path, byte, status):
    report = judged(tmp_path, RUNNING_MAXIMUM.replace("BYTE", byte))
    assert report.status == status  # with 0x7E the largest number is never one of the row's


@pytest.mark.parametrize(("old", "right"), [("", True), ("cudaMemsetAsync(counter, 0, sizeof(int), stream);", False)])
@pytest.mark.corpus
def test_counters_that_host_code_sets_to_zero_are_the_kernels_own(tmp_path, old, right):
    source = Path(__file__).parents[1] / "reading" / "unseen16" / "streamk_queue_hgemm.cu"
    (tmp_path / "k.cu").write_text(source.read_text().replace(old, ""))
    assert (main(["check", str(tmp_path / "k.cu")]) == 0) == right


HEADS = """\
#include <cuda_fp16.h>
__global__ void scores(const half* Q, const half* K, float* S, int L, int d) {
  const half *q = Q + blockIdx.z * L * d, *k = K + blockIdx.z * L * d;
  for (int j = threadIdx.x; j < L; j += 32) {
    float sum = 0.0f;
    for (int i = 0; i < d; i++) sum += __half2float(q[blockIdx.x * d + i]) * __half2float(k[j * d + i]);
    S[(blockIdx.z * L + blockIdx.x) * L + j] = sum;
  }
}
int main() {
  const int lote = 2, cabezas = 3, L = 80, d = 32;
  half *Q, *K; float* S;
  cudaMalloc(&Q, lote * cabezas * L * d * 2); cudaMalloc(&K, lote * cabezas * L * d * 2);
  cudaMalloc(&S, lote * cabezas * L * %s * 4);
  scores<<<dim3(L, 1, lote * cabezas), 32>>>(Q, K, S, L, d);
}
"""


def heads_counted(tmp_path, last):
    path = tmp_path / "scores.cu"
    path.write_text(HEADS % last)
    kernel = read_kernel(GivenSource(path, SubjectOptions()))
    found = counted_besides(kernel, "qkt", {"L": terms.symbol("S"), "d": terms.symbol("D")})
    return {name: terms.text(one) for name, one in found.items()}


def test_what_all_arrays_are_made_by_besides_are_batches_and_heads(tmp_path):
    assert heads_counted(tmp_path, "L") == {"lote": "B", "cabezas": "H"}
    assert heads_counted(tmp_path, "d") == {}  # the arrays do not agree


def test_a_kernel_over_them_is_judged_with_several_of_each(tmp_path):
    path = tmp_path / "scores.cu"
    path.write_text(HEADS % "L")
    report = check(path, computes="qkt")
    assert report.status == "passed"
    assert all(case.symbols["B"] * case.symbols["H"] > 1 for case in report.cases)
