"""Whole programs through `wmmadiag run`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FIRST = r"""
#include <cstdio>
#include <vector>
template <int N, class T>
__global__ void scale(const T* __restrict__ x, T* y, int n, float by) {
    __shared__ T s[N];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x] * by;
}
#define ARGUMENTS(grid, block) <<<grid, block>>>
__constant__ float bias[2];
__device__ int counter = 5;
__device__ float twice(float x, int) { return x + x; }
template <float (*f)(float, int)>
__global__ void apply(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f(y[i], i) / 2;
}
__global__ void add(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += bias[1];
    atomicAdd(&counter, 1);
    if (i == 0) printf("hello %d\n", n);
}
int main(int argc, char** argv) {
    const int n = 1000;
    std::vector<float> h(n, 3), out(n);
    float *d_x, *d_y;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc((void**)&d_y, n * sizeof(float));
    cudaMemcpy(d_x, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    scale<128><<<(n + 127) / 128, 128>>>(d_x, d_y, n, 2);
    apply<twice> ARGUMENTS(8, 128)(d_y, n);
    float b[2] = {7, 11};
    cudaMemcpyToSymbol(bias, b, sizeof b);
    add<<<(n + 127) / 128, 128>>>(d_y, n);
    puts("launched");
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    cudaMemcpy(out.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    int c = 0;
    cudaMemcpyFromSymbol(&c, counter, sizeof c);
    printf("%g %g %d %s\n", out[0], out[999], c, argv[argc - 1]);
    return argc;
}
"""


def run(tmp_path: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`wmmadiag run` of one source."""
    source = tmp_path / "program.cu"
    source.write_text(text)
    command = [sys.executable, "-m", "wmmadiag", "run", "program.cu", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)


def test_program_has_its_own_output_and_status(tmp_path: Path) -> None:
    done = run(tmp_path, FIRST, "--", "-x")
    assert done.stdout == "launched\nhello 1000\n17 17 1029 -x\n", done.stderr
    assert done.returncode == 2
    assert "3 launches" in done.stderr


def test_a_report_has_standard_output_to_itself(tmp_path: Path) -> None:
    done = run(tmp_path, FIRST, "--json", "-", "--", "-x")
    assert json.loads(done.stdout)["launches"] == 3
    assert "hello 1000\n17 17 1029 -x\n" in done.stderr and done.returncode == 2


@pytest.mark.slow
def test_each_kind_of_launch_becomes_a_card_that_runs(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(FIRST)
    words = [sys.executable, "-m", "wmmadiag"]
    done = subprocess.run(
        [*words, "init", "program.cu", "--run"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    card = tmp_path / "program_1.toml"
    assert done.returncode == 0, done.stderr
    assert 'entry = "scale<128, float>"' in card.read_text()
    assert "value = 1000" in card.read_text()
    checked = subprocess.run([*words, "check", card.name], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


COLLECTIVES = r"""
#include <cub/block/block_reduce.cuh>
#include <cstdio>
using Reduce = cub::BlockReduce<float, 64>;
__device__ float total(float x, Reduce::TempStorage& storage) { return Reduce(storage).Sum(x); }
__global__ void sum(const float* in, float* out) {
    __shared__ Reduce::TempStorage storage;
    float s = total(in[threadIdx.x], storage);
    if (threadIdx.x == 0) *out = s;
}
int main() {
    float* x;
    cudaMallocManaged(&x, 65 * sizeof(float));
    for (int i = 0; i < 64; ++i) x[i] = i;
    sum<<<1, 64>>>(x, x + 64);
    cudaDeviceSynchronize();
    printf("%g\n", x[64]);
}
"""


@pytest.mark.slow
def test_parts_of_cub_for_kernels(tmp_path: Path) -> None:
    done = run(tmp_path, COLLECTIVES)
    assert (done.returncode, done.stdout) == (0, "2016\n"), done.stderr


def test_what_the_host_compiler_refuses_has_a_next_step(tmp_path: Path) -> None:
    done = run(tmp_path, "surface<void, 2> s;\nint main() {}\n")
    assert done.returncode == 2
    assert "program.cu:1:1: host code: " in done.stderr
    assert "next: surface references left CUDA with 12.0" in done.stderr


def test_two_main_functions_are_no_program(tmp_path: Path) -> None:
    (tmp_path / "other.cu").write_text("int main() { return 1; }\n")
    done = run(tmp_path, "int main() {}\n", "other.cu")
    assert done.returncode == 2
    assert "other.cu: a second main function; the first is in program.cu" in done.stderr


CONVERTED = r"""
#include <cstdio>
struct Stream {
    cudaStream_t held;
    Stream() { cudaStreamCreate(&held); }
    Stream(const Stream&) = delete;
    ~Stream() { cudaStreamDestroy(held); }
    operator cudaStream_t() const { return held; }
};
int main() {
    Stream stream;
    float *a, *b;
    bool good = cudaMallocAsync((void**)&a, 64, stream) == cudaSuccess;
    good = good && cudaMallocAsync(&b, 64, 0) == cudaSuccess;
    good = good && cudaFreeAsync(a, stream) == cudaSuccess && cudaFreeAsync(b, 0) == cudaSuccess;
    puts(good ? "good" : "bad");
}
"""


def test_arguments_of_allocations_are_converted(tmp_path: Path) -> None:
    done = run(tmp_path, CONVERTED)
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


FAULTS = r"""
#include <cstdio>
__global__ void fill(float* y, int n) { y[threadIdx.x] = n; }
int main(int argc, char**) {
    float *d_y, h[64];
    cudaMalloc(&d_y, sizeof h / 2);
    for (int i = 0; i < 100; ++i) fill<<<1, 32>>>(d_y, 3);
    if (argc == 1) return 0;
    printf("%d ", cudaMemcpy(h, d_y, sizeof h, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    fill<<<1, 2048>>>(d_y, 3);
    printf("%d ", cudaGetLastError() == cudaErrorInvalidConfiguration);
    fill<<<1, 33>>>(d_y, 3);
    printf("%d ", cudaGetLastError() == cudaSuccess);
    printf("%d\n", cudaDeviceSynchronize() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    fflush(stdout);
    return d_y[5] > 0;
}
"""


@pytest.mark.slow
def test_errors_of_the_runtime_and_of_host_code_are_told_with_their_lines(tmp_path: Path) -> None:
    right = run(tmp_path, FAULTS)
    assert right.returncode == 0, right.stderr
    assert (
        "100 launches (1 watched; 1 like one of these ran bare; 98 did the same again to the same contents: not run),"
        " nothing found" in right.stderr
    )
    done = run(tmp_path, FAULTS, "--", "all")
    assert done.stdout == "1 1 1 1\n", done.stderr
    assert done.returncode == 1
    for line, words in (
        (9, "cudaMemcpy reads 256 bytes of d_y"),
        (10, "a block of 2048 × 1 × 1 = 2048 threads"),
        (3, "out of bounds of global"),
        (16, "host code touches device memory: d_y"),
    ):
        assert f"program.cu:{line}:" in done.stderr, done.stderr
        assert words in " ".join(done.stderr.split()), done.stderr


TILES = r"""
#include <cstdio>
#include <cstdlib>
__global__ void shift(const float* x, float* y, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = x[i];
    if (n > 0) __syncthreads();
    y[i] = s[63 - threadIdx.x];
}
__device__ unsigned done;
__global__ void last(float* y, float* sum) {
    if (threadIdx.x == 0) {
        y[blockIdx.x] = 1;
        __threadfence();
        if (atomicAdd(&done, 1) == gridDim.x - 1) {
            __threadfence();
            for (int i = 0; i < gridDim.x; ++i) *sum += y[i];
        }
    }
}
int main(int, char** argv) {
    const int what = atoi(argv[1]), blocks = 40;
    float *x, *y, sum = 0;
    cudaMalloc(&x, 64 * blocks * 4);
    if (cudaMalloc(&y, what == 2 ? 32 << 20 : 64 * blocks * 4) != cudaSuccess) return puts("no memory"), 4;
    cudaMemset(x, 0, 64 * blocks * 4);
    if (what == 3)
        for (volatile int i = 0;; ++i) {}
    shift<<<blocks, 64>>>(x, y, what);
    last<<<blocks, 32>>>(y, x);
    cudaMemcpy(&sum, x, 4, cudaMemcpyDeviceToHost);
    printf("%g\n", sum);
    return 0;
}
"""


LONG = r"""
__global__ void first(int* x) { x[threadIdx.x] = 1; }
template <int N> __global__ void wait(int* x) {
    unsigned sum = threadIdx.x;
    for (int i = 0; i < 1000000; ++i) sum = sum * 3 + (sum >> N);
    x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
int main(int argc, char**) {
    int* x;
    cudaMalloc(&x, 500 * 32 * 4);
    first<<<1, 32>>>(x);
    if (argc > 1)
        for (volatile int i = 0;; ++i) {}
    wait<7><<<500, 32>>>(x);
    cudaDeviceSynchronize();
}
"""


@pytest.mark.slow
def test_limits_samples_and_reports_of_a_run(tmp_path: Path) -> None:
    right = run(tmp_path, TILES, "--sample-blocks", "3", "--leaks", "--", "1")
    assert (right.returncode, right.stdout) == (0, "40\n"), right.stderr
    assert "of 2 a sample of blocks alone, 2 warnings;" in right.stderr
    assert "program.cu:25: x, cudaMalloc at program.cu:25 is never freed" in " ".join(right.stderr.split())
    wrong = run(tmp_path, TILES, "--sample-blocks", "3", "--sarif", "found.sarif", "--junit", "found.xml", "--", "0")
    assert wrong.returncode == 1
    assert "program.cu:9:" in wrong.stderr, wrong.stderr
    assert '"startLine": 9' in (tmp_path / "found.sarif").read_text()
    assert '<testsuite name="program (sm_90, emulator)" tests="1" failures="1"' in (tmp_path / "found.xml").read_text()
    small = run(tmp_path, TILES, "--memory", "16M", "--", "2")
    assert (small.returncode, small.stdout) == (4, "no memory\n"), small.stderr
    endless = run(tmp_path, TILES, "--timeout", "0.8", "--", "3")
    assert endless.returncode == 3
    assert "did not end within 0.8 s, and was ended before its first launch" in endless.stderr
    assert "nothing found; the program was ended" in endless.stderr
    long = run(tmp_path, LONG, "--timeout", "5", "--threads", "1")
    said = re.search(r"and was ended in launch 2, of wait<7>: (\d+) of 500 blocks had begun", long.stderr)
    assert said and 0 < int(said[1]) < 500, long.stderr
    behind = run(tmp_path, LONG, "--timeout", "5", "--", "behind")
    assert "and was ended in host code behind launch 1, of first" in behind.stderr, behind.stderr
    assert "1 launch, nothing found" in behind.stderr


@pytest.mark.slow
def test_check_runs_a_main_and_says_both_verdicts(tmp_path: Path) -> None:
    source = tmp_path / "scale.cu"
    text = r"""
#include <cstdio>
__global__ void halves(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 0.5f + FAULT;
}
int main() {
    const int n = 100;
    float h[n], *x, *y;
    for (int i = 0; i < n; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    halves<<<1, 128>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; ++i)
        if (h[i] != i * 0.5f) return puts("FAILED"), 1;
    return puts("PASSED"), 0;
}
"""
    for fault, code, said in (("0", 0, "it says at the end: PASSED"), ("1", 1, "it says at the end: FAILED")):
        source.write_text(text.replace("FAULT", fault))
        command = [sys.executable, "-m", "wmmadiag", "check", "scale.cu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert said in done.stdout, done.stdout + done.stderr
        assert f"exit status {code}" in done.stdout
        assert done.returncode == code, done.stdout + done.stderr
        verdict = "WRONG: the program's own exit status says so" if code else "ok by the program's own comparison"
        assert verdict in done.stdout
    source.write_text(
        text.replace("FAULT", "0").replace("const int n = 100;", 'return puts("usage: scale N"), 1; const int n = 100;')
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode in (2, 3), done.stdout + done.stderr  # what its source alone leads to


INTERNAL = r"""
#include <cstdio>
static __device__ int counter = 5;
static __constant__ int step[2];
namespace { __device__ int hidden[4]; __constant__ float half_ten = 5.0f; }
static __device__ int unseen_by_the_host;
namespace open { __device__ int seen = 7; static __device__ int inner = 1; }
__global__ void count() {
    atomicAdd(&counter, step[1]);
    hidden[2] += 3 + (int)half_ten;
    unseen_by_the_host += 4;
    open::seen++;
    open::inner += 2;
}
__global__ void told(int* out) { *out = unseen_by_the_host; }
int main() {
    int by[2] = {1, 10}, *out, unseen, first, third[4], seen, inner;
    cudaMalloc(&out, sizeof(int));
    cudaMemcpyToSymbol(step, by, sizeof by);
    count<<<1, 1>>>();
    count<<<1, 1>>>();
    told<<<1, 1>>>(out);
    cudaMemcpy(&unseen, out, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&first, counter, sizeof first);
    cudaMemcpyFromSymbol(third, hidden, sizeof third);
    cudaMemcpyFromSymbol(&seen, open::seen, sizeof seen);
    cudaMemcpyFromSymbol(&inner, open::inner, sizeof inner);
    printf("%d %d %d %d %d\n", first, third[2], unseen, seen, inner);
}
"""


def test_variables_of_internal_linkage_are_the_programs_own(tmp_path: Path) -> None:
    done = run(tmp_path, INTERNAL)
    assert done.stdout == "25 16 8 9 5\n", done.stderr
    assert done.returncode == 0, done.stderr


PART = r"""
#include <cstdio>
static __device__ int counter = START;
static __device__ int step(int by) { return by * SCALE; }
namespace {
__global__ void add(int by) { atomicAdd(&counter, step(by)); }
__global__ void add(float by) { atomicAdd(&counter, 100 * step((int)by)); }
}
__device__ int NAME() { return atomicAdd(&counter, step(1)); }
int NAME(int by) {
    add<<<1, 1>>>(by);
    add<<<1, 1>>>(float(by));
    int now;
    cudaMemcpyFromSymbol(&now, counter, sizeof now);
    return now;
}
"""
ALL_PARTS = r"""
#include <cstdio>
int first(int); int second(int);
__device__ int first(); __device__ int second();
static __device__ int counter = 1;
__global__ void both(int* out) { *out = ++counter + first() * 10 + second() * 100; }
int main() {
    int *out, now;
    cudaMalloc(&out, sizeof(int));
    printf("%d %d\n", first(2), second(3));
    both<<<1, 1>>>(out);
    cudaMemcpy(&now, out, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", now, first(0), second(0));
}
"""


@pytest.mark.slow
def test_names_of_internal_linkage_are_each_sources_own(tmp_path: Path) -> None:
    for number, name in enumerate(("first", "second"), 1):
        macros = f"#define NAME {name}\n#define START {number * 1000}\n#define SCALE {number}"
        (tmp_path / f"{name}.cu").write_text(macros + PART)
    done = run(tmp_path, ALL_PARTS, "first.cu", "second.cu")
    # 1000 + 2 + 200, 2000 + 6 + 600; then 2 + 1202 * 10 + 2606 * 100, and both counters a step further
    assert done.stdout == "1202 2606\n272622 1203 2608\n", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


BULK = r"""
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cstdio>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void reversed(const float* in, float* out) {
    __shared__ Barrier barrier;
    __shared__ alignas(16) float part[64];
    auto block = cooperative_groups::this_thread_block();
    if (block.thread_rank() == 0) init(&barrier, block.size());
    block.sync();
    cuda::memcpy_async(block, part, in, cuda::aligned_size_t<16>(sizeof part), barrier);
    barrier.arrive_and_wait();
    out[threadIdx.x] = part[63 - threadIdx.x];
}
int main() {
    float host[64], *in, *out;
    for (int i = 0; i < 64; ++i) host[i] = i;
    cudaMalloc(&in, sizeof host);
    cudaMalloc(&out, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    reversed<<<1, 64>>>(in, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    puts(host[3] == 60 ? "PASSED" : "FAILED");
}
"""


@pytest.mark.slow
def test_bulk_copies_of_a_header_run(tmp_path: Path) -> None:
    done = run(tmp_path, BULK)
    assert (done.returncode, done.stdout) == (0, "PASSED\n"), done.stderr
    assert "nothing found" in done.stderr


OF_MACROS = r"""
#include <cstdio>
#define ELEMENTWISE(NAME, OP) \
    __global__ void NAME##_kernel(const float* a, float* b, int n) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; \
        if (i < n) b[i] = a[i] OP 2; \
    }
#define DEVICE(NAME, OP) \
    static __device__ __forceinline__ float NAME(float x[], int at) { return x[at] OP threadIdx.x; }
#define BOTH(NAME) __host__ __device__ int NAME(int x) { return x * 3; }
#define TEMPLATE(NAME) \
    namespace { template <class T, int N = 4> \
    __global__ void __launch_bounds__(32) NAME(T (*f)[N], T by) { f[0][threadIdx.x] = treble(by); } }
ELEMENTWISE(add, +)
ELEMENTWISE(mul, *)
DEVICE(less, -)
BOTH(treble)
TEMPLATE(fill)
__global__ void take(float* b) { b[threadIdx.x] = less(b, threadIdx.x); }
int main() {
    float *a, *b, out[4];
    cudaMallocManaged(&a, 16);
    cudaMalloc(&b, 16);
    for (int i = 0; i < 4; ++i) a[i] = i;
    auto told = [&] {
        cudaMemcpy(out, b, 16, cudaMemcpyDeviceToHost);
        printf("%g %g %g %g\n", out[0], out[1], out[2], out[3]);
    };
    add_kernel<<<1, 4>>>(a, b, 4);
    told();
    mul_kernel<<<1, 4>>>(a, b, 4);
    told();
    take<<<1, 4>>>(b);
    told();
    fill<float><<<1, 4>>>((float (*)[4])b, (float)treble(1));
    told();
}
"""


def test_kernels_and_functions_that_macros_define(tmp_path: Path) -> None:
    done = run(tmp_path, OF_MACROS)
    assert done.stdout == "2 3 4 5\n0 2 4 6\n0 1 2 3\n9 9 9 9\n", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    # Half of a definition is no kernel that can be launched: named, never run empty.
    half = OF_MACROS.replace("        if (i < n) b[i] = a[i] OP 2; \\\n    }", "        if (i < n) b[i] = a[i] OP 2;")
    half = half.replace("ELEMENTWISE(add, +)", "ELEMENTWISE(add, +) }").replace(
        "ELEMENTWISE(mul, *)", "ELEMENTWISE(mul, *) }"
    )
    done = run(tmp_path, half)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "blockDim" in done.stderr


SYMBOL_BESIDE_A_STREAM = r"""
#include <cstdio>
__device__ int total;
__global__ void count(int n) { if (threadIdx.x < n) atomicAdd(&total, 1); }
int main() {
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    const int zero = 5;
    cudaMemcpyToSymbol(total, &zero, sizeof zero);
    count<<<1, 32, 0, stream>>>(7);
    cudaStreamSynchronize(stream);
    int found = 0;
    cudaMemcpyFromSymbol(&found, total, sizeof found);
    printf("%d\n", found);
    return 0;
}
"""


@pytest.mark.slow
def test_a_copy_to_a_symbol_is_waited_for_and_one_that_says_async_is_not(tmp_path: Path) -> None:
    done = run(tmp_path, SYMBOL_BESIDE_A_STREAM)
    assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr
    text = SYMBOL_BESIDE_A_STREAM.replace(
        "ToSymbol(total, &zero, sizeof zero)", "ToSymbolAsync(total, &zero, sizeof zero)"
    )
    done = run(tmp_path, text)
    assert done.returncode == 1 and "[streams]" in done.stderr, done.stderr


SAME_NAME = """#include <cstdio>
#include <cmath>
#include <limits>
struct Own {};
namespace lib {
namespace host {
template <class T, int N> void each(T* p, int n) { for (int i = 0; i < n; ++i) p[i] += N; }
}
namespace device {
template <class T, int N> __global__ void each(T* p, int n) {
    const int i = threadIdx.x;
    double whole;
    if (i < n) p[i] += N + std::llround(2.5f) + std::modf(p[i], &whole) + std::numeric_limits<Own>::has_quiet_NaN;
}
}
}
int main() {
    float h[4] = {1, 2, 3, 4}, *d;
    cudaMalloc(&d, sizeof h);
    lib::host::each<float, 2>(h, 4);
    cudaMemcpy(d, h, sizeof h, cudaMemcpyHostToDevice);
    lib::device::each<float, 3><<<1, 32>>>(d, 4);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    printf("%g\\n", h[3]);
}
"""


def test_a_host_function_of_a_kernels_name_is_none(tmp_path: Path) -> None:
    done = run(tmp_path, SAME_NAME)
    assert done.stdout == "12\n", done.stderr
