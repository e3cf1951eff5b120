"""What sources of programs may hold: names of internal linkage, macros that define, headers of the toolkit."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

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
    done = run_program(tmp_path, INTERNAL)
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
    done = run_program(tmp_path, ALL_PARTS, "first.cu", "second.cu")
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
    done = run_program(tmp_path, BULK)
    assert (done.returncode, done.stdout) == (0, "PASSED\n"), done.stderr
    assert "nothing found" in done.stderr


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
    done = run_program(tmp_path, SYMBOL_BESIDE_A_STREAM)
    assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr
    text = SYMBOL_BESIDE_A_STREAM.replace(
        "ToSymbol(total, &zero, sizeof zero)", "ToSymbolAsync(total, &zero, sizeof zero)"
    )
    done = run_program(tmp_path, text)
    assert done.returncode == 1 and "[streams]" in done.stderr, done.stderr


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
    done = run_program(tmp_path, COLLECTIVES)
    assert (done.returncode, done.stdout) == (0, "2016\n"), done.stderr


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
    done = run_program(tmp_path, CONVERTED)
    assert (done.returncode, done.stdout) == (0, "good\n"), done.stderr


MANY = r"""
#include <cstdio>
#include <utility>
__device__ int seen;
template <int N, bool twice> __global__ void put(int* to) { *to = N * (twice ? 2 : 1) + atomicAdd(&seen, 1); }
template <int N> void launch(int* to, bool twice) { twice ? put<N, true><<<1, 1>>>(to) : put<N, false><<<1, 1>>>(to); }
template <int... all> void any(int n, int* to, bool twice, std::integer_sequence<int, all...>) {
    ((n == all ? launch<all>(to, twice) : void()), ...);
}
int main() {
    int *to, out, shared;
    cudaMalloc(&to, sizeof(int));
    for (int n : {3, 9, 11, 2, 7, 5}) {
        any(n, to, n > 8, std::make_integer_sequence<int, 12>());
        cudaMemcpy(&out, to, sizeof(int), cudaMemcpyDeviceToHost);
        printf("%d ", out);
    }
    cudaMemcpyFromSymbol(&shared, seen, sizeof shared);
    printf("%d\n", shared);
}
"""


def test_of_many_instantiations_those_launched_are_compiled_and_share_variables(tmp_path: Path) -> None:
    done = run_program(tmp_path, MANY)
    assert done.stdout == "3 19 24 5 11 10 6\n", done.stderr
    assert done.returncode == 0, done.stderr
