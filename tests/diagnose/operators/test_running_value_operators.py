"""Operators on values that run on, are summed, scaled or begun anew: what each must yield, and a look-alike."""

from __future__ import annotations

from changed_texts import each, yields
from operator_bodies import ASYNC, FILL_FRAGMENT, SHARED

YIELDS = [
    (
        "begins_alike",
        "int z = blockIdx.z; a += z * m; for (int i = 0; i < sizes.rows; ++i) out[i * n + m] = a[i];",
        "out += z * n * sizes.rows;",
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
        "combined",
        "float s[2] = {}; float t[2]; for (int i = 0; i < n; ++i) s[i & 1] += a[i];"
        " for (int i = 0; i < 2; ++i) { t[i] = fmaxf(t[i], __shfl_xor_sync(~0u, t[i], 1)); out[i] = 1.0f / s[i]; }",
        "s[i] += __shfl_xor_sync(~0u, s[i], 1); out[i] = 1.0f / s[i];",
    ),
    ("stored_back", "float x = a[m]; for (int i = 0; i < n; ++i) x -= out[i]; b[0] = x;", "a[m] = x;"),
    ("stored_back", "float x = 0.0f; if (m < n) { x = a[m]; x -= out[0]; } b[0] = x;", "a[m] = x; }"),
    (
        "stored_back",
        "{ float x = a[m], y = out[m]; b[0] = stepped(x, y); } out[0] = 0.0f;",
        "b[0] = stepped(x, y); out[m] = y; }",
    ),
    ("assignment", "out[0] = 0.0f; AT(m, n) += a[0];", "AT(m, n) -= a[0];"),
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
        "anew",
        "float x = 0; for (int i = 0; i < n; ++i) x += a[i]; out[m] = x; for (int j = m; j < n; j += 4) x += b[j * m];",
        "out[m] = x; x = 0.0f; for (int j",
    ),
    (
        "fragment_scaled",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f; "
        "wmma::store_matrix_sync(out, f, n, wmma::mem_row_major);",
        "f.x[i_] *= alpha; wmma::store",
    ),
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
        "added_once",
        "float x = 0.0f; for (int i = 0; i < n; ++i) x += a[i] + b[m]; out[0] = x;",
        "x += a[i]; x += b[m]; out[0] = x;",
    ),
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
        "brought_up",  # it is kept up to date
        "float old = -1.0f; for (int i = 0; i < n; ++i) { float now = a[i]; out[i] = now - old; old = a[i + 1]; }",
        "old = now",
    ),
    (
        "anew_once_read",  # each round begins it
        "float part; float sum = 0; for (int i = 0; i < n; ++i) { part = 0; part += a[i]; sum += part * b[i]; }",
        "sum += part * b[i]; part = 0",
    ),
    ("stored_back", "const float x = a[m]; out[0] = x;", "a[m] = x"),
    ("stored_back", "{ float x = a[m], y = out[m]; b[0] = stepped(x, y); }", "a[m] = x"),  # by a const reference
    ("assignment", "auto p = sizes; p = sizes; out[0] = a[0];", "p += sizes"),
    ("set_beside", f"{SHARED} __shared__ float l[64]; l[t] = 0.0f; s[t] = 1.0f; l[t] += a[t];", "l[t] = 0.0f; l"),
    (
        "set_beside",  # of another type, and no place of it has a name there
        f"{SHARED} __shared__ int l[64]; s[t] = 0.0f; {{ int r = m; l[r] += m; }}",
        "s[t] = 0.0f; l[",
    ),
    ("completed", "float x = a[0]; out[0] = x;", "x = total(x)"),
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
    ("moved", "out[0] = a[0]; float x = a[1]; out[1] = x;", "out[1] = x; float x"),
    (
        "moved",
        "float x = 0, y; x += a[0]; y = a[1] * x; out[0] = x; out[1] = x;",
        "out[0] = x; out[1] = x; x += a[0]; y =",
    ),
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
    ("warp_wide", "float x = a[0]; x += __shfl_xor_sync(~0u, x, 8); out[0] = x;", "lanes_"),  # they are already
]


@each(YIELDS)
def test_running_value_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted, ASYNC)


@each(NEVER)
def test_running_value_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted, ASYNC)


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
