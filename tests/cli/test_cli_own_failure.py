"""A program that ends with a failure may lack a file, a second GPU or time: that makes no kernel wrong."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from wmmadiag.cli.check_program import ProgramCheck
from wmmadiag.cli.main import main
from wmmadiag.cli.own_failure import Silence, only_fails, opens_files, thrown_by_the_library
from wmmadiag.compile.options import CompileOptions
from wmmadiag.csource.tree import parse
from wmmadiag.gate.task import Task, TaskOutcome
from wmmadiag.programs.run import ProgramResult
from wmmadiag.programs.spec import ProgramSpec
from wmmadiag.results.model import CaseResult, KernelReport

# What its kernel computes nobody knows.
_SOURCE = """
#include <cstdio>
__global__ void scramble(unsigned* x, const unsigned* key, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (x[i] ^ key[i % 4]) * 2654435761u + i;
}
int main() {
    unsigned x[100], key[4] = {3, 5, 7, 9}, *dx, *dkey;
    for (int i = 0; i < 100; ++i) x[i] = i;
    cudaEvent_t from, to; cudaEventCreate(&from); cudaEventCreate(&to);
    cudaMalloc(&dx, sizeof x); cudaMalloc(&dkey, sizeof key);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dkey, key, sizeof key, cudaMemcpyHostToDevice);
    cudaEventRecord(from); scramble<<<2, 64>>>(dx, dkey, 100); cudaEventRecord(to);
    BEFORE
    cudaMemcpy(x, dx, sizeof x, cudaMemcpyDeviceToHost);
    AFTER
}
"""
_COMPARED = "for (unsigned i = 0; i < 100; ++i) if (x[i] != (i ^ key[i % 4]) * 2654435761u + i + 1) return 1; return 0;"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('if (__builtin_expect(key[0], 3)) { puts("no weights"); return 1; }', "return 0;", "before it had anything"),
        ("", "if (cudaSetDevice(1) != cudaSuccess) return 1; return 0;", "refused: invalid device ordinal"),
        ("", 'FILE* f = fopen("there/is.none", "rb"); if (!f) return 1; return x[0] == 0;', "it opens files"),
        ("", 'printf("%u\\n", x[0]); return 1;', "its main ends with no other status"),
        (
            "float ms; cudaEventSynchronize(to); cudaEventElapsedTime(&ms, from, to);",
            'puts(ms < 1e-9f ? "PASSED" : "FAILED: too slow"); return ms < 1e-9f ? 0 : 1;',
            "by how long its kernels take",
        ),
        (
            "",
            'double e = x[0] == 0 ? 5.5 : 1e-3; printf("max error %g: %s\\n", e, e < 1e-6 ? "PASSED" : "FAILED");'
            "return e < 1e-6 ? 0 : 1;",
            "the largest error that it names may be rounding",
        ),
    ],
)
def test_a_failure_that_is_about_no_kernel_makes_none_wrong(tmp_path, capsys, before, after, told):
    path = tmp_path / "k.cu"
    path.write_text(_SOURCE.replace("BEFORE", before).replace("AFTER", after))
    assert main(["check", str(path)]) in (2, 3)
    assert told in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "float ms; cudaEventElapsedTime(&ms, from, to);", "cudaSetDevice(1);"])
def test_a_comparison_that_fails_makes_its_kernel_wrong(tmp_path, capsys, before):
    path = tmp_path / "k.cu"
    path.write_text(_SOURCE.replace("BEFORE", before).replace("AFTER", _COMPARED))
    assert main(["check", str(path)]) == 1
    assert "WRONG: the program's own exit status says so" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("sure", "code"), [(True, 0), (False, 3)])
def test_a_kernel_that_is_right_stays_so_where_its_programs_failure_is_surely_about_another_thing(sure, code):
    task = Task(Path("k.cu"), None)
    case = CaseResult("default", "small", "passed", {})
    report = KernelReport("k", "k.cu", "k.cu", "gemm", "sm_90", "emulator", (), (case,), assumed=("it is a gemm",))
    made = ProgramCheck(task.path, ProgramResult(1, launches=3), silent=Silence("it opens files", sure))
    assert made.code_with(TaskOutcome(task, report)) == code
    assert made.code_with(TaskOutcome(task, error="nothing tells", code=2)) == 2


_TWO = """
#include <cstdio>
#include <mma.h>
using namespace nvcuda;
template <bool SQUARED> __global__ void wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    if (SQUARED) for (int i = 0; i < c.num_elements; ++i) c.x[i] = c.x[i] * c.x[i] - 1.0f;
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
int main() {
    const int M = 32, N = 32, K = 32;
    static half h[M * K]; static float o[M * N];
    for (int i = 0; i < M * K; ++i) h[i] = __float2half(float(i % 7 - 3));
    half *A, *B; float* C; cudaMalloc(&A, sizeof h); cudaMalloc(&B, sizeof h); cudaMalloc(&C, sizeof o);
    cudaMemcpy(A, h, sizeof h, cudaMemcpyHostToDevice); cudaMemcpy(B, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(C, 0, sizeof o); int bad = 0;
    for (int squared = 0; squared < 2; ++squared) {
        if (squared) wmma_gemm<true><<<dim3(2, 2), 32>>>(A, B, C, M, N, K);
        else wmma_gemm<false><<<dim3(2, 2), 32>>>(A, B, C, M, N, K);
        cudaMemcpy(o, C, sizeof o, cudaMemcpyDeviceToHost);
        bool right = squared == GOOD;
        for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) {
            float s = 0; for (int k = 0; k < K; ++k) s += __half2float(h[i * K + k]) * __half2float(h[k * N + j]);
            right = right && o[i * N + j] == (squared ? s * s - 1.0f : s);
        }
        puts(right ? "PASSED" : "FAILED"); bad += !right;
    }
    return bad != 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("good", "code"), [(1, 3), (0, 1)])
def test_an_instantiation_that_its_program_calls_right_is_not_blamed_for_another_one(tmp_path, capsys, good, code):
    path = tmp_path / "k.cu"
    path.write_text(_TWO.replace("GOOD", str(good)))
    assert main(["check", str(path), "--no-cache"]) == code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("int main() { if (f()) return 1; return 1; }", True),
        ("int main() { if (f()) return 1; return 0; }", False),
        ("int main() { if (f()) return 1; }", False),
        ("int main() { if (f()) exit(0); return EXIT_FAILURE; }", False),
        ("int main() { auto one = [] { return 0; }; one(); return 0x2; }", True),
        ("int main() { return bad; }", False),
        ("int f() { return 1; }", False),
    ],
)
def test_a_main_that_ends_with_one_status_alone_is_known(text, fails):
    assert only_fails(parse(text)) == fails


def test_what_opens_files_is_known_by_the_libraries_names():
    assert opens_files(parse('int main() { std::ifstream in("a"); }'))
    assert opens_files(parse('int main() { FILE* f = std::fopen("a", "r"); }'))
    assert not opens_files(parse('int main() { puts("fopen"); file.fopens(); }'))


@pytest.mark.parametrize(("what", "crashed"), [("std::bad_alloc", True), ("std::runtime_error", False)])
def test_an_exception_of_the_library_is_a_crash_of_host_code(what, crashed):
    output = f"terminate called after throwing an instance of '{what}'\n  what():  that\n"
    assert thrown_by_the_library(output) == crashed
    made = ProgramCheck(Path("k.cu"), ProgramResult(-signal.SIGABRT, launches=1, output=output))
    assert made.crashed == crashed and made.code == (0 if crashed else 1)


_OFTEN = """
#include <cstdio>
__global__ void scramble(const unsigned* x, const unsigned* key, unsigned* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[i] ^ key[i % 4]) * 2654435761u + i;
}
int main() {
    unsigned x[100], y[100], key[4] = {3, 5, 7, 9}, *dx, *dy, *dkey;
    for (int i = 0; i < 100; ++i) x[i] = i;
    cudaMalloc(&dx, sizeof x); cudaMalloc(&dy, sizeof y); cudaMalloc(&dkey, sizeof key);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice); cudaMemset(dy, 0, sizeof y);
    cudaMemcpy(dkey, key, sizeof key, cudaMemcpyHostToDevice);
    for (int i = 0; i < 20; ++i) scramble<<<2, 64>>>(dx, dkey, dy, 100);
    cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost);
    for (unsigned i = 0; i < 100; ++i) if (y[i] != (i ^ key[i % 4]) * 2654435761u + i) return 1;
    return 0;
}
"""


@pytest.mark.slow
def test_half_of_what_a_kernel_does_is_half_however_often_it_is_launched(tmp_path, capsys):
    path = tmp_path / "k.cu"
    path.write_text(_OFTEN)
    assert main(["check", str(path)]) == 0
    assert "ok by the program's own comparison" in " ".join(capsys.readouterr().out.split())


def test_a_run_that_is_cut_says_nothing_of_a_comparison(monkeypatch):
    from wmmadiag.cli.own_comparison import compares
    from wmmadiag.programs import run

    for cut in ("", "the program did not end within 30 s"):
        monkeypatch.setattr(
            run, "run_program", lambda *_, ended=cut, **__: ProgramResult(-9 if ended else 1, ended=ended)
        )
        own = ProgramResult(0, launches=1)
        spec = ProgramSpec(CompileOptions())
        assert compares(None, spec, "k", [], own, 30.0) == ((True, False) if not cut else (False, False))
