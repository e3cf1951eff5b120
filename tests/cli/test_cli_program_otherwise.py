"""A program that picks its kernel by a number on the command line, and one that is too large for a CPU."""

from __future__ import annotations

import zlib

import pytest

from wmmadiag.cli.main import main
from wmmadiag.hostcode.program import read_program
from wmmadiag.programs.smaller import smaller
from wmmadiag.subject.drafts.host_read import HostRead

SOURCE = """\
#include <cstdio>
#include <cstdlib>
__global__ void first(int* out, const int* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = 0; for (int j = 0; j < n; ++j) out[i] += in[j] * (i ^ j); }
}
__global__ void turned(int* out, const int* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[n - 1 - i];
}
__global__ void turned_back(int* out, const int* in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = 0; for (int j = 0; j < n; ++j) out[i] += in[n - 1 - j] * (i ^ j); }
}
__global__ void nothing(int* out) {}
void run(int kernel_num, int* out, int* between, const int* in, int n) {
    switch (kernel_num) {
        case 1: first<<<(n + 63) / 64, 64>>>(out, in, n); break;
        case 2:
            nothing<<<1, 1>>>(out);
            turned<<<(n + 63) / 64, 64>>>(between, in, n);
            turned_back<<<(n + 63) / 64, 64>>>(out, between, n);
            break;
        default: printf("no such kernel\\n"); exit(1);
    }
}
int main(int argc, char** argv) {
    int B = 2;
    int T = 128;
    int n = B * T;
    int *in = (int*)malloc(n * sizeof(int)), *got = (int*)malloc(n * sizeof(int)), *d_in, *d_out, *d_between;
    for (int i = 0; i < n; ++i) in[i] = i * i % 31;
    cudaMalloc(&d_in, n * sizeof(int)); cudaMalloc(&d_out, n * sizeof(int)); cudaMalloc(&d_between, n * sizeof(int));
    cudaMemcpy(d_in, in, n * sizeof(int), cudaMemcpyHostToDevice);
    int kernel_num = 1;
    if (argc > 1) kernel_num = atoi(argv[1]);
    run(kernel_num, d_out, d_between, d_in, n);
    cudaMemcpy(got, d_out, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; ++i) {
        int want = 0;
        for (int j = 0; j < n; ++j) want += in[j] * (i ^ j);
        if (want != got[i]) { printf("wrong at %d of %d\\n", i, n); return 1; }
    }
    printf("right, %d\\n", n);
    return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("program")  # one for all, so that a program is built once


def checked(folder, text, *words):
    path = folder / f"k{zlib.crc32(text.encode())}.cu"
    path.write_text(text)
    return main(["check", str(path), *words])


@pytest.mark.parametrize("kernel", ["turned", "turned_back"])
@pytest.mark.slow
def test_a_kernel_that_another_number_chooses_is_judged_by_its_programs_comparison(folder, capsys, kernel):
    assert checked(folder, SOURCE, "--entry", kernel) == 0
    said = capsys.readouterr().out
    assert "the program itself, called with 2, run" in said
    assert "which fails where this kernel does nothing" in said


@pytest.mark.parametrize(
    ("old", "new", "entry"),
    [
        ("in[n - 1 - i]", "in[i]", "turned"),  # its own comparison fails
        ("turned<<<(n + 63) / 64, 64>>>", "if (n < 0) turned<<<1, 64>>>", "turned"),  # nothing launches it
    ],
)
@pytest.mark.slow
def test_what_its_comparison_does_not_show_is_asked(folder, capsys, old, new, entry):
    assert old in SOURCE
    assert checked(folder, SOURCE.replace(old, new), "--entry", entry) == 3
    assert "ok by the program's own comparison" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_comparison_that_passes_without_the_kernel_says_nothing_of_it(folder, capsys):
    checked(folder, SOURCE, "--entry", "nothing")  # it is right beside the others, and would be without it
    assert "ok by the program's own comparison" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_program_that_does_not_end_is_tried_at_smaller_sizes(folder, capsys):
    large = SOURCE.replace("int T = 128", "int T = 32768")
    assert checked(folder, large, "--entry", "turned", "--budget-seconds", "6") == 0
    assert "called with 2, at smaller sizes than its own (T = 64), run" in capsys.readouterr().out


def test_sizes_are_what_arrays_are_made_of():
    found = list(smaller(SOURCE.replace("int T = 128", "int T = 768, block = 256").encode()))
    assert [one.sizes for one in found] == [(("T", 96),), (("T", 192),)]
    assert "block = 256" in found[0].text
    assert found[0].text.count("\n") == SOURCE.count("\n")


EVERYWHERE = """\
#define ROWS 2048
#define TILE 256
constexpr int COLS = 1 << 12;
const int BATCH = 4;
__global__ void turn(float* x) { __shared__ float tile[TILE]; tile[threadIdx.x] = x[threadIdx.x * BATCH]; }
void test(int depth, float scale) { float* y = (float*)malloc(depth * TILE * sizeof(float)); }
int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1024, other = 4096;
    float* x = (float*)malloc(n * ROWS * COLS * BATCH * sizeof(float));
    test(640, 1024);
}
"""


def test_sizes_are_constants_and_macros_of_the_file_defaults_and_arguments_too():
    first, *_, last = smaller(EVERYWHERE.encode())
    assert dict(first.sizes) == {"ROWS": 64, "COLS": 64, "n": 64, "depth": 80}
    for line in ("#define ROWS 64", "#define TILE 256", "constexpr int COLS = 64;", "BATCH = 4", "test(80, 1024);"):
        assert line in first.text
    assert "int n = argc > 1 ? atoi(argv[1]) : 64, other = 4096;" in first.text
    assert dict(last.sizes) == {"ROWS": 64, "TILE": 64, "COLS": 64, "BATCH": 2, "n": 64, "depth": 80}


REPEATED = """\
template <class F, class... Given> float timed(int repeats, F kernel, Given... given) {
    for (int i = 0; i < repeats; i++) kernel(given...);
    return 0;
}
int summed(int count, const int* in) { int sum = 0; for (int i = 0; i < count; i++) sum += in[i]; return sum; }
int main() {
    int n = 1024, times = 1000, often = 50, taken = 300;
    int* in = (int*)malloc(n * sizeof(int));
    for (int run = 0; run < often; ++run) step(in);
    for (int i = 0; i < taken; ++i) in[i] = i;
    summed(taken, in);
    timed(times, step, in);
}
"""


def test_what_only_says_how_often_the_same_is_done_is_once(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(REPEATED)
    program = read_program(REPEATED, path.as_posix(), (), {})
    first = next(smaller(REPEATED.encode(), host=HostRead(program, REPEATED, ())))
    assert first.sizes == (("n", 64),)
    assert "int n = 64, times = 1, often = 1, taken = 300;" in first.text


def test_device_code_stays_where_only_numbers_of_host_functions_are_others():
    first, *_ = smaller(SOURCE.replace("int T = 128", "int T = 768").encode())
    assert first.host_only
    assert not any(one.host_only for one in smaller(EVERYWHERE.encode()))  # constants, which kernels may name
    lambdas = REPEATED.replace("step(in)", "launch([=] __device__ (int i) { return i; })")
    assert not any(one.host_only for one in smaller(lambdas.encode()))


def test_a_size_may_stay_as_it_is():
    text = b"int main() { int rows = 4096, cols = 8192; float* x = new float[rows * cols]; }"
    assert dict(next(smaller(text)).sizes) == {"rows": 64, "cols": 64}
    assert dict(next(smaller(text, kept="cols")).sizes) == {"rows": 64}
