"""CUB's algorithms for the whole device, called by host code, against the standard library's."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

ALGORITHMS = r"""
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_run_length_encode.cuh>
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
    return cub::DeviceMergeSort::SortKeys(nullptr, bytes, (float*)nullptr, 1, cub::Max());
}
"""


KEYS = r"""
#include <cub/cub.cuh>
#include <cub/util_allocator.cuh>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>
cub::CachingDeviceAllocator allocator(true);
struct Twice { __host__ __device__ double operator()(int x) const { return 2.0 * x; } };
template <class T> struct Array {
    T* d;
    explicit Array(std::vector<T> h) {
        CubDebugExit(allocator.DeviceAllocate((void**)&d, h.size() * sizeof(T)));
        put(h);
    }
    ~Array() { allocator.DeviceFree(d); }
    void put(const std::vector<T>& h) { cudaMemcpy(d, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice); }
    std::vector<T> get(int n) {
        std::vector<T> h(n);
        cudaMemcpy(h.data(), d, n * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }
};
template <class Call> void run(Call call) {
    size_t bytes = 0;
    CubDebugExit(call(nullptr, bytes));
    Array<char> temporary(std::vector<char>(bytes, 0));
    CubDebugExit(call(temporary.d, bytes));
}
template <class T> void show(const char* name, const std::vector<T>& all) {
    printf("%s", name);
    for (auto one : all) printf(" %g", double(one));
    puts("");
}
int main() {
    const int n = 8;
    std::vector<int> h{5, -2, 7, 7, 1, 1, 1, 9};
    Array<int> in(h), out(h), values(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}), other(h), number(std::vector<int>{0});
    using V = void*; using S = size_t&;
    run([&](V t, S b) { return cub::DeviceSelect::UniqueByKey(t, b, in.d, values.d, out.d, other.d, number.d, n); });
    show("unique", other.get(number.get(1)[0]));
    run([&](V t, S b) { return cub::DeviceScan::ExclusiveScanByKey(t, b, in.d, values.d, out.d, cub::Max(), -1, n); });
    show("by key", out.get(n));
    run([&](V t, S b) { return cub::DeviceRunLengthEncode::NonTrivialRuns(t, b, in.d, out.d, other.d, number.d, n); });
    show("offsets", out.get(2)), show("lengths", other.get(2));
    cub::CountingInputIterator<int> count(3);
    cub::TransformInputIterator<double, Twice, int*> doubled(in.d, Twice());
    Array<double> sum(std::vector<double>{0});
    run([&](V t, S b) { return cub::DeviceReduce::Sum(t, b, doubled, sum.d, n); });
    show("doubled", sum.get(1));
    run([&](V t, S b) { return cub::DeviceReduce::Sum(t, b, count, number.d, 4); });
    show("counted", number.get(1));
    run([&](V t, S b) {
        return cub::DeviceReduce::ReduceByKey(t, b, in.d, out.d, cub::ConstantInputIterator<int>(2), other.d, number.d,
                                              cub::Sum(), n);
    });
    show("twos", other.get(number.get(1)[0]));
}
"""
KEYS_SAID = """unique 0 1 2 4 7
by key -1 -1 -1 2 -1 4 5 -1
offsets 2 4
lengths 2 3
doubled 58
counted 18
twos 2 2 4 6 2
"""


@pytest.mark.slow
def test_algorithms_for_the_whole_device(tmp_path: Path) -> None:
    done = run_program(tmp_path, ALGORITHMS)
    names = ["sum", "reduce", "min", "inclusive", "exclusive", "sorted", "buffers", "runs", "selected"]
    names += ["histogram", "graph"]
    said = [line for line in done.stdout.splitlines() if not line.endswith(" runs")]
    assert said == [f"{name} ok" for name in names], done.stdout + done.stderr
    assert "0 runs" in done.stdout
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_keys_and_iterators(tmp_path: Path) -> None:
    done = run_program(tmp_path, KEYS)
    assert (done.stdout, done.returncode) == (KEYS_SAID, 0), done.stderr


def test_an_algorithm_that_is_not_offered_is_refused_by_name_and_line(tmp_path: Path) -> None:
    done = run_program(tmp_path, UNKNOWN)
    assert done.returncode == 2
    assert "program.cu:5" in done.stderr
    assert "cub::DeviceMergeSort" in done.stderr


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


UTILITIES = r"""
#define CUB_STDERR
#include <cub/util_debug.cuh>
#include <cub/util_device.cuh>
#include <cstdio>
__global__ void k() {}
int main() {
    int ptx = 0, sm = 0, blocks = 0;
    cudaError_t error = CubDebug(CUB_NS_QUALIFIER::PtxVersion(ptx));
    CubDebugExit(cub::SmVersion(sm));
    CubDebugExit(cub::MaxSmOccupancy(blocks, k, 512));
    printf("%d %d %d %d\n", error, ptx, sm, blocks);
    fflush(stdout);
    k<<<1, 4096>>>();
    CubDebugExit(cudaSuccess);
    puts("not reached");
}
"""


def test_what_cub_tells_of_the_device_and_of_errors(tmp_path: Path) -> None:
    done = run_program(tmp_path, UTILITIES, "--arch", "sm_80", "--checks", "none")
    assert (done.returncode, done.stdout) == (1, "0 800 800 4\n"), done.stderr
    assert "CUDA error 9 [program.cu, 15]: invalid configuration argument" in done.stderr
