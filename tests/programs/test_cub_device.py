"""CUB's algorithms for the whole device, called by host code, against the standard library's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALGORITHMS = r"""
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>
struct Even { __device__ bool operator()(int x) const { return x % 2 == 0; } };
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
    run([&](void* t, size_t& b) { return cub::DeviceSelect::If(t, b, in, out, number, n, Even()); });
    auto kept = back(number, 1)[0];
    e.resize(kept);
    std::copy_if(h.begin(), h.end(), e.begin(), [](int x) { return x % 2 == 0; });
    same("selected", back(out, kept), e);
    run([&](void* t, size_t& b) { return cub::DeviceHistogram::HistogramEven(t, b, in, out, 5, -300, 700, n); });
    std::vector<int> counts(4);
    for (int x : h) if (x >= -300 && x < 700) counts[(x + 300) / 250]++;
    same("histogram", back(out, 4), counts);
    std::vector<int> offsets{0, 10, 10, 1500, n}, sums;
    cudaMemcpy(other, offsets.data(), 5 * 4, cudaMemcpyHostToDevice);
    run([&](void* t, size_t& b) { return cub::DeviceSegmentedReduce::Sum(t, b, in, out, 4, other, other + 1); });
    for (int i = 0; i < 4; i++) sums.push_back(std::accumulate(h.begin() + offsets[i], h.begin() + offsets[i + 1], 0));
    same("segments", back(out, 4), sums);
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
    return cub::DeviceSpmv::CsrMV(nullptr, bytes, (float*)nullptr, (int*)nullptr, (int*)nullptr, (float*)nullptr,
                                  (float*)nullptr, 1, 1, 1);
}
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """`wmmadiag run` of one source."""
    (folder / "program.cu").write_text(text)
    command = [sys.executable, "-m", "wmmadiag", "run", "program.cu"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_algorithms_for_the_whole_device(tmp_path: Path) -> None:
    done = run(tmp_path, ALGORITHMS)
    names = ["sum", "reduce", "min", "inclusive", "exclusive", "sorted", "buffers", "runs", "selected"]
    names += ["histogram", "segments", "graph"]
    said = [line for line in done.stdout.splitlines() if not line.endswith(" runs")]
    assert said == [f"{name} ok" for name in names], done.stdout + done.stderr
    assert "0 runs" in done.stdout
    assert done.returncode == 0, done.stderr


def test_an_algorithm_that_is_not_offered_is_refused_by_name_and_line(tmp_path: Path) -> None:
    done = run(tmp_path, UNKNOWN)
    assert done.returncode == 2
    assert "program.cu:5" in done.stderr
    assert "cub::DeviceSpmv" in done.stderr


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


def test_iterators_whose_references_are_classes(tmp_path: Path) -> None:
    """Those of Thrust's vectors: what they point to is no `double&`."""
    source = tmp_path / "program.cu"
    source.write_text(OF_VECTORS)
    command = [sys.executable, "-m", "wmmadiag", "run", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "2.25 -1 2.75\n", done.stderr
