"""Pieces of kernels that tests of several kinds of operators begin with."""

from __future__ import annotations

SHARED = "__shared__ float s[64]; int t = threadIdx.x;"

ASYNC = """typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> rows_t;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> columns_t;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right_t;
typedef unsigned char narrow_t;
#define AT(r, c) out[(r) * 64 + (c)]
__device__ float total(float x) { return x + __shfl_xor_sync(~0u, x, 16); }
#define WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n))
__device__ float stepped(const float& x, float& y) { y += x; return y; }
__device__ void commit() { asm volatile("cp.async.commit_group;"); }
__device__ void load(unsigned (&r)[4], unsigned p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(p));
}
"""

HALVES = (
    "__shared__ half s[256]; wmma::fragment<wmma::accumulator, 16, 16, 16, half> f; __shared__ half t[8];"
    " wmma::fill_fragment(f, __float2half(0.0f)); wmma::store_matrix_sync(s, f, 16, wmma::mem_row_major);"
    " out[0] = __half2float(s[m]); t[0] = s[0];"
)

FILL_FRAGMENT = (
    "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; wmma::fill_fragment(f, 0.0f);"
    " wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;"
    " wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;"
)

DP4A = 'unsigned d = 0; asm volatile("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(d) : "r"(m), "r"(n)); out[0] = d;'
