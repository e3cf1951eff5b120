"""CUDA sources, compiled and run: printf, assert, trap, device code as -G leaves it, the same bits on every engine."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import Budget, EmulatedKernel, EmulatorOptions, load, native
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch

FEW = EmulatorOptions(threads=1, budget=Budget(seconds=30))


@cache
def compiled(source: str, arch: str = "sm_90", debug: bool = False) -> str:
    return compile_text(source, "test.cu", CompileOptions(arch=arch, debug=debug, extra=("-fmad=false",))).ptx


def kernel(
    source: str, arch: str = "sm_90", debug: bool = False, entry: str = "", options: EmulatorOptions = FEW
) -> EmulatedKernel:
    return load(compiled(source, arch, debug), entry, options=options)


PRINTF = r"""
#include <cstdio>
extern "C" __global__ void k(float x, int n, const char*) {
    if (threadIdx.x == 0) {
        printf("block %d of %u: %5.2f|%-8s|%08x|%+d|%c|%%\n",
        blockIdx.x, gridDim.x, x, "text", n, n, 'A' + (int)blockIdx.x);
        printf("%lld %llu %hd %ld %*d|%.*f|%e|%g\n", -5000000000LL, 18446744073709551615ULL, (short)-3, -7L,
        6, 42, 3, 2.0 / 3, 12345.678, 1e-10);
        printf("plain\n");
        printf("%s%s", "", "end\n");
    }
    if (threadIdx.x < 3) printf("t%d ", threadIdx.x);
}
"""


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_printf_in_the_order_of_blocks(threads, debug):
    stats = kernel(PRINTF, debug=debug, options=EmulatorOptions(threads=threads)).launch(
        Launch((3, 1, 1), (64, 1, 1), [1.5, 255, np.zeros(1, np.int8)])
    )
    # Arguments as C would print them.
    expected = "".join(
        f"block {b} of 3:  1.50|text    |000000ff|+255|{'ABC'[b]}|%\n"
        "-5000000000 18446744073709551615 -3 -7     42|0.667|1.234568e+04|1e-10\nplain\nend\nt0 t1 t2 "
        for b in range(3)
    )
    assert stats.output == expected


def test_what_was_printed_before_a_fault_is_kept():
    source = """
#include <cstdio>
extern "C" __global__ void k(int* out) { printf("before %d\\n", threadIdx.x); out[threadIdx.x * 1000] = 1; }
"""
    with pytest.raises(KernelFault) as caught:
        kernel(source).launch(Launch((1, 1, 1), (2, 1, 1), [np.zeros(4, np.int32)]))
    assert caught.value.output == "before 0\nbefore 1\n"


ASSERT = r"""
#include <cassert>
__device__ void check(int i, const int* limit) {
    assert(i < limit[0]);
}
extern "C" __global__ void k(const int* limit, int* out) {
    out[threadIdx.x] = 1;
    check(threadIdx.x, limit);
}
"""


@pytest.mark.parametrize("debug", [False, True])
def test_assert_says_where_and_what(debug):
    out = np.zeros(64, np.int32)
    k = kernel(ASSERT, debug=debug)
    k.launch(Launch((1, 1, 1), (64, 1, 1), [np.array([64], np.int32), out]))
    with pytest.raises(KernelFault) as error:
        k.launch(Launch((1, 1, 1), (64, 1, 1), [np.array([40], np.int32), out]))
    assert (error.value.kind, error.value.warp, error.value.lane) == ("assertion", 1, 8)
    assert (
        "test.cu:4" in error.value.message and "i < limit[0]" in error.value.message and "check" in error.value.message
    )
    assert [frame.line for frame in error.value.place.frames()][-1] in (4, 8)


def test_trap_and_its_line():
    source = 'extern "C" __global__ void k(int* p) {\n  if (p[threadIdx.x] == 7)\n    __trap();\n  p[0] = 1;\n}\n'
    data = np.arange(32, dtype=np.int32)
    with pytest.raises(KernelFault) as error:
        kernel(source).launch(Launch((1, 1, 1), (32, 1, 1), [data]))
    assert (error.value.kind, error.value.lane, error.value.place.line) == ("trap", 7, 3)


def test_an_access_is_reported_at_the_users_line_through_an_inlined_function():
    source = (
        'template <class T> __device__ T get(const T* p, int i) {\n  return p[i];\n}\nextern "C" __global__ void'
        " k(const float* p, float* o) {\n  o[threadIdx.x] =\n    get(p, threadIdx.x + 1);\n}\n"
    )
    with pytest.raises(KernelFault) as error:
        kernel(source).launch(
            Launch(
                (1, 1, 1),
                (32, 1, 1),
                [np.zeros(32, np.float32), np.zeros(32, np.float32)],
                names=("weights", "out"),
            )
        )
    assert (error.value.kind, error.value.lane) == ("out-of-bounds", 31)
    assert [frame.line for frame in error.value.place.frames()] == [2, 6]
    assert "0 bytes past the end of weights (128 bytes)" in error.value.detail


def test_clocks_go_forward_and_are_the_same_in_every_run():
    source = (
        'extern "C" __global__ void k(long long* o) { long long a = clock64(); __syncthreads(); long long b ='
        " clock64(); unsigned c = clock(); o[threadIdx.x] = b - a; o[32 + threadIdx.x] = c; }"
    )
    results = []
    for _ in range(2):
        out = np.zeros(64, np.int64)
        kernel(source).launch(Launch((1, 1, 1), (32, 1, 1), [out]))
        assert (out > 0).all()
        results.append(out.tobytes())
    assert results[0] == results[1]


LANGUAGE = r"""
struct Pair { int a; double b; short c[3]; };
__device__ int table[5] = {3, 1, 4, 1, 5};
__device__ int* pointer = table + 2;
__constant__ float weights[4] = {0.5f, 1.5f, -2.0f, 8.0f};
__device__ unsigned counter;
__device__ __noinline__ int power(int base, int n) { int r = 1; while (n > 0) { if (n & 1) r *= base;
base *= base; n >>= 1; } return r; }
__device__ __noinline__ Pair make(int i) { Pair p; p.a = i * 3; p.b = i * 0.5; for (int k = 0; k < 3;
++k) p.c[k] = (short)(i - k); return p; }
__device__ int classify(int i) { switch (i % 7) { case 0: return 10; case 1: i += 5; case 2: return i;
case 3: case 4: return -1; case 5: break; default: return power(i, 3); } return 99; }
extern "C" __global__ void k(long long* out, Pair by_value, signed char small, int n) {
    extern __shared__ int dynamic[];
    __shared__ short fixed[64];
    int t = threadIdx.x;
    int local[8];
    for (int i = 0; i < 8; ++i) local[i] = i * t;
    dynamic[t] = power(t, 3);
    fixed[t] = (short)(t * 100);
    __syncthreads();
    long long sum = 0;
    for (int i = 0; i < n; ++i) {
        if (i == t) continue;
        if (i > 2 * t + 5) break;
        sum += dynamic[(i + t) % 64] + local[i & 7] + table[i % 5] + (int)weights[i & 3];
        if (sum > 1000000) goto enough;
    }
enough:
    __syncthreads();
    Pair mine = make(t);
    sum += mine.a + (long long)mine.b + mine.c[t % 3] + by_value.a + (long long)by_value.b +
    by_value.c[2] + small + *pointer + fixed[63 - t] + classify(t);
    int* generic = t & 1 ? &dynamic[t] : &local[3];
    atomicAdd(generic, 1);
    sum += *generic;
    int v = t;
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffff, v, offset);
    if (__any_sync(0xffffffff, t == 40)) sum += 1000;
    __syncthreads();
    atomicAdd(&counter, 1u);
    int votes = __popc(__ballot_sync(0xffffffff, t & 1)) + __reduce_add_sync(0xffffffff, t);
    if (sum % 3 == 1) return;
    out[t] = sum + v + (dynamic[t] >> 1) + votes;
}
"""


def test_optimised_and_debug_builds_agree():
    pair = np.zeros(1, np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "<i2", 3)], align=True))
    pair[0] = (7, 2.5, (1, 2, -3))
    outs = []
    for debug in (False, True):
        out = np.full(64, -1, np.int64)
        kernel(LANGUAGE, debug=debug).launch(Launch((1, 1, 1), (64, 1, 1), [out, pair.tobytes(), -4, 50], 256))
        outs.append(out.tolist())
    assert outs[0] == outs[1]
    assert -1 in outs[0] and len(set(outs[0])) > 20  # both ends were reached
    # Thread 0 by hand: 247 from the loop, 6 from the struct, -4 + 4, 6300, 10, 1, 496 from the shuffles, 0, 16 and 496.
    assert outs[0][0] == 7572


WMMA = r"""
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
extern "C" __global__ void k(const half* a, const half* b, float* c, float* map, int n) {
    __shared__ __align__(32) half tile[16 * 24];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k0 = 0; k0 < n; k0 += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) tile[i / 16 * 24 + i % 16] = a[i / 16 * n + k0 + i % 16];
        __syncwarp();
        wmma::load_matrix_sync(fa, tile, 24);
        wmma::load_matrix_sync(fb, b + k0, n);
        wmma::mma_sync(acc, fa, fb, acc);
        __syncwarp();
    }
    for (int i = 0; i < acc.num_elements; ++i) { map[threadIdx.x * 8 + i] = acc.x[i]; acc.x[i] *= 2.0f; }
    wmma::store_matrix_sync(c, acc, 16, wmma::mem_row_major);
}
"""


def run_wmma(arch: str, debug: bool) -> bytes:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((16, 48)).astype(np.float16) for _ in range(2))
    c, lanes = np.zeros((16, 16), np.float32), np.zeros((32, 8), np.float32)
    kernel(WMMA, arch, debug).launch(Launch((1, 1, 1), (32, 1, 1), [a, b, c, lanes, 48]))
    assert np.allclose(c, 2 * (a.astype(np.float32) @ b.astype(np.float32).T), atol=1e-2)
    from wmmadiag.fragments import wmma_map

    fragment = wmma_map("m16n16k16", "d", "f32", arch)
    assert (lanes * 2 == c[fragment.row, fragment.col]).all()
    return c.tobytes()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_wmma_with_and_without_optimisation(arch):
    assert run_wmma(arch, False) == run_wmma(arch, True)


def test_tensor_cores_of_two_architectures_differ():
    assert run_wmma("sm_75", False) != run_wmma("sm_90", False)


CONTRACTED = r"""
extern "C" __global__ void k(const float* x, float* y, unsigned* z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    y[i] = __expf(v) + sqrtf(fabsf(v)) / (v + 3.0f) + sinf(v) * __fmaf_rn(v, v, 1.0f)
    + (float)(double)rsqrtf(v * v + 1e-3f) + log2f(fabsf(v));
    z[i] = __float_as_uint(v) * 2654435761u ^ __umulhi(i, 0x9E3779B9u) ^ __funnelshift_l(i, z[i], 7)
    ^ (unsigned)__float2int_rz(v * 1000.0f);
}
"""


def test_all_engines_give_the_same_bits(monkeypatch):
    available = native.isas()
    if len(available) < 2:
        pytest.skip("this machine runs one engine only")
    x = (np.random.default_rng(9).standard_normal(512) * 5).astype(np.float32)
    results = {}
    for isa in available:
        monkeypatch.setenv("WMMADIAG_ISA", isa)
        native.engine.cache_clear()
        y, z = np.zeros(512, np.float32), np.arange(512, dtype=np.uint32)
        kernel(CONTRACTED).launch(Launch((4, 1, 1), (128, 1, 1), [x, y, z]))
        assert np.isfinite(y).all()
        results[isa] = y.tobytes() + z.tobytes() + run_wmma("sm_90", False)
    monkeypatch.undo()
    native.engine.cache_clear()
    assert len(set(results.values())) == 1, list(results)
