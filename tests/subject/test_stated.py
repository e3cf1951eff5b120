"""What comments say by formulas judges a kernel; it makes no wrong kernel right, and no right one WRONG."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.cli.main import main
from wmmadiag.subject.drafts.stated.comments import stated

SETS = Path(__file__).parents[1] / "reading"
SOURCE = """
// Scores of pairs.
//   h[m, :] = x[m, :] @ w
//   y[m, n] = tanh(h[m, n]) * gain[n] + 0.25
// x [M, K], w [K, N], gain [N], y [M, N]
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void strange(const half* x, const half* w, const float* gain, float* y, int M, int N, int K) {
  __shared__ float tile[16][16];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  int row = blockIdx.y * 16, col = blockIdx.x * 16;
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(a, x + row * K + k, K);
    wmma::load_matrix_sync(b, w + k * N + col, N);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(&tile[0][0], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    int r = i / 16, c = i % 16;
    y[(row + r) * N + col + c] = tanhf(tile[r][c]) * gain[col + c] + 0.25f;
  }
}
void launch(const half* x, const half* w, const float* gain, float* y, int M, int N, int K) {
  strange<<<dim3(N / 16, M / 16), 32>>>(x, w, gain, y, M, N, K);
}
"""


def checked(tmp_path, capsys, text):
    path = tmp_path / "strange.cu"
    path.write_text(text)
    status = main(["check", str(path)])
    shown = capsys.readouterr()
    return status, " ".join((shown.out + shown.err).split())


def test_a_kernel_is_right_by_a_formula_in_a_comment(tmp_path, capsys):
    status, said = checked(tmp_path, capsys, SOURCE)
    assert status == 0, said
    assert "judged by what a comment says, h[m, :] = x[m, :] @ w; y[m, n] = tanh(h[m, n]) * gain[n] + 0.25" in said
    assert "(strange.cu:4)" in said


def test_what_is_said_of_indices_has_them_where_it_stands_without(tmp_path, capsys):
    text = SOURCE.replace("h[m, :] = x[m, :] @ w", "h[m][n] = sum_k x[m][k] * w[k][n]")
    text = text.replace("y[m, n] = tanh(h[m, n]) * gain[n] + 0.25", "y[m][n] = tanh(h) * gain[n] + 0.25")
    text = text.replace("// x [M, K], w [K, N], gain [N], y [M, N]\n", "")
    status, said = checked(tmp_path, capsys, text)
    assert status == 0, said
    assert "y[m][n] = tanh(h) * gain[n] + 0.25" in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gain[col + c]", "gain[row + r]"),
        ("+ 0.25f", "+ 0.251f"),
        ("k < K; k += 16", "k < K - 16; k += 16"),
        ("tanhf(tile[r][c])", "tanhf(tile[c][r])"),
        ("w + k * N + col, N", "w + k * N, N"),
    ],
)
def test_a_kernel_that_is_not_is_asked_about(tmp_path, capsys, old, new):
    assert old in SOURCE
    status, said = checked(tmp_path, capsys, SOURCE.replace(old, new))
    assert status in (2, 3), said
    assert "it does not compute what line 4 says: h[m, :] = x[m, :] @ w; y[m, n] =" in said


@pytest.mark.parametrize(
    "comment",
    [
        "y[m, n] = tanh(h[m, n]) * gain[n] + 0.5",  # grown old
        "y[m, n] = tanh(h[m, n]) * gains[n] + 0.25",  # of names that nothing has
        "y[m, n] = tanh(h[m, n]) * gain[n",
    ],
)
def test_a_comment_that_is_wrong_makes_no_verdict(tmp_path, capsys, comment):
    status, said = checked(tmp_path, capsys, SOURCE.replace("y[m, n] = tanh(h[m, n]) * gain[n] + 0.25", comment))
    assert status in (2, 3), said


def test_a_card_may_have_a_formula(tmp_path, capsys):
    (tmp_path / "strange.cu").write_text(SOURCE)
    card = """
format = 1
source = "strange.cu"
entry = "strange"
arguments = [
  { name = "x", role = "x", dtype = "f16", direction = "in", shape = ["M", "K"] },
  { name = "w", role = "w", dtype = "f16", direction = "in", shape = ["K", "N"] },
  { name = "gain", role = "gain", dtype = "f32", direction = "in", shape = ["N"] },
  { name = "y", role = "y", dtype = "f32", direction = "out", shape = ["M", "N"] },
  { name = "M", dtype = "s32", value = "M" }, { name = "N", dtype = "s32", value = "N" },
  { name = "K", dtype = "s32", value = "K" },
]
[launch]
grid = ["N // 16", "M // 16"]
block = 32
[computes]
formula = "y[m, n] = tanh(sum_k x[m, k] * w[k, n]) * gain[n] + 0.25"
[[cases]]
name = "small"
M = 32
N = 48
K = 64
"""
    path = tmp_path / "strange.toml"
    path.write_text(card)
    assert main(["check", str(path)]) == 0, capsys.readouterr().out
    path.write_text(card.replace("+ 0.25", "- 0.25"))
    assert main(["check", str(path)]) == 1
    assert "WRONG" in capsys.readouterr().out
    path.write_text(card.replace("x[m, k]", "x[m, k, k]"))
    assert main(["check", str(path)]) == 2
    assert "the formula cannot be evaluated: 'x' has 2 axes" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "source",
    [
        "unseen28/bert_attention_probs",  # a softmax of scores, heads behind the sequence
        "unseen28/cdist_turing_mma",  # three launches of a torch extension, the square of what the formula says
        "unseen28/covariance_tf32_ext",  # "same as torch.cov(x.T)", in tf32
        "unseen22/add_rmsnorm_qkv_gemm",  # an array that is updated, by a name of its own
        "unseen28/tc_correlator_fp16",  # pairs that are numbered, complex numbers
        "unseen28/wavenet_gated_conv1d",  # a name that another formula uses, and indices outside of the array
    ],
)
def test_sources_are_read_by_what_they_say(capsys, source):
    assert main(["check", str(SETS / f"{source}.cu")]) == 0
    assert "judged by what a comment says" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("line", "shapes", "formulas"),
    [
        ("// query, key  [batch, seq, 64] and mask [batch, seq]", {"query", "key", "mask"}, []),
        ("// x: (tokens, in), W: (out, in)", {"x", "W"}, []),
        ("// W is N x K", {"W"}, []),
        ("// A warp takes 16 rows; i = 0 .. 15", set(), []),
        ("// block = row window", set(), []),
        ("/* D = alpha * A * B^T + C, as BLAS has it */", set(), ["D = alpha * A * B^T + C"]),
        ("// per row: o_i = sum_j p_ij v_j   (p as above)", set(), ["o_i = sum_j p_ij v_j"]),
        ('const char* s = "// y = x @ w";', set(), []),
    ],
)
def test_comments_are_read(line, shapes, formulas):
    found = stated(f"{line}\n// D = A @ B\n", {"A", "B", "C", "D", "W", "o", "p", "v"}.__contains__)
    assert shapes <= found.shapes.keys()
    assert [one.statement.text for one in found.formulas] == [*formulas, "D = A @ B"]
