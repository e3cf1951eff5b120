"""Operators on statements: what each must yield, and a look-alike that it must not."""

from __future__ import annotations

import pytest
from changed_texts import each, made, yields
from operator_bodies import ASYNC, FILL_FRAGMENT, SHARED

PRODUCT = (
    f"{FILL_FRAGMENT} __shared__ half s[256]; wmma::fragment<wmma::accumulator, 16, 16, 16, float> g;"
    " wmma::fill_fragment(g, 0.0f);"
)

LOADED = (
    "__shared__ float s[64]; float x[2]; int r = threadIdx.x;"
    " for (int h = 0; h < 2; ++h) x[h] = a[(r + h * 32) * n + m];"
)
YIELDS = [
    (
        "transposed",
        "float s[64]; int q = threadIdx.x % 8, k = m * 16; s[k + 2 * q] = a[q]; s[k + 2 * q + 1] = b[q];"
        " { out[0] = s[n]; }",
        "s[k + q] = a[q]; s[k + q + 8] = b[q];",
    ),
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
        "swapped_values",
        "for (int i = 0; i < m; ++i) { const int p = i & 1; const int q = (i & 1) ^ 1; out[p] = a[q]; }",
        "const int p = (i & 1) ^ 1; const int q = i & 1;",
    ),
    ("swapped_values", "int p = m, q = n; out[p] = a[q];", "int p = n, q = m;"),
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
    ("returned", "const int r = threadIdx.x; out[r] = a[r * m + n];", "const int r = threadIdx.x; if (r >= n) return;"),
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
    ("repeated", "float x[4]; x[0] *= alpha; out[0] = x[1];", "x[0] *= alpha; x[1] *= alpha;"),
    (
        "repeated",
        "float x = a[0]; x += __shfl_xor_sync(~0u, x, 2); out[0] = x;",
        "x += __shfl_xor_sync(~0u, x, 2); x += __shfl_xor_sync(~0u, x, 1);",
    ),
    ("returned_again", "out[0] = total(a[0]);", "x = x + __shfl_xor_sync(~0u, x, 8); return x"),
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
        "before",
        "float x = a[0], y = b[0]; x = x * m - y; y = x * n + y; out[0] = x + y;",
        "const auto before_x = x; x = x * m - y; y = before_x * n + y;",
    ),
    ("before", "float v = a[0]; v *= alpha; out[0] = v; out[1] = v;", "out[0] = before_v; out[1] = v;"),
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
    ("swapped_values", "const int p = m; const int q = p + 1; out[p] = a[q];", "p = p + 1"),
    ("swapped_values", "const int p = m; const float q = a[1]; out[p] = q;", "p = a[1]"),
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
    (
        "piece_further",  # both pieces are set
        "half* p = (half*)out + m; *(uint4*)p = make_uint4(0, 0, 0, 0); *(uint4*)(p + 8) = make_uint4(0, 0, 0, 0);",
        "sizeof",
    ),
    ("piece_further", "half* p = (half*)out + m; *(uint4*)p = *(const uint4*)a;", "sizeof"),  # no constant
    ("left_in_registers", f"{LOADED} {{ s[r] = x[0]; out[r] = x[1]; }}", "(r + 32)]"),  # nothing is left there
    ("left_in_registers", f"{LOADED} {{ s[r] = x[0]; out[0] = x[m]; }}", "x[1]"),  # which one is read is not told
    ("turned_round", "for (int i = 0; i < n; i += 2) out[i] = a[i];", "--i"),
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
    ("quotient_and_remainder", "int r = threadIdx.x & 7, c = threadIdx.x >> 4; out[r] = a[c];", "r = threadIdx.x >> 4"),
    ("quotient_and_remainder", "int r = threadIdx.x % 8, c = threadIdx.x / 16; out[r] = a[c];", "r = threadIdx.x / 16"),
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
    ("returned_again", "out[0] = total(a[0]);", "a = "),
    ("looped", "{ int j = threadIdx.x; out[j] = b[j]; }", "for ("),
    (
        "advanced_beside",
        "const int begin = 0; for (int i = 0; i < n;) { int count = m * i; out[begin] = a[count]; ++i; }",
        "begin += count;",
    ),
    ("wrapped", "int x = threadIdx.x; if (x == n) { out[0] = a[x]; }", "x = 0;"),  # it is no counter
    ("wrapped", "int x = 0; for (int i = 0; i < m; ++i) { if (++x == n) { x = 0; } out[i] = a[x]; }", "x -= n;"),
    ("before", "float x = a[0]; x = b[0]; out[0] = x;", "before"),  # what it held does not matter to what it is set to
    ("before", "float x = a[0]; x += 1; x = b[0]; out[0] = x;", "before"),  # set anew between
]


@each(YIELDS)
def test_statement_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted, ASYNC)


@each(NEVER)
def test_statement_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted, ASYNC)


def test_what_is_put_before_a_loop_leaves_its_pragma_with_it() -> None:
    body = "float x[2];\n#pragma unroll\n  for (int i = 0; i < n; ++i) { x[0] = a[i]; out[i] = x[0]; }"
    texts = [text for _, text in made(body, "moved")]
    assert any("x[0] = a[i]; #pragma unroll for (" in text for text in texts)


def test_threads_are_sent_away_before_what_looks_like_a_prototype() -> None:
    """`Plan plan(r);` may declare an object or a function: a tree cannot tell."""
    head = "struct Plan { __device__ Plan(int) {} };\n"
    body = "const int r = threadIdx.x; const Plan plan(r); out[r * m] = a[r];"
    assert yields(body, "returned", "const int r = threadIdx.x; if (r >= m) return;", head)


@pytest.mark.parametrize("body", ["int r;", "int r; { out[0] = a[0]; }"], ids=["nothing else", "a block"])
def test_no_thread_is_sent_away_where_nothing_says_what_it_has_to_do(body: str) -> None:
    assert made(body, "returned") == []


def test_a_flag_that_nothing_reads_says_where_something_else_is_returned() -> None:
    head = """template <bool kUnit> __device__ float at(const float* p, int i, int j, int n) {
        if (i >= n || j >= n) return 0.0f;
        return p[i * n + j]; }
    """
    body = "const int i = threadIdx.x, j = threadIdx.y; out[0] = at<true>(a, i, j, n);"
    wanted = "if (kUnit && i == j) return 1.0f; return p[i * n + j];"
    assert yields(body, "returned_where_told", wanted, head)
    assert made(body, "returned_where_told", head.replace("return 0.0f;", "return kUnit ? 1.0f : 0.0f;")) == []
