"""Which functions of a program are kernels, whatever macros and namesakes its sources have."""

from __future__ import annotations

from pathlib import Path

from command import run_program

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
    done = run_program(tmp_path, OF_MACROS)
    assert done.stdout == "2 3 4 5\n0 2 4 6\n0 1 2 3\n9 9 9 9\n", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    # Half of a definition is no kernel that can be launched: named, never run empty.
    half = OF_MACROS.replace("        if (i < n) b[i] = a[i] OP 2; \\\n    }", "        if (i < n) b[i] = a[i] OP 2;")
    half = half.replace("ELEMENTWISE(add, +)", "ELEMENTWISE(add, +) }").replace(
        "ELEMENTWISE(mul, *)", "ELEMENTWISE(mul, *) }"
    )
    done = run_program(tmp_path, half)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "blockDim" in done.stderr


HEADS = r"""
#include <cstdio>
#include "heads.h"
struct Params { int* to; int by; };
DEFINE_KERNEL(set_kernel, bool twice, int more) {
#if defined(__CUDA_ARCH__)
    params.to[threadIdx.x] = params.by * (twice ? 2 : 1) + more;
#else
    params.no_such_member = 1;
#endif
}
KERNEL(add)(int* to, int by) { to[threadIdx.x] += by; }
WRAPPED(less)(int* to, int by) { to[threadIdx.x] -= by; }
BOUNDED(32) scale(int* to, int (*rows)[2]) { to[threadIdx.x] *= rows[1][0]; }
template <bool twice> void set(Params params) {
    auto kernel = &set_kernel<int, twice, 1>;
    cudaFuncAttributes known;
    printf("%s ", cudaGetErrorString(cudaFuncGetAttributes(&known, kernel)));
    kernel<<<1, 4>>>(params);
}
int main() {
    int *a, *b, out[4], rows[4] = {1, 2, 3, 4};
    cudaMalloc(&a, 16);
    cudaMalloc(&b, 16);
    cudaMemcpy(b, rows, 16, cudaMemcpyHostToDevice);
    set<true>({a, 4});
    add<<<1, 4>>>(a, 10);
    scale<<<1, 4>>>(a, (int (*)[2])b);
    less<<<1, 4>>>(a, 7);
    cudaMemcpy(out, a, 16, cudaMemcpyDeviceToHost);
    printf("%d\n", out[3]);
}
"""


HEADS_HEADER = r"""
#define CONSTANT const
#define DEFINE_KERNEL(name, ...) \
    template <typename Type, __VA_ARGS__> \
    __global__ void name(CONSTANT Params params)
#define KERNEL(name) __global__ void name
#define WRAPPED(name) KERNEL(name)
#define BOUNDED(threads) __global__ void __launch_bounds__(threads)
"""


def test_kernels_whose_head_is_a_macros(tmp_path: Path) -> None:
    (tmp_path / "heads.h").write_text(HEADS_HEADER)
    (tmp_path / "other.cu").write_text("__global__ void other() {}\nint launched() { other<<<1, 1>>>(); return 1; }\n")
    done = run_program(tmp_path, HEADS, "other.cu")
    assert done.stdout == "no error 50\n", done.stdout + done.stderr
    assert done.returncode == 0, done.stderr


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
    done = run_program(tmp_path, SAME_NAME)
    assert done.stdout == "12\n", done.stderr


NAMESAKES = r"""
#include <cstdio>
#include <sstream>
#define OPENED namespace opened {
#define CLOSED }
namespace library {
template <class T> void copy(T* to, const T* from, size_t count) {  // of the host alone
    std::ostringstream said;
    said << count;
    cudaMemcpy(to, from, count * sizeof(T), cudaMemcpyDeviceToHost);
    printf("%s copied\n", said.str().c_str());
}
}
template <class T> __global__ void copy(T* to, const T* from) { to[threadIdx.x] = from[threadIdx.x] + 1; }
OPENED
template <class T> __global__ void copy(T* to, T add) { to[threadIdx.x] += add; }
CLOSED
struct Unused {};
int main() {
    int *a, *b, out[4];
    cudaMalloc(&a, sizeof out);
    cudaMalloc(&b, sizeof out);
    cudaMemset(a, 0, sizeof out);
    copy<int><<<1, 4>>>(b, a);
    opened::copy<int><<<1, 4>>>(b, 5);
    library::copy(out, b, 4);
    printf("%d\n", out[3]);
}
"""


def test_functions_of_the_host_that_are_called_as_a_kernel_is_are_none(tmp_path: Path) -> None:
    done = run_program(tmp_path, NAMESAKES)
    assert done.stdout == "4 copied\n6\n", done.stderr
    assert done.returncode == 0, done.stderr
