"""CUB's algorithms for the whole device, called by host code, against the standard library's."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

ALGORITHMS = r"""
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>
struct Widest {
    template <class T> __device__ __forceinline__ T operator()(const T& a, const T& b) const { return b < a ? a : b; }
};
__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = (i * 7919 + 13) % 1009 - 300;
}
template <class Call> void run(Call call) {
    void* temporary = nullptr;
    size_t bytes = 0;
    CubDebugExit(call(temporary, bytes));
    cudaMalloc(&temporary, bytes);
    CubDebugExit(call(temporary, bytes));
    cudaFree(temporary);
}
template <class T> std::vector<T> back(const T* d, int n) {
    std::vector<T> h(n);
    cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
    return h;
}
template <class T> void same(const char* name, const std::vector<T>& a, const std::vector<T>& b) {
    printf("%s %s\n", name, a == b ? "ok" : "WRONG");
}
int main() {
    const int n = 3000;
    int *in, *out, *number, *other, *lengths;
    cudaMalloc(&lengths, n * 4);
    cudaMalloc(&in, n * 4);
    cudaMalloc(&out, n * 4);
    cudaMalloc(&other, n * 4);
    cudaMalloc(&number, 4);
    fill<<<12, 256>>>(in, n);
    cudaStream_t s;
    cudaStreamCreate(&s);
    auto h = back(in, n), e = h;
    run([&](void* t, size_t& b) { return cub::DeviceReduce::Sum(t, b, in, number, n, s); });
    same("sum", back(number, 1), {std::accumulate(h.begin(), h.end(), 0)});
    run([&](void* t, size_t& b) { return cub::DeviceReduce::Reduce(t, b, in, number, n, Widest(), -1000); });
    same("reduce", back(number, 1), {*std::max_element(h.begin(), h.end())});
    run([&](void* t, size_t& b) { return cub::DeviceReduce::Min(t, b, in, number, n); });
    same("min", back(number, 1), {*std::min_element(h.begin(), h.end())});
    run([&](void* t, size_t& b) { return cub::DeviceScan::InclusiveSum(t, b, in, out, n); });
    std::partial_sum(h.begin(), h.end(), e.begin());
    same("inclusive", back(out, n), e);
    run([&](void* t, size_t& b) { return cub::DeviceScan::ExclusiveScan(t, b, in, out, Widest(), -400, n); });
    for (int i = 0, m = -400; i < n; m = std::max(m, h[i++])) e[i] = m;
    same("exclusive", back(out, n), e);
    run([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeysDescending(t, b, in, out, n); });
    e = h;
    std::sort(e.rbegin(), e.rend());
    same("sorted", back(out, n), e);
    cub::DoubleBuffer<int> keys(out, other);
    run([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, keys, n); });
    std::reverse(e.begin(), e.end());
    same("buffers", back(keys.Current(), n), e);
    auto* sorted = keys.Current();
    run([&](void* t, size_t& b) {
        return cub::DeviceRunLengthEncode::Encode(t, b, sorted, out, lengths, number, n);
    });
    auto u = e;
    u.erase(std::unique(u.begin(), u.end()), u.end());
    same("runs", back(out, u.size()), u);
    printf("%d runs\n", back(number, 1)[0] - (int)u.size());
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    void* temporary;
    cudaMalloc(&temporary, 1024);
    size_t bytes = 1024;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cub::DeviceReduce::Max(temporary, bytes, in, number, n, s);
    cudaStreamEndCapture(s, &graph);
    cudaMemset(number, 0, 4);
    cudaGraphInstantiate(&ready, graph, 0);
    cudaMemset(in, 0, 4 * n);
    cudaGraphLaunch(ready, s);
    cudaStreamSynchronize(s);
    same("graph", back(number, 1), {0});
}
"""
UNKNOWN = r"""
#include <cub/cub.cuh>
int main() {
    size_t bytes = 0;
    return cub::%s(nullptr, bytes, (float*)nullptr, 1, cub::Max());
}
"""


@pytest.mark.slow
def test_algorithms_for_the_whole_device(tmp_path: Path) -> None:
    done = run_program(tmp_path, ALGORITHMS)
    names = ["sum", "reduce", "min", "inclusive", "exclusive", "sorted", "buffers", "runs", "graph"]
    said = [line for line in done.stdout.splitlines() if not line.endswith(" runs")]
    assert said == [f"{name} ok" for name in names], done.stdout + done.stderr
    assert "0 runs" in done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("algorithm", ["DeviceMergeSort::SortKeys", "DeviceSelect::If"])
def test_an_algorithm_that_is_not_offered_is_refused_by_name_and_line(algorithm: str, tmp_path: Path) -> None:
    done = run_program(tmp_path, UNKNOWN % algorithm)
    assert done.returncode == 2
    assert "program.cu:5" in done.stderr
    assert f"cub::{algorithm.partition('::')[0]}" in done.stderr


OF_VECTORS = r"""
#include <cub/device/device_reduce.cuh>
#include <thrust/device_vector.h>
#include <cstdio>
int main() {
    thrust::device_vector<double> x(5, 0.5), most(1), least(1), sum(1);
    x[3] = 2.25, x[4] = -1;
    size_t bytes = 0;
    cub::DeviceReduce::Max(nullptr, bytes, x.begin(), most.begin(), 5);
    thrust::device_vector<char> temporary(bytes);
    void* t = thrust::raw_pointer_cast(temporary.data());
    cub::DeviceReduce::Max(t, bytes, x.begin(), most.begin(), 5);
    cub::DeviceReduce::Min(t, bytes, x.begin(), least.begin(), 5);
    cub::DeviceReduce::Sum(t, bytes, x.begin(), sum.begin(), 5);
    printf("%g %g %g\n", double(most[0]), double(least[0]), double(sum[0]));
}
"""


@pytest.mark.slow
def test_iterators_whose_references_are_classes(tmp_path: Path) -> None:
    """Those of Thrust's vectors: what they point to is no `double&`."""
    done = run_program(tmp_path, OF_VECTORS)
    assert done.stdout == "2.25 -1 2.75\n", done.stderr


ERRORS = r"""
#define CUB_STDERR
#include <cub/util_debug.cuh>
#include <cstdio>
__global__ void k() {}
int main() {
    printf("%d\n", CubDebug(cudaSuccess));
    fflush(stdout);
    k<<<1, 4096>>>();
    CubDebugExit(cudaSuccess);
    puts("not reached");
}
"""


def test_what_cub_tells_of_errors(tmp_path: Path) -> None:
    done = run_program(tmp_path, ERRORS, "--checks", "none")
    assert (done.returncode, done.stdout) == (1, "0\n"), done.stderr
    assert "CUDA error 9 [program.cu, 10]: invalid configuration argument" in done.stderr
