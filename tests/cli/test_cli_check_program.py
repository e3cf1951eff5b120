"""What a source's own main says of its kernels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from wmmadiag.cli import check_program
from wmmadiag.cli.check_program import ProgramCheck, _has_its_numbers
from wmmadiag.cli.main import main
from wmmadiag.cli.program_words import lines
from wmmadiag.gate.task import Task, TaskOutcome
from wmmadiag.programs.cards import has_main
from wmmadiag.programs.run import ProgramFinding, ProgramResult
from wmmadiag.results.model import CaseResult, KernelReport, ReportedFinding


@pytest.mark.parametrize(
    ("status", "launches", "code", "passed"), [(1, 0, 0, False), (1, 3, 1, False), (0, 3, 0, True)]
)
def test_a_program_that_launches_nothing_says_nothing_of_its_kernels(status, launches, code, passed):
    made = ProgramCheck(Path("k.cu"), ProgramResult(status, launches=launches))
    assert (made.code, made.passed) == (code, passed)


@pytest.mark.parametrize(
    ("check", "status", "ended", "code"),
    [("uninitialised", 0, "", 0), ("uninitialised", -9, "it took too long", 0), ("uninitialised", -11, "", 1),
     ("races", 0, "", 1)],
)  # fmt: skip
def test_arrays_that_a_main_never_fills_make_no_right_kernel_wrong(check, status, ended, code):
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    right = TaskOutcome(task, KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,)))
    found = ProgramFinding(ReportedFinding(check, "read", "error", "da is read, which nothing has written"), 1)
    made = ProgramCheck(task.path, ProgramResult(status, [found], launches=1, ended=ended))
    assert made.code == 1
    assert made.code_with(right) == code
    assert made.code_with(TaskOutcome(task, error="nothing tells", code=2)) == 1


@pytest.mark.parametrize(("ended", "told"), [("it took too long", "did not come to its end"), ("", "code crashed")])
def test_a_program_that_was_ended_did_not_crash(ended, told):
    made = ProgramCheck(Path("k.cu"), ProgramResult(-9, launches=1, ended=ended))
    said = lines(made, TaskOutcome(Task(made.path, None), error="nothing tells", code=2), verbose=False)
    assert any(told in line for line in said)


def test_a_comparison_that_fails_makes_no_right_kernel_wrong():
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    right = TaskOutcome(task, KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,)))
    made = ProgramCheck(task.path, ProgramResult(1, launches=3))
    assert made.code_with(right) == 0
    assert made.code_with(TaskOutcome(task, error="nothing tells", code=2)) == 1


@pytest.mark.parametrize(("guesses", "code"), [((), 0), (("it is a gemm",), 3)])
def test_what_was_guessed_does_not_outweigh_a_comparison(guesses, code):
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    right = TaskOutcome(
        task, KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,), assumed=guesses)
    )
    made = ProgramCheck(task.path, ProgramResult(1, launches=3))
    assert made.code_with(right) == code
    assert any("--computes" in line for line in lines(made, right, verbose=False)) == bool(code)


@pytest.mark.parametrize(("launched", "code"), [("k<true>", 1), ("k< 64 >", 3)])
def test_a_comparison_speaks_of_instantiations_that_give_other_numbers(launched, code):
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    report = KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,), assumed=("it is a gemm",))
    right = TaskOutcome(task, report, apart=("k<true>", "k<32>"))
    made = ProgramCheck(
        task.path, ProgramResult(1, launches=2, captured=[{"kernel": "k<false>"}, {"kernel": launched}])
    )
    assert made.code_with(right) == code
    assert any("k<true> is not right as gemm" in line for line in lines(made, right, verbose=False)) == (code == 1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("auto main(int argc, char** argv) -> int { return 0; }", True),
        ("static void domain(int x) {}\n#define F(x) int main(x)\n// int main()\nint main(int);", False),
        ("namespace a { int main() { return 0; } }", False),
        ("int\nmain(void)\n{\n}\n", True),
    ],
)
def test_a_main_is_found_on_the_tree(tmp_path, text, found):
    path = tmp_path / "k.cu"
    path.write_text(text)
    assert has_main(path) == found


SOURCE = """
#include <cstdio>
__global__ void scramble(unsigned* x, const unsigned* key, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (x[i] ^ key[i % 4]) * 2654435761u + i;
}
int main() {
    unsigned x[100], key[4] = {3, 5, 7, 9}, *dx, *dkey;
    for (int i = 0; i < 100; ++i) x[i] = i;
    cudaMalloc(&dx, sizeof x); cudaMalloc(&dkey, sizeof key);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dkey, key, sizeof key, cudaMemcpyHostToDevice);
    scramble<<<2, 64>>>(dx, dkey, 100);
    cudaMemcpy(x, dx, sizeof x, cudaMemcpyDeviceToHost);
    for (unsigned i = 0; i < 100; ++i)
        if (x[i] != (i ^ key[i % 4]) * 2654435761u + i) { printf("x[%u] = %u\\n", i, x[i]); STATUS; }
    return 0;
}
"""


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        ("return 1", 0, "ok by the program's own comparison"),
        ("break", 3, "its exit status is 0 where its kernels do"),
        ('{ printf("FAILED\\n"); break; }', 0, "ok by the program's own comparison"),
    ],
)
@pytest.mark.slow
def test_a_program_is_right_only_if_it_would_say_otherwise(tmp_path, capsys, status, code, told):
    (tmp_path / "scramble.cu").write_text(SOURCE.replace("STATUS", status))
    assert main(["check", str(tmp_path / "scramble.cu")]) == code
    assert told in capsys.readouterr().out


@pytest.mark.slow
def test_a_kernel_that_its_program_calls_as_a_function_is_no_wrong_one(tmp_path, capsys):
    path = tmp_path / "scramble.cu"
    path.write_text(SOURCE.replace("STATUS", "return 1").replace("return 0;", "scramble(dx, dkey, 100); return 0;"))
    assert main(["check", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "warning [launch]" in told and "a kernel is called as a function is" in told


@pytest.mark.slow
def test_a_program_that_prints_a_word_for_wrong_makes_no_kernel_right(tmp_path, capsys):
    path = tmp_path / "scramble.cu"
    path.write_text(SOURCE.replace("STATUS", 'printf("FAILED\\n"); break').replace("+ i;\n}", "+ 2 * i;\n}"))
    assert main(["check", str(path)]) == 3
    assert "its exit status is 0, and it prints that something is wrong" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_program_that_chooses_the_word_for_wrong_makes_a_kernel_wrong(tmp_path, capsys):
    path = tmp_path / "scramble.cu"
    path.write_text(
        SOURCE.replace("printf(", "// printf(").replace("STATUS; }", "\n bad++; }").replace("+ i;\n}", "+ 2 * i;\n}")
        .replace("unsigned x[100]", "int bad = 0; unsigned x[100]")
        .replace("return 0;", 'printf("%s\\n", bad ? "FAILED" : "PASSED"); return 0;')
    )  # fmt: skip
    assert main(["check", str(path)]) == 1
    assert "WRONG: the program's own words say so" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize(("status", "launched", "clears"), [(0, "k2<4>", True), (0, "k1", False), (1, "k2", False)])
def test_a_program_clears_a_kernel_that_it_launches_and_finds_no_fault_with(status, launched, clears):
    result = ProgramResult(status, launches=1, captured=[{"kernel": launched}])
    assert ProgramCheck(Path("k.cu"), result).clears("k2") is clears


def test_a_program_that_looks_at_a_part_of_the_result_makes_no_kernel_right(tmp_path, capsys):
    path = tmp_path / "scramble.cu"
    path.write_text(SOURCE.replace("STATUS", "return 1").replace("unsigned i = 0; i < 100", "unsigned i = 0; i < 10"))
    assert main(["check", str(path)]) == 3
    assert "its exit status is 0 where its kernels do half of what they do, too" in capsys.readouterr().out


def test_of_a_program_that_launched_nothing_the_question_of_the_source_is_shown(tmp_path, capsys):
    path = tmp_path / "k.cu"
    path.write_text(
        "#include <cuda_runtime.h>\n"
        "__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "  for (int k = 0; k < K; ++k) C[blockIdx.x * N + threadIdx.x] -= A[blockIdx.x * K + k] * B[k * N]; }\n"
        "void never(const float* A, const float* B, float* C, int M, int N, int K) {\n"
        "  gemm<<<M, 64>>>(A, B, C, M, N, K); }\n"
        "int main(int argc, char** argv) { if (argc > 1) never(0, 0, 0, 1, 1, 1); return 0; }\n"
    )
    assert main(["check", str(path)]) == 3
    told = capsys.readouterr().out
    assert "it launches no kernel" in told and "next: say it with --computes" in " ".join(told.split())


def test_a_long_main_is_left_sooner_where_the_kernel_is_right_without_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check_program, "SECONDS", 2.5)
    path = tmp_path / "k.cu"
    path.write_text("""
#include <unistd.h>
__global__ void transpose(const float* in, float* out, int rows, int cols) {
    int r = blockIdx.x, c = threadIdx.x;
    out[c * rows + r] = in[r * cols + c];
}
void run(const float* in, float* out, int rows, int cols) { transpose<<<rows, cols>>>(in, out, rows, cols); }
int main() { sleep(60); return 0; }
""")
    assert main(["check", str(path)]) == 0
    assert "did not end within 1 s" in capsys.readouterr().out


def test_the_run_of_a_main_is_told_once_of_several_kernels(tmp_path, capsys):
    path = tmp_path / "k.cu"
    path.write_text("""
__global__ void transpose(const float* in, float* out, int rows, int cols) {
    out[threadIdx.x * rows + blockIdx.x] = in[blockIdx.x * cols + threadIdx.x];
}
__global__ void transpose_back(const float* in, float* out, int rows, int cols) {
    out[threadIdx.x * rows + blockIdx.x] = in[blockIdx.x * cols + threadIdx.x];
}
void run(const float* in, float* out, int rows, int cols) { transpose<<<rows, cols>>>(in, out, rows, cols); }
void back(const float* in, float* out, int rows, int cols) { transpose_back<<<rows, cols>>>(in, out, rows, cols); }
int main() { return 0; }
""")
    assert main(["check", str(path)]) == 0
    told = capsys.readouterr().out
    assert "2 ok" in told and told.count("the program itself") == 1


SCALED = """
#include <cmath>
#include <cstdio>
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__constant__ float scale;
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    for (int i = 0; i < c.num_elements; ++i) c.x[i] *= scale;
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
__global__ void fill(half* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = __float2half(i % 7 - 3);
}
int main() {
    const int M = 32, N = 48, K = 64;
    static half a[M * K], b[K * N];
    static float c[M * N];
    half *A, *B;
    float *C, by = 1.5f;
    cudaMalloc(&A, sizeof a); cudaMalloc(&B, sizeof b); cudaMalloc(&C, sizeof c);
    cudaMemset(A, 0, sizeof a); cudaMemset(B, 0, sizeof b); cudaMemset(C, 0, sizeof c);
    cudaMemcpyToSymbol(scale, &by, sizeof by);
    fill<<<M * K / 256, 256>>>(A, M * K);
    fill<<<K * N / 256, 256>>>(B, K * N);
    gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K);
    cudaMemcpy(a, A, sizeof a, cudaMemcpyDeviceToHost);
    cudaMemcpy(b, B, sizeof b, cudaMemcpyDeviceToHost);
    cudaMemcpy(c, C, sizeof c, cudaMemcpyDeviceToHost);
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += __half2float(a[m * K + k]) * __half2float(b[k * N + n]);
            if (std::fabs(c[m * N + n] - by * sum) > 1e-3f) return puts("FAILED"), 1;
        }
    return puts("PASSED"), 0;
}
"""


@pytest.mark.parametrize(("said", "code"), [("gem", 2), ("gemm", 0)])
def test_what_is_said_wrongly_of_a_kernel_is_an_error_whatever_its_main_says(tmp_path, capsys, said, code):
    path = tmp_path / "plain.cu"
    path.write_text(SCALED.replace("c.x[i] *= scale", "c.x[i] *= 1.5f / 1.5f").replace("by = 1.5f", "by = 1"))
    assert main(["check", str(path), "--computes", said]) == code
    assert ("unknown operation" in capsys.readouterr().err) == (code == 2)


@pytest.mark.parametrize(
    "end", ['return puts(right ? "FAILED" : "PASSED"), 0;', "return right;", 'if (right) puts("FAILED"); return right;']
)
def test_a_comparison_that_is_the_wrong_way_round_makes_no_right_kernel_wrong(tmp_path, capsys, end):
    path = tmp_path / "turned.cu"
    path.write_text(
        "#include <cstdio>\n__global__ void twice(const float* x, float* y) "
        "{ y[threadIdx.x] = 2.0f * x[threadIdx.x] + 1.0f; }\n"
        "int main() { float h[32], o[32]; for (int i = 0; i < 32; ++i) h[i] = i; float *x, *y;\n"
        "cudaMalloc(&x, 128); cudaMalloc(&y, 128); cudaMemset(y, 0, 128);\n"
        "cudaMemcpy(x, h, 128, cudaMemcpyHostToDevice);\n"
        "twice<<<1, 32>>>(x, y); cudaMemcpy(o, y, 128, cudaMemcpyDeviceToHost); bool right = true;\n"
        f"for (int i = 0; i < 32; ++i) right = right && o[i] == 2.0f * i + 1.0f;\n{end} }}\n",
        "utf-8",
    )
    assert main(["check", str(path)]) == 3
    assert "no more where its kernels do nothing" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("there", "code"), [("1.5f", 0), ("1.25f", 1)])
def test_a_kernel_over_memory_that_its_main_sets_is_judged_by_its_main(tmp_path, capsys, there, code):
    path = tmp_path / "scaled.cu"
    path.write_text(SCALED.replace("c.x[i] *= scale", f"c.x[i] *= scale * ({there} / 1.5f)"))
    assert main(["check", str(path)]) == code
    said = capsys.readouterr().out
    assert "WRONG as gemm" not in said
    if not code:  # without any of its kernels it would compare nought with nought
        assert "ok by the program's own comparison, which fails where this kernel does nothing" in said


def test_what_is_wrong_with_another_number_is_not_said_of_a_launch():
    def outcome(**symbols):
        cases = [
            SimpleNamespace(status="passed", symbols={"alpha": 1.0}),
            SimpleNamespace(status="failed", symbols=symbols),
        ]
        return SimpleNamespace(report=SimpleNamespace(cases=cases))

    launch = {"arguments": [{"name": "alpha", "value": 1.0}, {"name": "n", "value": 64}, {"name": "a"}]}
    assert not _has_its_numbers(outcome(alpha=2.0), launch)
    assert _has_its_numbers(outcome(alpha=1.0, n=32), launch)
    assert _has_its_numbers(outcome(N=64), launch)  # of the case alone
    assert _has_its_numbers(SimpleNamespace(report=None), launch)


FOR_ONE_NUMBER = """
#include <cuda_fp16.h>
#include <cstdio>
template <bool SCALE>
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K, float alpha) {
  int m = blockIdx.y, n = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += __half2float(A[m * K + k]) * __half2float(B[k * N + n]);
  C[m * N + n] = SCALE ? alpha * sum : sum;
}
void gemm_cpu(const half* A, const half* B, float* C, int M, int N, int K, float alpha) {
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0.0f;
      for (int k = 0; k < K; ++k) sum += __half2float(A[i * K + k]) * __half2float(B[k * N + j]);
      C[i * N + j] = alpha * sum;
    }
}
int main() {
  const int M = 32, N = 32, K = 32;
  static half a[M * K], b[K * N];
  static float c[M * N], r[M * N];
  for (int i = 0; i < M * K; ++i) a[i] = __float2half(i % 17 / 8.0f), b[i] = __float2half(i % 13 / 8.0f);
  half *A, *B; float* C;
  cudaMalloc(&A, sizeof a); cudaMalloc(&B, sizeof b); cudaMalloc(&C, sizeof c);
  cudaMemcpy(A, a, sizeof a, cudaMemcpyHostToDevice);
  cudaMemcpy(B, b, sizeof b, cudaMemcpyHostToDevice);
  for (float alpha : {ALPHA}) {
  if (alpha == ONE) gemm<false><<<dim3(N / 16, M), 16>>>(A, B, C, M, N, K, alpha);
  else gemm<true><<<dim3(N / 16, M), 16>>>(A, B, C, M, N, K, alpha);
  cudaMemcpy(c, C, sizeof c, cudaMemcpyDeviceToHost);
  gemm_cpu(a, b, r, M, N, K, alpha);
  for (int i = 0; i < M * N; ++i) if (c[i] != r[i]) { printf("FAIL\\n"); return 1; }
  }
  printf("PASS\\n");
}
"""


@pytest.mark.parametrize(
    ("alpha", "one", "options", "code"),
    [
        ("1.0f", "1.0f", (), 3),
        ("1.0f, 2.0f", "1.0f", (), 3),  # with 2 another instantiation is launched
        ("1.0f", "1.0f", ("--entry", "gemm<false>", "--computes", "gemm"), 1),  # somebody says that it is for all
        ("2.0f", "2.0f", (), 1),  # launched with the number that it is wrong with
    ],
)
@pytest.mark.slow
def test_an_instantiation_that_its_main_launches_for_one_number_is_not_wrong_for_others(
    tmp_path, capsys, alpha, one, options, code
):
    path = tmp_path / "gemm.cu"
    path.write_text(FOR_ONE_NUMBER.replace("ALPHA", alpha).replace("ONE", one))
    assert main(["check", str(path), *options]) == code
    assert ("never launches it with" in " ".join(capsys.readouterr().out.split())) == (code == 3)
