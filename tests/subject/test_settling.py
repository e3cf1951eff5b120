"""A guess makes no verdict: what a check of a source alone says of right and of wrong kernels."""

from __future__ import annotations

import re

import pytest

import wmmadiag

HEAD = "#include <mma.h>\n#include <cuda_fp16.h>\nusing namespace nvcuda;\n"
# One warp computes one 16×16 tile; TRANSPOSED says how B lies.
GEMM = (
    HEAD
    + """
__global__ void NAME(const half* A, const half* B, OUT* C, int M, int N, int K) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::LAYOUT_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, OUT> c;
  wmma::fill_fragment(c, OUT(0));
  const int row = blockIdx.y * 16, col = blockIdx.x * 16;
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + row * K + k, K);
    wmma::load_matrix_sync(b, FROM, LDB);
    wmma::mma_sync(c, a, b, c);
  }
  EPILOGUE
  wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
"""
)
ROWS = {"LAYOUT": "row", "FROM": "B + k * N + col", "LDB": "N", "OUT": "float", "EPILOGUE": "", "NAME": "gemm"}
COLUMNS = {**ROWS, "LAYOUT": "col", "FROM": "B + col * K + k", "LDB": "K"}
LAUNCH = """
void run(half* a, half* b, OUT* c, int m, int n, int k) { NAME<<<dim3(n / 16, m / 16), 32>>>(a, b, c, m, n, k); }
"""
RELU = "for (int i = 0; i < c.num_elements; i++) c.x[i] = c.x[i] > 0.f ? c.x[i] : 0.f;"
SQUARED = "for (int i = 0; i < c.num_elements; i++) c.x[i] = c.x[i] * c.x[i];"


def checked(tmp_path, parts, text=GEMM + LAUNCH, **options):
    for name, part in parts.items():
        text = text.replace(name, part)
    path = tmp_path / "k.cu"
    path.write_text(text)
    return wmmadiag.check(path, **options)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (ROWS, ""),
        (COLUMNS, "B stored as N×K"),
        ({**COLUMNS, "EPILOGUE": RELU}, "the activation is relu"),
        ({**ROWS, "OUT": "half"}, ""),
        ({**ROWS, "NAME": "tiles"}, ""),
    ],
    ids=["rows", "columns", "activation", "sums in half", "no telling name"],
)
def test_a_right_kernel_is_right_under_the_reading_that_fits(tmp_path, parts, named):
    report = checked(tmp_path, parts)
    assert report.exit_code == 0, [case.problem for case in report.cases]
    assert named in " ".join(report.assumed)


@pytest.mark.parametrize("parts", [COLUMNS, {**ROWS, "EPILOGUE": RELU}])
def test_a_diagnosis_takes_the_reading_that_fits_as_a_check_does(tmp_path, parts):
    checked(tmp_path, parts)
    assert wmmadiag.diagnosis(tmp_path / "k.cu").outcome == "right"


def test_a_diagnosis_of_a_wrong_kernel_assumes_the_reading_that_most_elements_are_near_with(tmp_path):
    late = {**COLUMNS, "EPILOGUE": "if (blockIdx.x == 1) wmma::fill_fragment(c, 0.0f);"}
    checked(tmp_path, late)
    found = wmmadiag.diagnosis(tmp_path / "k.cu")
    assert [cause.verdict for cause in found.causes] == ["likely"]
    assert any("B stored as N×K" in one and "are near" in one for one in found.assumed)


def test_a_kernel_of_something_else_is_undecided_and_the_question_asked(tmp_path):
    report = checked(tmp_path, {**ROWS, "EPILOGUE": SQUARED})
    assert report.exit_code == 3
    problem = report.cases[0].problem
    assert "readings of gemm" in problem.message and "--computes gemm" in problem.hint


def test_a_fault_that_decides_nothing_is_kept_and_asked_about(tmp_path):
    report = checked(tmp_path, {**ROWS, "LDB": "K"})
    assert report.exit_code == 3
    case = next(one for one in report.cases if one.status == "undecided")
    assert "out of bounds" in case.problem.message and "--computes gemm" in case.problem.hint
    assert any("readings of gemm" in note for note in case.notes)


def test_where_nothing_is_guessed_that_matters_a_wrong_kernel_is_wrong(tmp_path):
    report = checked(tmp_path, {**ROWS, "EPILOGUE": SQUARED}, computes="gemm")
    assert report.exit_code == 1
    assert any("the reading that its names tell: none of" in one for one in report.assumed)


def test_a_kernel_that_dies_at_invented_sizes_is_undecided(tmp_path):
    text = GEMM.replace("const int row", "if (K < 4096) __trap(); const int row") + LAUNCH
    report = checked(tmp_path, ROWS, text, computes="gemm")
    assert report.exit_code == 3
    assert "--symbol" in report.cases[0].problem.hint or "sizes" in " ".join(report.cases[0].notes)


LARGE = "if (K % 256 != 0 || N % 256 != 0) return; const int row"


def test_larger_sizes_are_tried_where_small_ones_fail(tmp_path):
    report = checked(tmp_path, ROWS, GEMM.replace("const int row", LARGE) + LAUNCH)
    assert report.exit_code == 0 and "multiples of 256" in " ".join(report.assumed)


SOFT = (
    HEAD
    + """
__global__ void softmax_rows(const float* x, float* y, int rows, int cols) {
  int row = blockIdx.x * 64 + threadIdx.x;
  GUARD
  float top = -1e30f, sum = 0.f;
  for (int i = 0; i < cols; i++) top = fmaxf(top, x[row * cols + i]);
  for (int i = 0; i < cols; i++) sum += expf(x[row * cols + i] - top);
  for (int i = 0; i < cols; i++) y[row * cols + i] = expf(x[row * cols + i] - top) / sum;
}
void run(float* x, float* y, int rows, int cols) { softmax_rows<<<(rows + 63) / 64, 64>>>(x, y, rows, cols); }
"""
)


def test_ragged_sizes_are_tried_where_the_kernel_guards_them(tmp_path):
    report = checked(tmp_path, {"GUARD": "if (row >= rows) return;"}, SOFT)
    assert report.exit_code == 0 and [case.case for case in report.cases][-1] == "tail"
    assert "tail" not in [case.case for case in checked(tmp_path, {"GUARD": ""}, SOFT).cases]


def test_a_store_outside_an_array_at_sizes_that_the_guards_admit_is_wrong(tmp_path):
    report = checked(tmp_path, {"GUARD": "if (row >= rows) { y[row * cols] = 0.f; return; }"}, SOFT)
    assert report.exit_code == 1
    assert [case.case for case in report.cases if case.status == "failed"] == ["tail"]


ROW_OF_A_BLOCK = """\
__global__ void softmax_rows(const float* x, float* y, int M, int N) {
  __shared__ float held[128];
  const int row = blockIdx.x, lane = threadIdx.x;
  if (lane >= N) { held[lane] = 0.0f; return; }
  float sum = 0.0f;
  for (int c = lane; c < N; c += 128) sum += expf(x[row * N + c]);
  held[lane] = sum;
  BARRIER
  sum = 0.0f;
  for (int i = 0; i < 128 && i < N; ++i) sum += held[i];
  for (int c = lane; c < N; c += 128) y[row * N + c] = expf(x[row * N + c]) / sum;
}
void softmax(const float* x, float* y, int M, int N) { softmax_rows<<<M, 128>>>(x, y, M, N); }
int main() { float *x = nullptr, *y = nullptr; softmax(x, y, 64, 50257); return 0; }
"""


def rows_checked(tmp_path, barrier, **options):
    path = tmp_path / "k.cu"
    path.write_text(ROW_OF_A_BLOCK.replace("BARRIER", barrier))
    return wmmadiag.check(path, computes="softmax", **options)


def test_what_is_found_at_sizes_that_nobody_said_alone_is_asked(tmp_path):
    report = rows_checked(tmp_path, "__syncthreads();")
    assert report.status == "undecided"
    asked = next(case.problem for case in report.cases if case.status == "undecided")
    yes, _, no = asked.hint.partition("; if not, ")
    for text, status in ((yes, "failed"), (no, "passed")):
        symbols = dict(one.split("=") for one in re.findall(r"--symbol (\S+)", text))
        assert {*symbols} == {"M", "N"}
        assert rows_checked(tmp_path, "__syncthreads();", symbols=symbols).status == status


def test_what_is_found_at_all_sizes_is_wrong(tmp_path):
    report = rows_checked(tmp_path, "if (lane < 128 - 8) __syncthreads(); else __syncthreads();")
    assert report.status == "failed"


SCALED = "for (int i = 0; i < c.num_elements; i++) c.x[i] *= scale[1];"
SETS = "void prepare(const float* by) { cudaMemcpyToSymbol(scale, by, sizeof scale); }\n"


@pytest.mark.parametrize(
    ("declared", "host", "code"),
    [
        ("__constant__ float scale[2];", SETS, 3),
        ("__constant__ float scale[2];", "", 3),
        ("__device__ float scale[2];", SETS, 3),
        ("__device__ float scale[2];", "", 1),
        ("__constant__ float scale[2] = {1, 2};", "", 1),
        ("__constant__ float scale[2] = {2, 1};", SETS, 0),
    ],
)
def test_what_the_host_sets_and_no_argument_holds_makes_no_kernel_wrong(tmp_path, declared, host, code):
    text = GEMM.replace("__global__", f"{declared}\n__global__", 1) + host + LAUNCH
    report = checked(tmp_path, {**ROWS, "EPILOGUE": SCALED}, text, computes="gemm")
    assert report.exit_code == code, [case.problem for case in report.cases]
    problem = report.cases[0].problem
    assert (problem is not None and problem.message.startswith("scale holds what the source gives at first")) == (
        code == 3
    )


def test_a_diagnosis_names_what_the_host_sets(tmp_path):
    text = GEMM.replace("__global__", "__constant__ float scale[2];\n__global__", 1) + SETS + LAUNCH
    checked(tmp_path, {**ROWS, "EPILOGUE": SCALED}, text)
    found = wmmadiag.diagnosis(tmp_path / "k.cu", computes="gemm")
    assert any("scale holds what the source gives at first" in one for one in found.assumed)
    assert "proven" not in {cause.verdict for cause in found.causes}


@pytest.mark.parametrize("flag", ["int relu", "bool use_relu"])
def test_a_flag_called_as_what_it_switches_on_is_on(tmp_path, flag):
    text = GEMM.replace("int K)", f"int K, {flag})") + LAUNCH.replace("int k)", f"int k, {flag})").replace(
        "n, k);", "n, k, X);"
    )
    parts = {**ROWS, "EPILOGUE": f"if ({flag.split()[1]}) {RELU}", "X": flag.split()[1]}
    report = checked(tmp_path, parts, text)
    assert report.status == "passed" and any("relu" in one for one in report.assumed)
    # Of what another value of it would mean, nobody can say that it is wrong.
    other = f"if ({flag.split()[1]} != 1) {{ {RELU} }} else {{ {SQUARED} }}"
    report = checked(tmp_path, {**parts, "EPILOGUE": other}, text, computes="gemm")
    assert report.status == "undecided" and flag.split()[1] in report.cases[0].problem.message
