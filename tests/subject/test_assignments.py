"""Arguments whose names tell nothing: every meaning is tried, and one under which the kernel is right is taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_kernels import RIGHT

from wmmadiag.api import check
from wmmadiag.cli.main import main
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.drafts.assignments import _told_apart, reassignments
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.kernel import read_kernel
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

NAMES = {"A": "p0", "B": "p1", "C": "p2", "M": "n0", "N": "n1", "K": "n2", "gemm": "work"}


def renamed(text, names=None):
    for old, new in (names or NAMES).items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def written(tmp_path, text):
    path = tmp_path / "work.cu"
    path.write_text(text)
    return path


def test_a_kernel_whose_names_tell_nothing_is_recognised_by_what_it_computes(tmp_path):
    report = check(written(tmp_path, renamed(RIGHT)))
    assert report.status == "passed"
    (said,) = [one for one in report.assumed if "which is what the result fits" in one]
    assert "taken as gemm, p0 is a, p1 is b, p2 is d, n0 is M, n1 is N, n2 is K" in said


def test_a_wrong_one_is_asked_about_not_taken_for_something_else(tmp_path):
    with pytest.raises(ConfigurationError, match="what should the kernel compute"):
        check(written(tmp_path, renamed(RIGHT.replace("0.0f", "1.0f"))))


ONES = {"M": "up", "N": "wide", "K": "tokens"}


@pytest.mark.slow
def test_the_meaning_by_which_alone_a_wrong_kernel_runs_is_asked_about(tmp_path):
    path = written(tmp_path, renamed(RIGHT.replace("0.0f", "1.0f"), ONES))
    report = check(path)
    assert report.exit_code == 3
    told = report.cases[0].problem
    assert "up is M, wide is N, tokens is K: with nothing else it runs to its end" in told.message
    assert f"wmmadiag init {path} --computes gemm" in told.hint
    assert main(["init", str(path), "--computes", "gemm"]) == 0  # the next step leads to the verdict
    assert check(path.with_suffix(".toml")).exit_code == 1


def test_where_a_wrong_kernel_runs_by_several_meanings_none_is_taken(tmp_path):
    path = written(tmp_path, renamed(RIGHT.replace("(a, A + r * K + k, K)", "(a, A + k, K)"), ONES))
    with pytest.raises(ConfigurationError, match="the value of 'wide'"):
        check(path)


def test_extents_are_told_apart_by_cases_that_are_no_squares(tmp_path):
    turned = RIGHT.replace("(a, A + r * K + k, K)", "(a, A + k * M + r, M)").replace(
        "matrix_a, 16, 16, 16, half, wmma::row_major", "matrix_a, 16, 16, 16, half, wmma::col_major"
    )
    report = check(written(tmp_path, renamed(turned, {"M": "up", "N": "wide", "K": "tokens"})), computes="gemm")
    assert report.status == "passed"
    assert any("up is M, wide is N, tokens is K" in one for one in report.assumed)


def test_names_that_tell_are_not_tried_otherwise(tmp_path):
    swapped = RIGHT.replace("int M, int N, int K)\n", "int N, int M, int K)\n")  # the launch still passes M, N, K
    card = open_subject(written(tmp_path, swapped), SubjectOptions(computes="gemm"))
    assert not any("which is what the result fits" in one for one in card.assumed)


def test_coarser_arithmetic_is_taken_only_where_the_code_has_it(tmp_path):
    report = check(written(tmp_path, RIGHT.replace("0.0f", "0.5f")), computes="gemm")
    assert report.status == "failed"  # near, and right if sums were kept in f16: they are not


def test_a_part_that_the_name_promises_is_not_left_out(tmp_path):
    with pytest.raises(ConfigurationError) as raised:
        check(written(tmp_path, RIGHT.replace("gemm", "gemm_gelu")))
    assert "its name has 'gelu'" in raised.value.detail


ROWS_NAMED_N = """\
__global__ void softmax_rows(float* out, const float* inp, int N, int C) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= N) return;
  float most = -INFINITY, sum = 0.0f;
  for (int c = 0; c < C; c++) most = fmaxf(most, inp[row * C + c]);
  for (int c = 0; c < C; c++) sum += expf(inp[row * C + c] - most);
  for (int c = 0; c < C; c++) out[row * C + c] = expf(inp[row * C + c] - most) / sum;
}
void softmax_forward(float* out, const float* inp, int N, int C) {
  softmax_rows<<<(N + 31) / 32, 32>>>(out, inp, N, C);
}
"""


def test_two_numbers_whose_names_say_one_extent_are_told_apart_by_a_run(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(ROWS_NAMED_N)
    report = check(path)
    assert report.status == "passed"
    assert any("N is M, C is N" in one for one in report.assumed)
    assert any(case.symbols["M"] != case.symbols["N"] for case in report.cases)


@pytest.mark.parametrize(
    ("old", "new"),
    [("expf(inp[row * C + c] - most) / sum", "expf(inp[row * C + c]) / sum"), ("out[row * C", "out[row * N")],
)
def test_a_wrong_kernel_with_such_numbers_is_asked_about(tmp_path, old, new):
    path = tmp_path / "k.cu"
    path.write_text(ROWS_NAMED_N.replace(old, new))
    assert path.read_text() != ROWS_NAMED_N
    with pytest.raises(ConfigurationError, match=r"which of .N. or .C. is N") as asked:
        check(path)
    assert "its name says the same as another's" in asked.value.detail


def test_two_numbers_that_would_be_one_length_are_those_of_queries_and_of_keys():
    found = list(_told_apart(("B", "S", "H", "S"), "attention"))
    assert found == [["B", "Sq", "H", "Skv"], ["B", "Skv", "H", "Sq"]]
    assert list(_told_apart(("B", "H", "S"), "attention")) == [("B", "H", "S")]
    assert list(_told_apart(("M", "M", "K"), "gemm")) == [("M", "M", "K")]


@pytest.mark.parametrize("name", ["w", "w1"])
@pytest.mark.corpus
def test_one_array_may_hold_two_inputs_whose_name_tells_of_none_or_of_one(tmp_path, name):
    source = Path(__file__).parents[1] / "reading" / "unseen15" / "swiglu_interleaved_ffn.cu"
    code = re.sub(r"//[^\n]*", "", source.read_text())  # a comment's formula would judge it
    (tmp_path / "k.cu").write_text(code.replace("w_gate_up", name))
    report = check(tmp_path / "k.cu")
    assert report.exit_code == 0
    assert f"{name} is gate_up" in " ".join(report.assumed)


def test_an_array_whose_name_is_made_of_another_is_of_that_one():
    path = Path(__file__).parents[1] / "reading" / "unseen17" / "cosine_similarity_matrix.cu"
    report = check(path, entry="cosine_kernel")
    assert report.status == "passed"
    assert "inv_x is scale_a, inv_y is scale_b, sim is d, n is M, m is N" in " ".join(report.assumed)


@pytest.mark.corpus
def test_an_operation_without_a_name_for_its_matrices_gets_none(capsys):
    path = Path(__file__).parents[1] / "reading" / "unseen2" / "attention_1_2_3.cu"
    assert main(["check", str(path)]) == 0, capsys.readouterr().err


HEADS_OF_KEYS = """
__global__ void attn(const half* q, const half* k, const half* v, half* o, int heads, int heads_kv, int sq, int sk) {
  wmma::mma_sync(acc, a, b, acc);
  o[0] = __float2half(__expf(acc.x[0]));
}
torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  const int batch = q.size(0), sq = q.size(1), heads = q.size(2);
  TORCH_CHECK(q.dim() == 4 && q.size(3) == 64 && k.dim() == 4);
  auto o = torch::empty_like(q);
  attn<<<dim3(sq / 64, heads, batch), 128>>>((half*)q.data_ptr(), (half*)k.data_ptr(), (half*)v.data_ptr(),
                                             (half*)o.data_ptr(), heads, (int)k.size(2), sq, (int)k.size(1));
  return o;
}
"""


def test_what_is_read_off_a_tensor_that_lies_so_is_no_other_extent(tmp_path):
    """Of `heads_kv` no name tells, but k's third axis is that of heads, as q's is: it is not as many as queries."""
    kernel = read_kernel(GivenSource(written(tmp_path, HEADS_OF_KEYS), SubjectOptions()))
    drafted = draft(kernel, "attention")
    assert {one.parameter.name: one.value for one in drafted.arguments}["heads_kv"] == "Hkv"
    assert "storage" in drafted.stated
    assert list(reassignments(kernel, drafted)) == []
