"""Operators on statements, their order and declarations: what each must yield, and a look-alike that it must not."""

from __future__ import annotations

import pytest
from changed_texts import each, made, yields

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

PRODUCT = (
    f"{FILL_FRAGMENT} __shared__ half s[256]; wmma::fragment<wmma::accumulator, 16, 16, 16, float> g;"
    " wmma::fill_fragment(g, 0.0f);"
)

LOADED = (
    "__shared__ float s[64]; float x[2]; int r = threadIdx.x;"
    " for (int h = 0; h < 2; ++h) x[h] = a[(r + h * 32) * n + m];"
)
DP4A = 'unsigned d = 0; asm volatile("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(d) : "r"(m), "r"(n)); out[0] = d;'
YIELDS = [
    (
        "begins_alike",
        "int z = blockIdx.z; a += z * m; for (int i = 0; i < sizes.rows; ++i) out[i * n + m] = a[i];",
        "out += z * n * sizes.rows;",
    ),
    (
        "transposed",
        "float s[64]; int q = threadIdx.x % 8, k = m * 16; s[k + 2 * q] = a[q]; s[k + 2 * q + 1] = b[q];"
        " { out[0] = s[n]; }",
        "s[k + q] = a[q]; s[k + q + 8] = b[q];",
    ),
    (
        "scaled_by_rows",
        "float x[4] = {}, l[2] = {}, f[2]; for (int k = 0; k < n; ++k) {"
        " for (int h = 0; h < 2; ++h) { f[h] = a[h]; l[h] = l[h] * f[h] + b[k]; } x[k & 3] += b[k]; }"
        " for (int h = 0; h < 2; ++h) { out[h] = x[h * 2] / l[h] + x[h * 2 + 1] / l[h]; }",
        "} for (int h = 0; h < 2; ++h) { x[h * 2] *= f[h]; x[h * 2 + 1] *= f[h]; }",
    ),
    (
        "scaled_by_rows",
        f"{SHARED} __shared__ float f[8], l[8];"
        " for (int k = 0; k < n; ++k) { if (t < 8) { f[t] = a[t]; l[t] += b[k]; }"
        " __syncthreads(); for (int i = t; i < 64; i += 32) s[i] += b[i]; }"
        " for (int i = t; i < 64; i += 32) out[i] = s[i] / l[i / 8];",
        "__syncthreads(); for (int i = t; i < 64; i += 32) s[i] *= f[i / 8];",
    ),
    ("begins_alike", "a += (size_t)blockIdx.z * m * n; out[m] = a[m] + b[m];", "b += (size_t)blockIdx.z * m;"),
    ("begins_alike", "a += blockIdx.z * m + n; out[m] = a[m] + b[m];", "b += n;"),
    (
        "kept",
        f"{PRODUCT} wmma::mma_sync(f, x, y, f); for (int i = 0; i < f.num_elements; ++i) f.x[i] *= 2.0f;"
        " wmma::load_matrix_sync(x, s, 16); wmma::store_matrix_sync(out, g, n, wmma::mem_row_major);",
        "wmma::store_matrix_sync(s, f, 16, wmma::mem_row_major); __syncwarp(); wmma::load_matrix_sync(x, s, 16);",
    ),
    (
        "begun",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; float* p = out + m; f.x[0] *= 2.0f;"
        " wmma::store_matrix_sync(p, f, n, wmma::mem_row_major);",
        "wmma::load_matrix_sync(f, p, n, wmma::mem_row_major); f.x[0]",
    ),
    (
        "combined",
        "float s[2] = {}; float t[2]; for (int i = 0; i < n; ++i) s[i & 1] += a[i];"
        " for (int i = 0; i < 2; ++i) { t[i] = fmaxf(t[i], __shfl_xor_sync(~0u, t[i], 1)); out[i] = 1.0f / s[i]; }",
        "s[i] += __shfl_xor_sync(~0u, s[i], 1); out[i] = 1.0f / s[i];",
    ),
    (
        "declared_elsewhere",
        "float v = 0.0f; for (int i = 0; i < n; ++i) { if (i < m) v = a[i]; out[i] = v; }"
        " { float v = b[0]; out[n] = v; }",
        "{ float v = 0.0f; if (i < m)",
    ),
    (
        "transposed",
        "float s[64]; int k = m * 8; for (int i = 0; i < 4; ++i) { s[k + i] = a[i]; s[k + i + 4] = b[i]; }"
        " out[0] = s[n];",
        "s[k + 2 * i] = a[i]; s[k + 2 * i + 1] = b[i];",
    ),
    (
        "quotient_and_remainder",
        "int l = threadIdx.x; int r = l & 7; for (int i = 0; i < n; ++i) { int c = l >> 3; out[r * n + c] = a[i]; }",
        "int r = l >> 2; for (int i = 0; i < n; ++i) { int c = l & 3;",
    ),
    (
        "carried",
        "float v[2]; for (int i = 0; i < 2; ++i) v[i] = a[i];"
        " for (int i = 0; i < 2; ++i) out[i] = v[i] * alpha + b[i];",
        "v[i] = a[i] + b[i]; for (int i = 0; i < 2; ++i) out[i] = v[i] * alpha;",
    ),
    (
        "filled_again",
        "float v[2], x[2] = {}, y[2] = {}; __shared__ float s[8], t[8];"
        " v[0] = s[m]; v[1] = s[n]; copy4(x, v); copy4(y, v); out[0] = x[0] + y[0] + t[0];",
        "copy4(x, v); v[0] = t[m]; v[1] = t[n]; copy4(y, v);",
    ),
    ("stored_back", "float x = a[m]; for (int i = 0; i < n; ++i) x -= out[i]; b[0] = x;", "a[m] = x;"),
    ("stored_back", "float x = 0.0f; if (m < n) { x = a[m]; x -= out[0]; } b[0] = x;", "a[m] = x; }"),
    (
        "stored_back",
        "{ float x = a[m], y = out[m]; b[0] = stepped(x, y); } out[0] = 0.0f;",
        "b[0] = stepped(x, y); out[m] = y; }",
    ),
    (
        "piece_further",
        "half* p = (half*)out + m; *(uint4*)p = make_uint4(0, 0, 0, 0); p[n] = p[0];",
        "*(uint4*)(p + sizeof(uint4) / sizeof(*p)) = make_uint4(0, 0, 0, 0); p[n]",
    ),
    (
        "left_in_registers",
        f"{LOADED} {{ s[r] = x[0]; }} out[0] = s[0];",
        "s[r] = x[0]; s[(r + 32)] = x[1]; }",
    ),
    ("turned_round", "for (int i = n - 1; i >= 0; --i) out[i] = a[i + 1];", "for (int i = 0; i < n; ++i)"),
    ("turned_round", "for (int i = 0; i < n; ++i) out[i + 1] = out[i];", "for (int i = n - 1; i >= 0; --i)"),
    ("fragment", "rows_t f; out[0] = f.x[0];", "columns_t f;"),
    ("assignment", "out[0] = 0.0f; AT(m, n) += a[0];", "AT(m, n) -= a[0];"),
    (
        "barrier_more",
        f"{SHARED} s[t] = a[t]; if (t == 0) atomicAdd(out, 1.0f);",
        "s[t] = a[t]; __threadfence(); __syncthreads();",
    ),
    (
        "swapped",
        "int r = blockIdx.y * 8; int c = blockIdx.x * 16; out[r * n + c] = a[c];",
        "int r = blockIdx.x * 8; int c = blockIdx.y * 16;",
    ),
    ("rows", "const float* sA = a + m * n; const float* sB = b; out[0] = sA[0] + sB[0];", "sB = b + m * n;"),
    (
        "rows",
        "const float* p = a + blockIdx.z * m * n; const float* q = b; out[0] = p[0] + q[0];",
        "q = b + blockIdx.z * n;",
    ),
    (
        "rows",
        "int x_pitch = m, y_pitch = n; int x = blockIdx.x * x_pitch; int y = 0; out[x + y_pitch] = a[y];",
        "int y = blockIdx.x * y_pitch;",
    ),
    (
        "for_unread",
        "float x[2], y[2]; x[0] = a[0]; y[0] = b[0]; copy4(out, x); out[1] += 1.0f; out[2] = 0.0f;",
        "+= 1.0f; copy4(out, y); out[2]",
    ),
    (
        "parallel",
        "float x0 = a[m]; float x1 = a[m + 32] * 2; for (int i = 0; i < n; ++i) { x0 = a[i]; out[i] = x0 + x1; }",
        "x0 = a[i]; x1 = a[i + 32] * 2;",
    ),
    ("alike", f"{SHARED} s[t] = a[t * n + m]; __syncthreads(); out[t] = b[t * n + 5];", "b[t * n + m]"),
    (
        "anew",
        f"{FILL_FRAGMENT} for (int i = 0; i < n; ++i) {{ wmma::mma_sync(f, x, y, f);"
        " if (i == m) { wmma::store_matrix_sync(out, f, 16, wmma::mem_row_major); } }",
        "wmma::mem_row_major); wmma::fill_fragment(f, 0.0f); }",
    ),
    (
        "anew_once_stored",
        "float s = 0.0f, r = 0.0f; for (int i = 0; i < n; ++i) { s += a[i]; r += b[i];"
        " if (i % 4 == 3) { out[i] = s; out[m + i] = r; } }",
        "out[m + i] = r; s = 0.0f; r = 0.0f; }",
    ),
    (
        "scaled_by_element",
        "float f[2], s[2] = {}; for (int i = 0; i < n; ++i) { for (int h = 0; h < 2; ++h) { f[h] = a[i]; }"
        " for (int h = 0; h < 2; ++h) { s[h] += b[i]; } } out[0] = s[0] * f[0];",
        "f[h] = a[i]; s[h] *= f[h]; }",
    ),
    (
        "scaled",
        "float x[4][2]; for (int r = 0; r < n; ++r) { const float f = a[r]; out[r] = f; }"
        " for (int d = 0; d < 4; ++d) { out[d] = x[d][0] + x[d][1]; }",
        "const float f = a[r]; for (int d = 0; d < 4; ++d) { x[d][0] *= f; x[d][1] *= f; }",
    ),
    (
        "rest_cleared",
        "__shared__ float s[64]; for (int i = threadIdx.x; i < n / 2; i += 32) { s[i] = a[i]; }"
        " for (int k = 0; k < m / 2; ++k) out[k] = s[k];",
        "{ s[i] = a[i]; } for (int i = n / 2 + threadIdx.x; i < m / 2; i += 32) s[i] = 0.0f;",
    ),
    (  # the row of an element as another array of rows has it
        "scaled_by_array",
        "float x[4][4], s[2]; for (int t = 0; t < n; ++t) { const float f[2] = {a[t], b[t]}; out[0] = f[0] + f[1];"
        " for (int i = 0; i < 4; ++i) s[i / 2] += a[i]; }"
        " for (int d = 0; d < 4; ++d) { for (int i = 0; i < 4; ++i) out[d] = x[d][i]; }",
        "b[t]}; for (int d = 0; d < 4; ++d) for (int i = 0; i < 4; ++i) x[d][i] *= f[i / 2];",
    ),
    (
        "wrapped",
        "int x = 0, y = 0; for (int i = 0; i < m; ++i) { out[i] = a[x] + b[y]; if (++x == n) { ++y; } }",
        "if (++x == n) { x = 0; ++y; }",
    ),
    (
        "wrapped",
        "int x = 0, y = 0; for (int i = 0; i < m; ++i) { x += 4; if (x >= n) ++y; out[i] = a[x] + b[y]; }",
        "if (x >= n) { x -= n; ++y; }",
    ),
    (
        "moved",
        "float x = 0; for (int i = 0; i < n; ++i) {"
        " const float f = a[i]; out[0] = f; out[1] = f; out[2] = f; x *= f; }",
        "const float f = a[i]; x *= f; out[0] = f;",
    ),
    (
        "stored_back",
        "__shared__ float s[4]; float m = s[n]; m = fmaxf(m, a[0]); const float f = s[n] - m; out[0] = f;",
        "const float f = s[n] - m; s[n] = m; out[0] = f;",
    ),
    (  # rows of a thread's warp, in memory
        "scaled",
        "__shared__ float s[512]; int lane = threadIdx.x % 32; for (int r = 0; r < n; ++r) { const float f = a[r];"
        " out[r] = f; } for (int i = threadIdx.x; i < m; i += 64) {"
        " int r = i / 32, d = i % n; out[i] = s[r * 32 + d]; }",
        "const float f = a[r]; for (int d = lane; d < n; d += 32) s[r * 32 + d] *= f;",
    ),
    (
        "combined",
        "float x = 0, y = 0; for (int i = 0; i < n; ++i) { x = fmaxf(x, a[i]); y += a[i]; }"
        " x = fmaxf(x, __shfl_xor_sync(~0u, x, 1)); x = fmaxf(x, __shfl_xor_sync(~0u, x, 2)); out[0] = x + y;",
        "y += __shfl_xor_sync(~0u, y, 1); y += __shfl_xor_sync(~0u, y, 2);",
    ),
    (
        "combined",
        "float s[2], m = a[0]; for (int i = 0; i < n; ++i) { s[i % 2] += a[i]; }"
        " m = fmaxf(m, __shfl_xor_sync(~0u, m, 1)); m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));"
        " float x = s[0]; out[0] = x + m;",
        "float x = s[0]; x += __shfl_xor_sync(~0u, x, 1); x += __shfl_xor_sync(~0u, x, 2);",
    ),
    (
        "completed",
        "float x = 0; if (m > n) { for (int i = threadIdx.x; i < n; i += 32) { x += a[i]; } } out[0] = x;",
        "} } x = total(x);",
    ),
    ("assignment", "for (int i = 0; i < n; i = 4) out[i] = a[i];", "i += 4"),
    (
        "swapped_targets",
        "float x[4]; x[1] = a[0] * alpha; x[0] = b[n + 1]; out[0] = x[0];",
        "x[0] = a[0] * alpha; x[1] = b",
    ),
    (
        "quotient_and_remainder",
        "int r = threadIdx.x % 8, c = threadIdx.x / 8; out[r * n + c] = a[0];",
        "r = threadIdx.x / 8, c = threadIdx.x % 8",
    ),
    (
        "quotient_and_remainder",
        "int r = threadIdx.x % m; int c = threadIdx.x / m; int u = m % n; int v = m / n; out[r * n + c] = a[u + v];",
        "r = threadIdx.x / n; int c = threadIdx.x % n;",
    ),
    (
        "quotient_and_remainder",
        "int r = threadIdx.x & 7, c = threadIdx.x >> 3; out[r * n + c] = a[0];",
        "r = threadIdx.x >> 3, c = threadIdx.x & 7",
    ),
    (
        "anew",
        "float x = 0; for (int i = 0; i < n; ++i) x += a[i]; out[m] = x; for (int j = m; j < n; j += 4) x += b[j * m];",
        "out[m] = x; x = 0.0f; for (int j",
    ),
    ("returned", "const int r = threadIdx.x; out[r] = a[r * m + n];", "const int r = threadIdx.x; if (r >= n) return;"),
    (
        "fragment_scaled",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; "
        "wmma::store_matrix_sync(out, f, n, wmma::mem_row_major);",
        "f.x[i_] *= alpha; wmma::store",
    ),
    ("advanced", "int stage = 0; for (int i = 0; i < n; ++i) { out[stage] = a[i]; }", "out[stage] = a[i]; stage ^= 1;"),
    (
        "advanced_beside",
        "int begin = 0; for (int i = 0; i < n;) { int count = m * i; out[begin] = a[count]; ++i; }",
        "++i; begin += count;",
    ),
    ("alike", f"{SHARED} s[t] = a[t * n + 4]; __syncthreads(); out[t] = b[t * n + 5];", "b[t * n + 4]"),
    (  # of the other axis
        "alike",
        "int ih = threadIdx.y, iw = threadIdx.x, size_h = m, size_w = n;"
        " int ph = ih * size_h + m; int pw = iw * size_h + m; out[ph] = a[pw];",
        "int pw = iw * size_w + m;",
    ),
    ("alike", "float x = a[m] * a[m]; float y = b[n] * b[m]; out[0] = x + y;", "b[n] * b[n]"),
    (
        "companion",
        "float d[4], x = a[m]; int id[4]; d[0] = x; id[0] = m; for (int i = 1; i < 4; ++i) { d[i] = d[i - 1]; }",
        "d[i] = d[i - 1]; id[i] = id[i - 1];",
    ),
    (
        "companion",  # members that differ beside each other are told from each other, too
        "struct { float u; float v; } s = {a[m], b[m]}; float x = s.u; float y = s.v; for (int i = 0; i < n; ++i)"
        " { x += s.u * m; }",
        "x += s.u * m; y += s.v * m;",
    ),
    (
        "parallel",
        "float x[4], y[4]; x[0] = a[m] * 2; x[1] += x[0]; y[0] = b[n] * 2; out[0] = x[1] + y[0];",
        "y[1] += y[0];",
    ),
    (
        "parallel",  # behind what both have beside them
        "float x, y = 0; int i = 0, j = 0; if (m < n) { x = a[i + m]; y = b[j + m]; ++i; ++j; }"
        " for (int k = 0; k < n; ++k) { x = a[i + k]; y = b[j + k]; ++i; } out[0] = x + y;",
        "y = b[j + k]; ++i; ++j; }",
    ),
    (
        "swapped",
        "float x = a[m + 1] * 2; float y = a[n + 1] * 2; out[0] = x + y;",
        "x = a[n + 1] * 2; float y = a[m + 1]",
    ),
    ("removal", f"{SHARED} s[t] = a[t]; out[t] = s[t];", "int t = threadIdx.x; out[t] = s[t];"),
    ("assignment", f"{SHARED} for (int i = 0; i < n; ++i) s[t] = a[i];", "s[t] += a[i];"),
    ("rescaled", "float x = 0; for (int i = 0; i < n; ++i) x += a[i]; out[0] = x;", "x = x * alpha + a[i];"),
    ("atomic", "out[0] += a[threadIdx.x];", "atomicAdd(&out[0], a[threadIdx.x]);"),
    ("moved", "float x; for (int i = 0; i < n; ++i) { x = 0.0f; x += a[i]; } out[0] = x;", "x = 0.0f; for (int i"),
    ("moved", "float x = a[0]; out[0] = x; out[1] = a[1];", "out[1] = a[1]; out[0] = x;"),
    (
        "moved",  # both go, and neither alone
        "float x[2]; x[0] = 0; x[1] = 0; for (int i = 0; i < n; ++i) { x[0] += a[i]; out[i] = x[0] + x[1]; }",
        "float x[2]; for (int i = 0; i < n; ++i) { x[0] = 0; x[1] = 0; x[0] += a[i];",
    ),
    (
        "moved",
        "float x = 0, y = 0; out[0] = x + 1; out[1] = y + 1; x = a[m] * 2; y = a[n] * 2;",
        "y = 0; x = a[m] * 2; y = a[n] * 2; out[0] = x + 1; out[1] = y + 1;",
    ),
    (
        "moved",
        f"{SHARED} s[t] = a[t]; for (int i = 0; i < n; ++i) {{ out[i] += s[i]; }}",
        "{ s[t] = a[t]; out[i] += s[i]; }",
    ),
    ("repeated", "float x[4]; x[0] *= alpha; out[0] = x[1];", "x[0] *= alpha; x[1] *= alpha;"),
    (
        "repeated",
        "float x = a[0]; x += __shfl_xor_sync(~0u, x, 2); out[0] = x;",
        "x += __shfl_xor_sync(~0u, x, 2); x += __shfl_xor_sync(~0u, x, 1);",
    ),
    ("returned_again", "out[0] = total(a[0]);", "x = x + __shfl_xor_sync(~0u, x, 8); return x"),
    (
        "moved",
        "float x; for (int i = 0; i < n; ++i) { out[i] = x; if (i > m) x = 0.0f; x += a[i]; out[i] += x; }",
        "if (i > m) x = 0.0f; for (int i",
    ),
    (
        "scaled",
        "float x = 0; for (int i = 0; i < n; ++i) { const float f = a[i]; x += f; } out[0] = x;",
        "const float f = a[i]; x += f; x *= f;",
    ),
    (
        "combined",
        "float x = 0, y = 0; for (int i = 0; i < n; ++i) { x = fmaxf(x, a[i]); y += a[i]; }"
        " x = fmaxf(x, __shfl_xor_sync(~0u, x, 1)); out[0] = x + y;",
        "y += __shfl_xor_sync(~0u, y, 1);",
    ),
    (
        "looped",
        "for (int i = 0; i < n; i += 64) out[i] = a[i]; { int j = threadIdx.x; out[j] = b[j]; }",
        "for (int j = threadIdx.x; j < n; j += 64) { out[j]",
    ),
    (
        "looped",
        "for (int i = 0; i < n; i += 64) out[i] = a[i]; if (int j = threadIdx.x; j < m) { out[j] = b[j]; }",
        "for (int j = threadIdx.x; j < m; j += 64) { out[j]",
    ),
    ("barrier_more", f"{SHARED} s[t] = a[t]; out[t] = s[63 - t];", "s[t] = a[t]; __syncthreads(); out"),
    ("barrier_more", f"{SHARED} if (t < 32) {{ s[t] = a[t]; out[t] = s[31 - t]; }}", "s[t] = a[t]; __syncwarp(); out"),
    ("barrier_other", f"{SHARED} s[t] = a[t]; __syncwarp(); out[t] = s[63 - t];", "s[t] = a[t]; __syncthreads(); out"),
    ("barrier_other", f"{SHARED} s[t] = a[t]; __syncthreads(); out[t] = s[t];", "s[t] = a[t]; out[t]"),
    (
        "wait_more",
        "commit(); WAIT(1); __syncthreads(); out[0] = a[0]; __syncthreads();",
        "out[0] = a[0]; WAIT(0); __syncthreads();",
    ),
    (
        "fragment",
        "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> f; f.x[0] = a[0];",
        "half, wmma::col_major> f;",
    ),
    (
        "fragment",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, half> f; f.x[0] = a[0];",
        "accumulator, 16, 16, 16, float> f;",
    ),
    ("initial", "float x; for (int i = 0; i < n; ++i) x += a[i]; out[0] = x;", "float x = 0;"),
    (
        "initial",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; wmma::mma_sync(f, f, f, f);",
        "> f; wmma::fill_fragment(f, 0.0f);",
    ),
    ("storage", "float x[64]; x[threadIdx.x] = a[0]; out[0] = x[0];", "__shared__ __align__(32) float x[64];"),
    ("storage", "__shared__ __align__(4) float x[64]; x[threadIdx.x] = a[0]; out[0] = x[0];", "__align__(16)"),
    (
        "declared_elsewhere",
        "float x = 0; for (int i = 0; i < n; ++i) { x += a[i]; out[i] = x; }",
        "{ float x = 0; x += a[i];",
    ),
    (
        "declared_elsewhere",
        "float x = 0; float y = 1; for (int i = 0; i < n; ++i) { x += a[i]; y *= a[i]; out[i] = x + y; }",
        "{ float x = 0; float y = 1; x += a[i];",
    ),
    (
        "brought_up",
        "float old = -1.0f; for (int i = 0; i < n; ++i) { float now = fmaxf(old, a[i]); out[i] = now - old; }",
        "out[i] = now - old; old = now; }",
    ),
    (
        "brought_up",
        "float old[2] = {}; for (int i = 0; i < n; ++i) for (int h = 0; h < 2; ++h)"
        " { float now = fmaxf(old[h], a[i]); out[i] = now - old[h]; }",
        "out[i] = now - old[h]; old[h] = now; }",
    ),
    (
        "anew_once_read",
        "float part[2] = {}; float sum[2] = {0.0f}; for (int i = 0; i < n; ++i) {"
        " for (int h = 0; h < 2; ++h) part[h] += a[i]; for (int h = 0; h < 2; ++h) sum[h] += part[h] * b[i]; }"
        " out[0] = sum[m];",
        "{ sum[h] += part[h] * b[i]; part[h] = 0.0f; }",
    ),
    (
        "declared_elsewhere",
        "for (int i = 0; i < n; ++i) { float x = 0; x += a[i]; out[i] = x; }",
        "float x = 0; for (int i",
    ),
    ("cast", "out[0] = *((float*)a + m);", "*(float*)(a + m)"),
    (
        "turned_operand",
        "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> f; "
        "wmma::load_matrix_sync(f, (const half*)a + m * 16 * n + k, n); out[0] = float(f.x[0]);",
        "wmma::row_major> f; wmma::load_matrix_sync(f, (const half*)a + m * 16 + k * n, n);",
    ),
    (
        "turned_operand",
        f"{SHARED} __shared__ half h[64][72]; wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> f; "
        "wmma::load_matrix_sync(f, &h[m * 16][k], 72); out[0] = float(f.x[0]);",
        "wmma::col_major> f; wmma::load_matrix_sync(f, &h[k][m * 16], 72);",
    ),
    (
        "turned_operand",
        f"{SHARED} __shared__ half h[2][640]; wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> f; "
        "wmma::load_matrix_sync(f, &h[m][n * 16 * 40 + k], 40); out[0] = float(f.x[0]);",
        "wmma::row_major> f; wmma::load_matrix_sync(f, &h[m][n * 16 + k * 40], 40);",
    ),
    (
        "added_once",
        "float x = 0.0f; for (int i = 0; i < n; ++i) x += a[i] + b[m]; out[0] = x;",
        "x += a[i]; x += b[m]; out[0] = x;",
    ),
    ("storage", "int8_t w = (int8_t)m; out[0] = w;", "uint8_t w"),
    ("storage", "narrow_t w = (narrow_t)m; out[0] = w;", "typedef signed char narrow_t"),
    ("widened", HALVES, "__shared__ float s[256]; wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;"),
    ("widened", HALVES, "wmma::fill_fragment(f, 0.0f);"),
    ("widened", HALVES, "out[0] = s[m];"),
    ("assembly", "unsigned r[4]; load(r, 0); out[0] = r[0];", "m8n8.x4.trans.shared.b16"),
    ("assembly", DP4A, "dp4a.s32.s32 %0"),
    ("assembly", DP4A, "dp4a.u32.s32 %0"),
    (
        "before",
        "float x = a[0], y = b[0]; x = x * m - y; y = x * n + y; out[0] = x + y;",
        "const auto before_x = x; x = x * m - y; y = before_x * n + y;",
    ),
    ("before", "float v = a[0]; v *= alpha; out[0] = v; out[1] = v;", "out[0] = before_v; out[1] = v;"),
    (
        "warp_wide",
        "float x = 0.0f; for (int i = threadIdx.x; i < n; i += 32) x += a[i]; out[0] = x;",
        "x += a[i]; for (int lanes_ = 16; lanes_ > 0; lanes_ /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes_);",
    ),
    (
        "warp_wide",
        "float x = a[0]; for (int i = threadIdx.x; i < n; i += 32) { x = fmaxf(x, a[i]); } out[0] = x;",
        "} for (int lanes_ = 16; lanes_ > 0; lanes_ /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lanes_));",
    ),
    (
        "set_beside",
        f"{SHARED} __shared__ float l[64]; s[t] = -INFINITY; {{ int r = m; s[r] = a[r]; l[r] = l[r] * alpha + a[r]; }}",
        "s[t] = -INFINITY; l[t] = 0",
    ),
    (
        "set_beside",
        f"{SHARED} __shared__ float l[64]; for (int i = 0; i < n; ++i) s[i] = -1.0f; l[t] = fmaxf(l[t], a[t]);",
        "{ s[i] = -1.0f; l[i] = -INFINITY; }",
    ),
    (
        "set_beside",
        f"{SHARED} __shared__ float l[64]; for (int d = t; d < n; d += 32) {{ s[d] = a[d]; }}"
        " for (int d = t; d < n; d += 32) { l[d * 2] *= alpha; l[d * 2] += s[d]; }",
        "s[d] = a[d]; l[d * 2] = 0",
    ),
    (
        "set_beside",
        f"{SHARED} __shared__ int l[64]; s[t] = a[t]; atomicAdd(&l[t], m); out[t] = l[t];",
        "s[t] = a[t]; l[t] = 0; atomicAdd",
    ),
    (
        "fragment_mapped",
        f"{PRODUCT} wmma::mma_sync(f, x, y, f);",
        "for (int i_ = 0; i_ < y.num_elements; ++i_) y.x[i_] = -y.x[i_]; wmma::mma_sync(f, x, y, f);",
    ),
    (
        "fragment_mapped",
        f"{PRODUCT} for (int i = 0; i < x.num_elements; ++i) x.x[i] = total(x.x[i]); wmma::mma_sync(f, x, y, f);",
        "for (int i = 0; i < y.num_elements; ++i) y.x[i] = total(y.x[i]); wmma::mma_sync(f",
    ),
    (
        "fragment_mapped",
        f"{PRODUCT} round_all(x); for (int i = 0; i < n; ++i) wmma::mma_sync(f, x, y, f);",
        "{ round_all(y); wmma::mma_sync(f, x, y, f); }",
    ),
]

NEVER = [
    ("added_once", "float x = 0.0f; for (int i = 0; i < n; ++i) x += a[i] + b[i]; out[0] = x;", "; x += b[i]"),
    (
        "added_once",
        "float x = 0.0f; for (int i = 0; i < n; ++i) { int j = m; x += a[i] + b[j]; } out[0] = x;",
        "} x += b[j];",
    ),
    (
        "scaled_by_rows",
        "float x[2], f[2]; f[0] = a[0]; for (int h = 0; h < 2; ++h) out[h] = x[h] / f[h];",
        "x[h] *= f[h]",  # it is what divides, and nothing runs on
    ),
    ("begins_alike", "a += m; b += n; out[m] = a[m] + b[m];", "b += m"),  # both are moved
    (
        "kept",
        f"{PRODUCT} wmma::mma_sync(f, x, y, f); wmma::load_matrix_sync(x, s, 16); out[0] = f.x[0];",
        "wmma::store_matrix_sync(s",  # it is read
    ),
    (
        "begun",
        f"{FILL_FRAGMENT} wmma::mma_sync(f, x, y, f); f.x[0] *= 2.0f;"
        " wmma::store_matrix_sync(out, f, n, wmma::mem_row_major);",
        "wmma::load_matrix_sync(f, out, n, wmma::mem_row_major); f.x[0]",
    ),
    ("declared_elsewhere", "float v = 0.0f; for (int i = 0; i < n; ++i) { v += a[i]; } out[0] = v;", "++i) { float v"),
    ("declared_elsewhere", "const float v = a[m]; for (int i = 0; i < n; ++i) { out[i] = v; }", "++i) { const float v"),
    (
        "declared_elsewhere",  # the loop's own head hangs on it
        "bool more = true; for (int i = 0; more; ++i) { out[i] = a[i]; more = i < n; }",
        "{ bool more = true; out",
    ),
    (
        "brought_up",  # it is kept up to date
        "float old = -1.0f; for (int i = 0; i < n; ++i) { float now = a[i]; out[i] = now - old; old = a[i + 1]; }",
        "old = now",
    ),
    (
        "anew_once_read",  # each round begins it
        "float part; float sum = 0; for (int i = 0; i < n; ++i) { part = 0; part += a[i]; sum += part * b[i]; }",
        "sum += part * b[i]; part = 0",
    ),
    (
        "piece_further",  # both pieces are set
        "half* p = (half*)out + m; *(uint4*)p = make_uint4(0, 0, 0, 0); *(uint4*)(p + 8) = make_uint4(0, 0, 0, 0);",
        "sizeof",
    ),
    ("piece_further", "half* p = (half*)out + m; *(uint4*)p = *(const uint4*)a;", "sizeof"),  # no constant
    ("left_in_registers", f"{LOADED} {{ s[r] = x[0]; out[r] = x[1]; }}", "(r + 32)]"),  # nothing is left there
    ("left_in_registers", f"{LOADED} {{ s[r] = x[0]; out[0] = x[m]; }}", "x[1]"),  # which one is read is not told
    ("stored_back", "const float x = a[m]; out[0] = x;", "a[m] = x"),
    ("stored_back", "{ float x = a[m], y = out[m]; b[0] = stepped(x, y); }", "a[m] = x"),  # by a const reference
    ("turned_round", "for (int i = 0; i < n; i += 2) out[i] = a[i];", "--i"),
    ("fragment", "rows_t f; out[0] = f.x[0];", "right_t f"),  # of another use as well
    ("barrier_more", f"{SHARED} s[t] = a[t]; out[t] = s[t ^ 1];", "__threadfence(); __syncthreads();"),
    ("assignment", "auto p = sizes; p = sizes; out[0] = a[0];", "p += sizes"),
    (
        "rows",  # a product that has one size
        "const float* p = a + blockIdx.z * n; const float* q = b; out[0] = p[0] + q[0];",
        "q = b + n",
    ),
    ("rows", "int x = m; int y = n; out[x] = a[y];", "int y = m"),  # nothing of the row goes with the name
    ("fragment_mapped", f"{PRODUCT} wmma::mma_sync(f, x, y, f); y.x[0] = x.x[0];", "-f.x[i_]; y.x[0]"),  # none reads it
    (
        "fragment_mapped",
        f"{PRODUCT} for (int i = 0; i < 8; ++i) x.x[i] = f.x[i]; wmma::mma_sync(f, x, y, f);",
        "y.x[i] = f.x[i]",
    ),  # it is made of another one
    ("set_beside", f"{SHARED} __shared__ float l[64]; l[t] = 0.0f; s[t] = 1.0f; l[t] += a[t];", "l[t] = 0.0f; l"),
    (
        "set_beside",  # of another type, and no place of it has a name there
        f"{SHARED} __shared__ int l[64]; s[t] = 0.0f; {{ int r = m; l[r] += m; }}",
        "s[t] = 0.0f; l[",
    ),
    ("completed", "float x = a[0]; out[0] = x;", "x = total(x)"),
    ("quotient_and_remainder", "int r = threadIdx.x & 7, c = threadIdx.x >> 4; out[r] = a[c];", "r = threadIdx.x >> 4"),
    ("quotient_and_remainder", "int r = threadIdx.x % 8, c = threadIdx.x / 16; out[r] = a[c];", "r = threadIdx.x / 16"),
    ("anew", "float x = 0; for (int i = 0; i < n; ++i) out[i] = x;", "x = 0; x = 0"),
    (  # what begins in each round
        "anew_once_stored",
        "for (int i = 0; i < n; ++i) { float s = 0.0f; s += a[i]; if (i % 4 == 3) { out[i] = s; } }",
        "s = 0.0f; }",
    ),
    (  # nothing runs on
        "scaled_by_element",
        "float f[2], s[2] = {}; for (int h = 0; h < 2; ++h) { f[h] = a[h]; s[h] += b[h]; } out[0] = s[0] * f[0];",
        "s[h] *= f[h];",
    ),
    ("advanced", "const int stage = 0; for (int i = 0; i < n; ++i) { out[stage] = a[i]; }", "stage ^= 1;"),
    ("advanced", "int stage = 0; for (int i = 0; i < n; ++i) { out[stage] = a[i]; ++stage; }", "stage ^= 1;"),
    (
        "alike",
        "int p = m, q = n, h = m, w = n; int x = p * h; int y = q * h; out[x] = a[y + w];",
        "q * w",
    ),  # nothing says so
    ("alike", "float x = a[m] * 2; float y = b[n] * 2; out[0] = x + y;", "float y = a[n]"),
    (
        "companion",
        "float d[4], x = a[m]; int id[4]; d[0] = x; id[0] = m; for (;;) { d[1] = d[0]; id[1] = m; }",
        "id[0];",
    ),
    ("assembly", DP4A, "dp4a.u32.u8"),  # of another kind
    (
        "turned_operand",  # the other load would be read as it was
        "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> f; "
        "wmma::load_matrix_sync(f, (const half*)a + m * 16 * n + k, n); wmma::load_matrix_sync(f, (const half*)b, n); "
        "out[0] = float(f.x[0]);",
        "wmma::row_major> f",
    ),
    ("companion", "float d[4], e[4]; d[0] = a[m]; d[1] = a[n]; e[0] = a[m]; d[2] = a[m];", "e[2]"),
    (
        "for_unread",
        "float x[2], y[2]; x[0] = a[0]; y[0] = b[0]; copy4(out, x); out[1] += y[0]; out[2] = 0.0f;",
        "copy4(out, y)",  # something reads it
    ),
    ("parallel", "float x[4]; x[0] = a[m] * 2; x[1] += x[0]; out[0] = b[n] * 2;", "b[1]"),
    (
        "parallel",  # what follows both is of other names
        "int i = 0, j = 0, k = 0; if (m < n) { out[m] = a[i + m]; ++i; ++j; } if (n < m) { out[m] = a[i + m]; ++k; }",
        "++k; ++j;",
    ),
    (
        "removal",
        "float x = a[0]; out[0] = x;",
        "k(const float* a, const float* b, float* out, int m, int n, Sizes sizes, float alpha) { out[0] = x;",
    ),
    ("moved", "out[0] = a[0]; float x = a[1]; out[1] = x;", "out[1] = x; float x"),
    (
        "moved",
        "float x = 0, y; x += a[0]; y = a[1] * x; out[0] = x; out[1] = x;",
        "out[0] = x; out[1] = x; x += a[0]; y =",
    ),
    (
        "barrier_more",
        f"{SHARED} if (t < 32) {{ s[t] = a[t]; out[t] = s[31 - t]; }}",
        "s[t] = a[t]; __syncthreads(); out",
    ),
    ("barrier_more", "float x = m; float y = n; float z = x * y; out[0] = z;", "float y = n; __syncthreads(); float z"),
    ("wait_more", f"{SHARED} s[t] = a[t]; __syncthreads(); out[t] = s[t];", "WAIT(0);"),
    ("storage", "const float x[2] = {1, 2}; out[0] = x[m];", "__shared__ __align__(32) const float x"),
    ("widened", HALVES, "__shared__ float t[8]"),  # not joined to the accumulator
    ("returned_again", "out[0] = total(a[0]);", "a = "),
    ("initial", "__shared__ float x[64]; out[0] = x[0];", "x[64] = {}"),
    ("looped", "{ int j = threadIdx.x; out[j] = b[j]; }", "for ("),
    (
        "advanced_beside",
        "const int begin = 0; for (int i = 0; i < n;) { int count = m * i; out[begin] = a[count]; ++i; }",
        "begin += count;",
    ),
    ("wrapped", "int x = threadIdx.x; if (x == n) { out[0] = a[x]; }", "x = 0;"),  # it is no counter
    ("wrapped", "int x = 0; for (int i = 0; i < m; ++i) { if (++x == n) { x = 0; } out[i] = a[x]; }", "x -= n;"),
    ("scaled", "float x = 0; const float f = a[0]; x += f; out[0] = x;", "x *= f;"),  # not in a loop
    (  # where what is stored to is known in the loop alone
        "rest_cleared",
        "__shared__ float s[64]; for (int i = threadIdx.x; i < n; i += 32) { int j = i * 2; s[j + i] = a[i]; }"
        " for (int k = 0; k < m; ++k) out[k] = s[k];",
        "s[j + i] = 0",
    ),
    (  # nothing says which of two factors an element has
        "scaled_by_array",
        "float x[4]; for (int t = 0; t < n; ++t) { const float f[2] = {a[t], b[t]}; out[0] = f[0] + f[1]; }"
        " for (int i = 0; i < 4; ++i) out[i] = x[i];",
        "x[i] *= f[",
    ),
    ("cast", "out[0] = (float)m;", "out[0] = m;"),
    ("before", "float x = a[0]; x = b[0]; out[0] = x;", "before"),  # what it held does not matter to what it is set to
    ("before", "float x = a[0]; x += 1; x = b[0]; out[0] = x;", "before"),  # set anew between
    ("warp_wide", "float x = a[0]; x += __shfl_xor_sync(~0u, x, 8); out[0] = x;", "lanes_"),  # they are already
]


@each(YIELDS)
def test_statement_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted, ASYNC)


@each(NEVER)
def test_statement_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted, ASYNC)


def test_an_insertion_is_no_edit_of_what_stands_there() -> None:
    for change, _ in made(f"{SHARED} s[t] = a[t]; out[t] = s[63 - t];", "barrier_more"):
        assert change.kind == "insertion" and all(edit.start == edit.end for edit in change.edits)


def test_what_is_put_before_a_loop_leaves_its_pragma_with_it() -> None:
    body = "float x[2];\n#pragma unroll\n  for (int i = 0; i < n; ++i) { x[0] = a[i]; out[i] = x[0]; }"
    texts = [text for _, text in made(body, "moved")]
    assert any("x[0] = a[i]; #pragma unroll for (" in text for text in texts)


def test_a_barrier_is_known_by_what_its_function_does() -> None:
    head = ASYNC + '__device__ void meet() { asm volatile("bar.sync 0;"); }\n'
    assert yields(f"{SHARED} s[t] = a[t]; meet(); out[t] = s[t];", "barrier_other", "s[t] = a[t]; out[t]", head)
    assert not yields(f"{SHARED} s[t] = a[t]; copy4(out, a); out[t] = s[t];", "barrier_other", "s[t] = a[t]; out[t]")


def test_what_another_function_accumulates_is_set_beside_what_is_set_here() -> None:
    head = """struct Rows { float most[4], sum[4];
    __device__ void clear() { for (int i = 0; i < 4; ++i) most[i] = -1.0f; }
    __device__ void add(float x) { for (int i = 0; i < 4; ++i) { most[i] = fmaxf(most[i], x); sum[i] += x; } } };
    struct Row { float most, sum; };
    __device__ void add(Row& row, float x) { row.most = fmaxf(row.most, x); row.sum += x; }
    """
    body = "Rows s; s.clear(); s.add(a[0]); Row r; r.most = -1.0f; add(r, a[1]); out[0] = s.sum[0] + r.sum;"
    assert yields(body, "set_beside", "{ most[i] = -1.0f; sum[i] = 0", head)
    assert yields(body, "set_beside", "r.most = -1.0f; r.sum = 0", head)
    assert not yields(body.replace("add(r", "r.sum = b[0]; add(r"), "set_beside", "r.most = -1.0f; r.sum = 0", head)


def test_a_wait_that_nothing_calls_is_put_in_where_copies_are_made() -> None:
    copy = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(t * 4), "l"(a + t));'
    body, read = f"{SHARED} {copy} __syncthreads(); out[t] = s[t];", "__syncthreads(); out[t]"
    helpers = {
        '__device__ void landed() { asm volatile("cp.async.wait_all;"); }\n': "landed();",
        "template <int N> __device__ void landed() { __pipeline_wait_prior(N); }\n": "landed<0>();",
        '#define LANDED(n) asm volatile("cp.async.wait_group %0;" ::"n"(n))\n': "LANDED(0);",
        "": 'asm volatile("cp.async.wait_all;" ::: "memory");',
    }
    for head, wanted in helpers.items():
        assert yields(body, "wait_more", f"{wanted} {read}", head)
        assert not yields(body.replace(copy, "s[t] = a[t];"), "wait_more", f"{wanted} {read}", head)
    waits = f"{SHARED} {copy} LANDED(0); {read} = s[t];"
    head = next(one for one in helpers if "LANDED" in one)
    assert not yields(waits, "wait_more", "cp.async.wait_all", head)  # it has what waits


def test_an_arrival_that_nothing_calls_is_at_what_others_wait_for() -> None:
    head = "".join(
        f'__device__ void {name}(int id) {{ asm volatile("bar.{name} %0, 64;" ::"r"(id)); }}\n'
        for name in ("sync", "arrive")
    ).replace("void sync", "void meet")
    body = f"{SHARED} s[t] = a[t]; {{ int id = m; if (t < 32) {{ meet(id + 1); out[t] = s[t + 32]; }} }} out[0] = s[0];"
    assert yields(body, "wait_more", "arrive(id + 1); meet(id + 1);", head)
    assert not yields(body, "wait_more", "} arrive(id + 1); out[0]", head)  # where it has no such name
    other = f"{body} arrive(5); meet(5);"  # it is called, and somebody waits where nobody arrives
    assert yields(other, "wait_more", "arrive(id + 1); meet(id + 1);", head)
    assert not yields(other.replace("meet(id + 1); ", ""), "wait_more", "arrive(id + 1);", head)  # nobody waits there


def test_threads_are_sent_away_before_what_looks_like_a_prototype() -> None:
    """`Plan plan(r);` may declare an object or a function: a tree cannot tell."""
    head = "struct Plan { __device__ Plan(int) {} };\n"
    body = "const int r = threadIdx.x; const Plan plan(r); out[r * m] = a[r];"
    assert yields(body, "returned", "const int r = threadIdx.x; if (r >= m) return;", head)


@pytest.mark.parametrize("body", ["int r;", "int r; { out[0] = a[0]; }"], ids=["nothing else", "a block"])
def test_no_thread_is_sent_away_where_nothing_says_what_it_has_to_do(body: str) -> None:
    assert made(body, "returned") == []


def test_a_type_is_as_wide_as_what_it_is_given_as_it_is() -> None:
    head = "__device__ short held(short v) { return (short)(v > 32767 ? 32767 : v); }\n"
    assert yields("long long x = m; out[0] = held(x * n >> 2);", "wide_enough", "held(long long v)", head)
    assert yields("short x = m; x += n; out[0] = x;", "wide_enough", "int x = m;")
    assert yields("out[0] = kept(m);", "wide_enough", "int kept(int v)", "__device__ short kept(int v) { return v; }\n")
    for body in (
        "long long x = m; out[0] = held((short)(x * n));",
        "int x = threadIdx.x; x += 2; float y = x; out[0] = y;",
    ):
        assert made(body, "wide_enough", head) == []


def test_a_flag_that_nothing_reads_says_where_something_else_is_returned() -> None:
    head = """template <bool kUnit> __device__ float at(const float* p, int i, int j, int n) {
        if (i >= n || j >= n) return 0.0f;
        return p[i * n + j]; }
    """
    body = "const int i = threadIdx.x, j = threadIdx.y; out[0] = at<true>(a, i, j, n);"
    wanted = "if (kUnit && i == j) return 1.0f; return p[i * n + j];"
    assert yields(body, "returned_where_told", wanted, head)
    assert made(body, "returned_where_told", head.replace("return 0.0f;", "return kUnit ? 1.0f : 0.0f;")) == []
