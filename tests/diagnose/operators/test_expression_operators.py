"""Operators on expressions: what each must yield, and a look-alike that it must not."""

from __future__ import annotations

from changed_texts import each, made, yields

FRAGMENT = "wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;"
COPY = "const int r = threadIdx.x / 16, c = threadIdx.x % 16; const int pitch = 24; __shared__ float s[16 * 24];"

TWICE = """int tx = threadIdx.x, ty = threadIdx.y, fx = blockIdx.x, fy = blockIdx.y;
const int step_x = m, step_y = n, pad_x = m, pad_y = n, dil_x = m, dil_y = n;"""

FAR = "\n".join("out[m] += a[0];" for _ in range(10))

# operator, body, what must come of it.
YIELDS = [
    ("number", "unsigned v = m; out[0] = __byte_perm(v, 0, 0x0414);", "0x1404)"),
    ("number", "unsigned v = m; out[0] = v & 0x0f0f0f0fu;", "v & 0xf0f0f0f0u"),
    (
        "sign_apart",
        "unsigned v = __byte_perm(m, 0, 0x1404); out[0] = v >> 1;",
        "((v & 0x80008000u) | (v >> 1 & 0x3fff3fffu))",
    ),
    (
        "number_everywhere",
        "const int* p = (const int*)a; out[0] = p[0] - 127; out[1] = p[1] - 127 + (p[2] - 127);",
        "out[0] = p[0] - 128; out[1] = p[1] - 128 + (p[2] - 128);",
    ),
    (
        "remaining",
        "const int x0 = blockIdx.x * 16; const int count = 16;"
        " for (int i = 0; i < count && i < n; ++i) out[x0 + i] = a[i];",
        "const int count = min(16, n - x0);",
    ),
    ("operation", "for (int i = 0; i < 4; ++i) out[i + 1] = a[0];", "out[1 << i]"),
    ("operation", "out[0] = alpha * a[0];", "a[0] / alpha"),
    ("negated", "out[0] = expf(a[0] * alpha);", "expf(-(a[0] * alpha))"),
    (
        "in_steps",
        "const int y = blockIdx.x / m; const int row = n + y; for (int b = 0; b < 4; ++b) out[(row + b) * 64] = a[0];",
        "y = blockIdx.x / m * 4;",
    ),
    ("looked_up", "const uint8_t* t = (const uint8_t*)b; int r = threadIdx.x; out[t[r]] = a[t[r]];", "a[r]"),
    ("from_the_end", "for (int i = 0; i < n; ++i) { const int k = i; out[k] = a[0]; }", "k = n - 1 - i;"),
    ("from_the_end", "const int c = threadIdx.x % 16; out[m + c] = a[c];", "a[15 - c]"),
    ("from_the_end", "out[0] = a[blockIdx.y * 64 + m];", "a[(gridDim.y - 1 - blockIdx.y) * 64 + m]"),
    (
        "digits",
        "int x = threadIdx.x % m, y = threadIdx.y % m; for (int c = 0; c < 3; ++c) out[c * m * m + y * m + x] = a[0];",
        "out[(y * m + x) * 3 + c]",
    ),
    (
        "digits",
        "for (int t = 0; t < 2; ++t) for (int j = 0; j < 4; ++j) out[t + 2 * j] = a[0];",
        "out[t * 4 + j]",
    ),
    ("negated", "float x = a[0]; out[0] = x * alpha - b[0];", "x = -a[0];"),
    ("negated", "out[0] = a[1] * alpha - b[0];", "= -a[1] * alpha - b[0];"),
    ("clipped", "half* h = (half*)out; h[0] = __float2half(a[0] + b[0]);", "__float2half(fmaxf(a[0] + b[0], 0.0f))"),
    ("term_more", "int shift = n - m; int t = threadIdx.x; if (t < m) out[t] = a[t];", "if (t < m + shift)"),
    ("based", "int x0 = blockIdx.x * 64; int t = threadIdx.x; out[x0 + t] = a[t];", "int t = x0 + threadIdx.x;"),
    (
        "based",
        "int x0 = blockIdx.x * 64; int t = threadIdx.x; out[x0 + t] = a[(size_t)(t) * n];",
        "a[(size_t)(x0 + t) * n]",
    ),
    ("exchange", "int r = threadIdx.x; out[(r + 1) * n + blockIdx.x + m] = a[0];", "out[r + 1 + (blockIdx.x + m) * n]"),
    (
        "exchange",
        "int r = threadIdx.x; out[0] = a[(size_t)(r + m) * n + blockIdx.x + threadIdx.y];",
        "a[r + m + (size_t)(blockIdx.x + threadIdx.y) * n]",
    ),
    ("term_more", "int w = threadIdx.x; out[w + m / 8] = a[m / 4];", "a[(m + w * 8) / 4]"),
    (
        "variable",
        "const int most = min(n, m - (int)blockIdx.x); for (int i = 0; i < n; ++i) out[i] = a[i] * most;",
        "i < most",
    ),
    (  # where it stands for the same
        "together",
        "int t = threadIdx.x; for (int i = 0; i < m - 1; ++i) out[i % (m - 1)] = a[t % (m - 1)];",
        "for (int i = 0; i < m - 1; ++i) out[i % m] = a[t % m];",
    ),
    (  # the second of three sizes, which is another one's first
        "together",
        "int p = blockIdx.x, q = blockIdx.y; out[p * m * n] = a[q * m * n]; out[n] = a[p * m * n];"
        " out[n + p] = b[n + q];",
        "out[p * m * m] = a[q * m * n]; out[n] = a[p * m * m]; out[n + p]",
    ),
    (  # the buffer that is read, where the other one was meant
        "together",
        "int p = blockIdx.x % 2; copy4(out + p * m, a); copy4(out + p * n, b);",
        "copy4(out + (1 - p) * m, a); copy4(out + (1 - p) * n, b);",
    ),
    (  # the other coordinate may have another size
        "exchange",
        "int r = threadIdx.x; out[m] = a[(size_t)(r + m) * n + blockIdx.x + threadIdx.y];",
        "a[r + m + (size_t)(blockIdx.x + threadIdx.y) * m]",
    ),
    (  # rows of [m, 16, n], read from [16, m, n]
        "axes",
        "const float* p = a + (blockIdx.y * 16 + blockIdx.x) * m * n; int r = threadIdx.x;"
        " for (int i = 0; i < n; ++i) out[r] = p[r * n + i];",
        "p = a + blockIdx.y * 16 * m * n + blockIdx.x * n; int r = threadIdx.x;"
        " for (int i = 0; i < n; ++i) out[r] = p[r * 16 * n + i];",
    ),
    (  # what says how far rows lie apart, for two arrays
        "axes",
        "const int row = n; int h = blockIdx.x, q = blockIdx.y, t = threadIdx.x;"
        " const float *p = a + (q * sizes.rows + h) * m * n;"
        " const float *r = b + (q * sizes.rows + h) * m * n; out[t] = p[t * row + q] + r[t * row + q];",
        "const int row = sizes.rows * n; int h = blockIdx.x, q = blockIdx.y, t = threadIdx.x;"
        " const float *p = a + q * sizes.rows * m * n + h * n;"
        " const float *r = b + q * sizes.rows * m * n + h * n; out[t] = p[t * row + q] + r[t * row + q];",
    ),
    (
        "axes",
        "int r = threadIdx.x, c = blockIdx.x; if (r < m) out[r * n + c] = a[0];",
        "out[c * m + r] = a[0];",
    ),
    (  # a variable that is a stride, and the extent of an index as well
        "axes",
        "int all = m * sizes.rows, r = threadIdx.x, c = blockIdx.x; if (r < all && c < n) out[c * all + r] = a[0];",
        "out[r * n + c] = a[0];",
    ),
    (
        "quarters",
        "int l = threadIdx.x; copy4(out, a + l % 16 * n + l / 16 * 8);",
        "a + (l ^ 8) % 16 * n + (l ^ 8) / 16 * 8",
    ),
    (
        "quarters",
        "int l = threadIdx.x; copy4(out, a + (l & 15) * n + (l >> 4) * 8);",
        "a + ((l & 7 | (l & 8) << 1 | (l & 16) >> 1) & 15) * n",
    ),
    (  # a row and a column that are declared one behind the other
        "quarters",
        "int l = threadIdx.x, m8 = m; int r = m8 + l % 16; int c = n + l / 16; copy4(out, a + r * n + c);",
        "int r = m8 + (l ^ 8) % 16; int c = n + (l ^ 8) / 16;",
    ),
    (
        "eights",
        "int l = threadIdx.x; int r = m + (l & 15); int c = n + (l >> 4); copy4(out, a + r * n + c);",
        "int r = m + (l & 7) + (l >> 4) * 8; int c = n + (l >> 3 & 1);",
    ),
    ("name_for_sum", "int r = threadIdx.x, at = r * 4; out[at] = a[r * 4 + 1];", "a[at]"),
    ("in_groups", "int h = blockIdx.y % m; out[h] = a[h % n];", "a[h / (m / n)]"),
    ("in_groups", "int h = blockIdx.y; out[h] = a[h / n];", "a[h / (gridDim.y / n)]"),
    ("in_groups", "int h = blockIdx.y; out[h] = a[h / (m / n)];", "a[h % n]"),
    ("in_groups", "int h = blockIdx.y; out[h] = a[h / (m / n)];", "a[h / n]"),
    (
        "sibling_term",
        "int g = threadIdx.x / 4, t = threadIdx.x % 4, f = threadIdx.y; out[m + f * 8 + t * 2] = a[(f * 8 + g) * n];",
        "out[m + f * 8 + g]",
    ),
    (
        "sibling_term",
        "int g = threadIdx.x / 4, t = threadIdx.x % 4, f = threadIdx.y; out[m + f * 8 + g] = a[f * 8 + t * 2];",
        "out[m + f * 8 + t * 2]",
    ),
    ("variable", f"{COPY} for (int i = 0; i < n; ++i) out[r] = a[c];", "a[i]"),  # nothing else names the counter
    ("variable", "int j = n; for (int i = 0; j < n; ++i) out[i] = a[i];", "i < n"),
    ("variable", f"{COPY} s[r % pitch] = a[m % pitch];", "a[r % pitch]"),  # what stands there elsewhere
    ("number", "out[0] = a[0] * 0.5f;", "a[0] * 1.0f"),
    ("operation", "int r = threadIdx.x; out[r + 16 + n] = a[0];", "out[r * 16 + n]"),
    ("factor_more", "int r = threadIdx.x; out[r] = a[r] + b[r * 24];", "a[r * 24]"),
    (
        "variable",
        "const int held = (m + 15) / 16, u = sizes.rows + sizes.cols, w = threadIdx.x; float f = sizes.scale;"
        " out[w * held + u] = f;",
        "out[w * sizes.stride + u]",
    ),
    (
        "step_ahead",
        "for (int i = threadIdx.x; i < n; i += m) { if (i + 1 < n) out[i] = a[i + 1]; }",
        "out[i] = a[i + m]",
    ),
    ("name_for_even", "out[blockIdx.x * gridDim.y * 16 + m] = a[0];", "out[blockIdx.x * n + m]"),
    ("name_for_even", "constexpr int T = 4, R = 16; int s = T * R * 2; out[s] = a[m];", "s = T * n"),
    (
        "name_for_even",
        "const int* p = (const int*)a; const int last = p[blockIdx.x + 1];"
        " for (int i = threadIdx.x; i < p[m]; i += 32) out[i] = b[last];",
        "i < last",
    ),
    ("first_use", "const int ratio = n / 2; int h = blockIdx.x; out[h * m] = a[h];", "out[h / ratio * m]"),
    ("first_use", "const int ratio = n / 2; int h = blockIdx.x + m; out[h] = a[h];", "out[h % ratio] = a[h]"),
    ("first_use", "const int left = n - 2; int h = blockIdx.x + m; out[h] = a[h];", "h = min(blockIdx.x + m, left);"),
    ("first_use", "float most; most = alpha; float x = a[n] + b[m]; out[0] = x;", "float x = a[n] + b[m] - most;"),
    (
        "name_for_sums",
        "int q = threadIdx.x / 4; for (int i = 0; i < 4; ++i) { out[i * m + (threadIdx.x & 7)] = a[0]; "
        "out[i * n + (threadIdx.x & 7)] = b[0]; }",
        "out[i * m + q] = a[0]; out[i * n + q]",
    ),
    (
        "magnitude",
        "int i = threadIdx.x, j = m; float s = a[0] - alpha * (float)(i - j); out[0] = s;",
        "* fabsf((float)(i - j))",
    ),
    ("magnitude", "int i = threadIdx.x, j = m; out[i - j] = a[0];", "out[abs(i - j)]"),
    (
        "magnitude",
        "float s = 0.f; for (int i = 0; i < n; ++i) s = fmaxf(s, a[i]); out[0] = s;",
        "fmaxf(s, fabsf(a[i]))",
    ),
    ("regrouped_calls", "__half2 v, s, z; v = __hfma2(v, s, __hneg2(z));", "__hmul2(__hsub2(v, z), s)"),
    ("regrouped_calls", "__half2 v, s, z; v = __hmul2(__hsub2(v, z), s);", "__hfma2(v, s, __hneg2(z))"),
    ("regrouped_calls", "float x = fmaf(a[0], a[1], b[0]); out[0] = x;", "__fmul_rn(__fadd_rn(a[0], b[0]), a[1])"),
    (
        "regrouped_calls",
        "float x = __fadd_rn(__fmul_rn(a[0], a[1]), b[0]); out[0] = x;",
        "__fmul_rn(__fadd_rn(a[1], b[0]), a[0])",
    ),
    ("factor_more", "for (int i = 0; i < m; i += 16, b += 16) out[i] = b[i] + a[i * n];", "b += 16 * n"),
    ("name_for_size", "int r = threadIdx.x; out[r * m] = a[r * (n / 4 + 3)];", "a[r * n]"),
    (
        "named",
        "int g = m * 4 + threadIdx.x + n; out[g] = a[threadIdx.x + n];",
        "a[g",
    ),
    ("named", "int t = threadIdx.x / 4 + n; out[t] = a[threadIdx.x / 4 + n];", "a[t]"),
    ("named", "const int* at = (const int*)b; int t = at[m] + n; out[t] = a[at[m + 1] - at[m]];", "a[at[m + 1] - t]"),
    (
        "begun",
        f"{FRAGMENT} wmma::fill_fragment(f, 0.0f); wmma::store_matrix_sync(out, f, n, wmma::mem_row_major);",
        "wmma::load_matrix_sync(f, out, n, wmma::mem_row_major); wmma::store",
    ),
    ("variable", f"{COPY} s[r * pitch + c] = a[r * n + c];", "a[r * m + c]"),
    ("variable", f"{COPY} s[r * pitch + c] = a[c];", "a[r]"),
    ("variable", "out[threadIdx.x] = a[blockIdx.y * blockDim.x];", "a[blockIdx.x * blockDim.x]"),
    ("variable", "out[threadIdx.x] = a[blockIdx.y * blockDim.x];", "a[blockIdx.y * blockDim.y]"),
    ("variable", "float4 v = ((float4*)a)[0]; out[0] = v.x + v.y + v.z + v.z;", "v.x + v.y + v.z + v.w"),
    ("variable", "out[threadIdx.x] = a[threadIdx.x * sizes.rows];", "a[threadIdx.x * sizes.cols]"),
    ("variable", "out[threadIdx.x] = a[threadIdx.x * Tile<BM>::rows];", "a[threadIdx.x * Tile<BM>::pitch]"),
    ("variable", "out[threadIdx.x] = a[0];", "out[threadIdx.x] = b[0]"),
    ("number", "out[threadIdx.x] = a[3];", "a[4]"),
    ("number", "out[threadIdx.x * 16] = a[0];", "threadIdx.x * 8"),
    ("number", "float x = 1.5f; out[0] = x * 2.0f;", "x * 1.5f"),
    ("name_for_number", "if (threadIdx.x < 16) out[threadIdx.x * n] = a[threadIdx.x * 16];", "a[threadIdx.x * n]"),
    (
        "name_for_number",
        "__shared__ float s[4][64]; int w = threadIdx.x / 32; s[0][threadIdx.x] = a[w]; out[w] = s[0][m];",
        "out[w] = s[w][m]",
    ),
    ("name_for_number", "float x[4]; for (int i = 0; i < 4; ++i) x[0] += a[i]; out[0] = x[1];", "x[i] += a[i]"),
    ("nudged", "for (int i = 0; i < n; ++i) out[i] = a[i];", "i < n - 1"),
    ("nudged", "out[threadIdx.x] = a[n];", "a[n + 1]"),
    ("identity", "float x = 0.0f; for (int i = 0; i < n; ++i) x = fmaxf(x, a[i]); out[0] = x;", "float x = -INFINITY"),
    (
        "identity",
        "float x = 0.0f; for (int i = 0; i < n; ++i) if (a[i] < x) x = a[i]; out[0] = x;",
        "float x = INFINITY",
    ),
    (
        "held_value",
        "float x[4]; for (int i = 0; i < 4; ++i) x[i] = out[i * n];"
        " for (int i = 0; i < 4; ++i) out[m] += out[i * n] * alpha;",
        "out[m] += x[i] * alpha",
    ),
    ("held_value", "float x = a[n] * alpha; if (a[n] > 1.0f) out[0] = x;", "if (x > 1.0f)"),
    (
        "unread_member",
        "float2 v = *reinterpret_cast<const float2*>(a); float x = 0.f; x += v.x * v.x; out[0] = x;",
        "x += v.x * v.x + v.y * v.y;",
    ),
    ("eights", "int t = threadIdx.x; out[t & 15] = a[0];", "out[(t & 7) + (t >> 4) * 8]"),
    ("eights", "int t = threadIdx.x; out[(t >> 3 & 1) * 8] = a[0];", "out[(t >> 4) * 8]"),
    ("eights", "int t = threadIdx.x; out[t / 16 * 8] = a[0];", "out[(t >> 3 & 1) * 8]"),
    ("steps_shifted", "float x = a[0]; for (int i = 1; i < 8; i <<= 1) x += a[i]; out[0] = x;", "i = 4; i < 32;"),
    ("steps_shifted", "float x = a[0]; for (int i = 4; i > 0; i /= 2) x += a[i]; out[0] = x;", "i = 16; i >= 4;"),
    (
        "identity",
        "float x[2] = {0.f, 0.f}; for (int i = 0; i < n; ++i) if (a[i] > x[1]) x[1] = a[i]; out[0] = x[1];",
        "float x[2] = {-INFINITY, -INFINITY}",
    ),
    (
        "identity",
        "float x = -INFINITY; for (int i = 0; i < n; ++i) x = fmaxf(x, i < m ? a[i] : 0.f); out[0] = x;",
        "i < m ? a[i] : -INFINITY",
    ),
    ("identity", "float x; x = 0.0f; for (int i = 0; i < n; ++i) x *= a[i]; out[0] = x;", "x = 1.0f;"),
    ("name_for_number", "copy4(out, a); out[0] = place(0, n);", "place(m, n)"),
    ("carried", "float x = a[0]; out[0] = fmaxf(x + alpha, 0.0f);", "float x = a[0] + alpha; out[0] = fmaxf(x, 0.0f)"),
    ("carried", "float x = a[0] * alpha; out[0] = x - b[0];", "float x = a[0]; out[0] = x * alpha - b[0]"),
    (
        "carried",
        "float x = a[0]; out[0] = (m < n ? x * alpha : 0.0f) + b[0];",
        "float x = a[0] + b[0]; out[0] = m < n ? x * alpha : 0.0f;",
    ),
    (
        "carried",
        "float x = a[0] + b[0]; out[0] = m < n ? x * alpha : 0.0f;",
        "float x = a[0]; out[0] = (m < n ? x * alpha : 0.0f) + b[0];",
    ),
    (
        "carried",
        "float x = sqrtf(a[0] * alpha); if (m < n) x += b[0]; out[0] = x;",
        "float x = a[0] * alpha; if (m < n) x += b[0]; out[0] = sqrtf(x);",
    ),
    ("carried", "float x = a[0]; x += b[0]; out[0] = sqrtf(x);", "float x = sqrtf(a[0]); x += b[0]; out[0] = x;"),
    ("less", "out[threadIdx.x] = a[threadIdx.x * n + m];", "a[threadIdx.x * n]"),
    ("less", "out[threadIdx.x] = a[min(m, n)];", "a[m]"),
    ("less", "out[threadIdx.x] = alpha * alpha * a[0];", "= alpha * a[0]"),
    ("less", "out[threadIdx.x] = (float)(int)a[0] * alpha;", "(float)a[0] * alpha"),
    ("operation", "int w = threadIdx.x / 32; out[w] = a[w];", "threadIdx.x % 32"),
    ("operation", "out[threadIdx.x] = a[0] + a[1];", "a[0] - a[1]"),
    ("group", "int g = blockIdx.x % n; out[g] = a[g];", "blockIdx.x / (m / n)"),
    ("exchange", "out[0] = alpha - a[0];", "a[0] - alpha"),
    ("exchange", "__shared__ float s[8][8]; int r = threadIdx.x, c = threadIdx.y; s[r][c] = a[0];", "s[c][r]"),
    ("exchange", f"{COPY} s[0] = *(a + r * n + c);", "a + c * n + r"),
    ("exchange", f"{COPY} s[0] = *(a + r * n + c);", "a + c * m + r"),
    ("exchange", f"{COPY} s[0] = a[((blockIdx.y * m + r) * n + c) * 64];", "((blockIdx.y * n + c) * m + r) * 64"),
    ("factor_more", f"{COPY} s[c * pitch] = a[r];", "a[r * pitch]"),
    (  # what the kernel is given, before what is known when it is compiled, be there ever so much of that
        "factor_more",
        "".join(f"constexpr int c{i} = {i + 3}; " for i in range(9))
        + "int r = threadIdx.x; "
        + "".join(f"out[r * c{i}] = a[r]; " for i in range(9))
        + "for (int i = 0; i < m; i += 16, b += 16) out[i] = b[i] + a[i * n];",
        "b += 16 * n",
    ),
    (
        "counted_by",
        "for (int k = 0; k < n; ++k) { int g = k / m; out[g] = a[g] + b[(k + 1) * 32]; }",
        "g = k * 32 / m;",
    ),
    ("factor_more", "float x = a[0]; out[0] = x;", "float x = a[0] * alpha"),
    ("term_more", "int r = threadIdx.x, t = m + r; bool f = t < n; if (!f) out[0] = m >> r;", "m >> t - n"),
    ("term_more", "int k0 = blockIdx.x, c = threadIdx.x; if (n - c > 8) out[0] = a[k0 + c];", "n - c - k0 > 8"),
    ("term_more", "int k0 = blockIdx.x; int r = threadIdx.x; out[k0 + r] = a[r];", "a[r + k0]"),
    (
        "donor",
        "int r = threadIdx.x; for (int i = 0; i < n * m; ++i) out[i] = a[0]; for (int i = 0; i < n; ++i) out[i] = r;",
        "i < n * m; ++i) out[i] = r;",
    ),
    ("rounded", "int tiles = n / 16; out[0] = tiles;", "(n + 16 - 1) / 16"),
    (
        "term_more",
        "int more = n - m, r = threadIdx.x, c = threadIdx.y; out[0] = a[n + more]; if (c > r) out[1] = a[1];",
        "c > r + more",
    ),
    ("rounded", "for (int i = 0; i < n / 2; ++i) out[i] = a[i];", "i < (m + 2 - 1) / 2"),
    ("looked_up", "const int* t = (const int*)b; int r = blockIdx.x % 3; out[r] = a[0];", "r = t[blockIdx.x]"),
    ("mapped", "int r = threadIdx.x, c = threadIdx.y; out[place(r, c)] = a[r * 64 + c];", "a[place(r, c)]"),
    (
        "mapped",
        "int r = threadIdx.x, c = threadIdx.y; *(out + m + r * 64 + c) = a[m + place(r, c)];",
        "out + m + place(r, c)",
    ),
    (
        "turned",
        "__shared__ float s[2][64]; int cur = 0; for (int i = 0; i < n; ++i) { s[cur][i] = a[i]; cur ^= 1; }",
        "s[cur ^ 1][i]",
    ),
    ("turned", "__shared__ float s[3][64]; for (int i = 0; i < n; ++i) { s[i][0] = a[i % 3]; }", "s[(i + 1) % 3][0]"),
    ("variable", "int end = n * 16; for (int i = 0; i < n; ++i) out[i] = a[i * 2];", "i < end"),  # made of it
    (
        "factor_more",
        "float x = 0.0f; for (int i = 0; i < n; ++i) x += a[i]; out[0] = sqrtf(x + alpha);",
        "x / n + alpha",
    ),
    ("nudged", "int row = m; out[threadIdx.x * row] = a[0];", "row = m * 3"),
    ("within_warp", "int w = threadIdx.x / 32; if (threadIdx.x == 0) out[w] = a[w];", "if (threadIdx.x % 32 == 0)"),
    ("within_warp", "const int t = threadIdx.x; out[t] = a[m];", "out[t / 32]"),
    (
        "term_more",
        "int t = threadIdx.x; if (t < m) { out[t] = 0.0f; } else { int w = t / 32; out[w] = a[w]; }",
        "w = (t - m) / 32",
    ),
    (
        "together",
        "int j = threadIdx.x; if (j < m) out[0] = a[j]; float x = j < m ? b[j] : 0.0f; out[1] = x;",
        "if (j <= m) out[0] = a[j]; float x = j <= m ?",
    ),
    (
        "together",
        "const float* p = a + threadIdx.y * m; const float* q = a + n; const float* r = a + 2 * n; out[0] = *q + *r;",
        "a + m; const float* r = a + 2 * m;",
    ),
    (
        "together",
        f"{TWICE} int y = ty * step_y - pad_y + fy; int x = tx * step_x - pad_x + fx; out[y] = a[x];",
        "+ fy * dil_y; int x = tx * step_x - pad_x + fx * dil_x;",
    ),
    ("nudged", "int r = threadIdx.x / 4; out[r] = a[0];", "r = threadIdx.x / 4 + 1"),
    ("variable", "out[0] = scaled<Tile<BM>::rows, float>(a[0]);", "scaled<Tile<BM>::pitch, float>"),
    ("regrouped", "out[0] = alpha * (a[0] + a[1]);", "= alpha * a[0] + a[1]"),
    ("regrouped", "out[0] = alpha * a[0] + a[1];", "= alpha * (a[0] + a[1])"),
    ("regrouped", "int r = threadIdx.x; out[0] = *(a + (long)r * n + m * 4 + 8);", "a + (long)(r + 8) * n + m * 4"),
    ("regrouped", "__shared__ float s[8][8]; int r = threadIdx.x; s[r + 4][0] = a[r];", "s[r][4]"),
    ("everywhere", f"int o = threadIdx.y; {COPY} out[r * n] = a[r] + b[r];", "out[o * n] = a[o] + b[o]"),
    ("regrouped", "out[0] = (a[0] + b[0]) * alpha * m;", "a[0] * alpha * m + b[0]"),
    ("regrouped", "out[0] = a[0] * alpha - b[0];", "= (a[0] - b[0]) * alpha"),
    ("regrouped", "out[0] = a[0] * alpha * m + b[0];", "(a[0] + b[0]) * alpha * m"),
    (
        "quotient_and_remainder",
        f"int i = threadIdx.x; int x = i / 8; for (int r = 0; r < 2; ++r) {{ {FAR} int y = i % 8; out[y] = a[x]; }}",
        "int y = i / 4;",
    ),  # of the tile that a loop stores
    (
        "quotient_and_remainder",
        "int i = threadIdx.x; out[i % sizes.rows] = a[i / sizes.rows];",
        "out[i / sizes.cols] = a[i % sizes.cols]",
    ),
    ("quotient_and_remainder", "int i = threadIdx.x; out[i % 8] = a[i / 8];", "out[i % 4] = a[i / 4]"),
    ("quotient_and_remainder", "int l = threadIdx.x; int x = l % 16, y = l % 2 * 8; out[x] = a[y];", "y = l / 16 * 8;"),
    ("quotient_and_remainder", "int l = threadIdx.x; int x = l & 7, y = l & 1; out[x] = a[y];", "y = l >> 3;"),
    (
        "quotient_and_remainder",
        "int i = blockIdx.x; int x = i / (m * sizes.rows); int y = i % (n * m); out[x] = a[y];",
        "x = i / (n * m);",
    ),
    (
        "missing_combination",
        "float s[2], p = a[0], q = a[1], u = b[0], v = b[1]; if (m < 1) s[0] += p * u; if (m < 2)"
        " s[0] += u * q; if (n < 1) s[1] += q * u; if (n < 2) s[1] += q * v;",
        "s[0] += p * v;",
    ),
    (
        "transposed",
        "float r[4]; for (int i = 0; i < 4; ++i) { r[i % 2] = a[i]; r[i % 2 + 2] = b[i]; } out[0] = r[n];",
        "r[2 * (i % 2) + 1] = b[i];",
    ),
    (
        "transposed",
        "float x[4]; for (int t = 0; t < 2; ++t) { x[t] = a[t]; x[t + 2] = b[t]; } out[0] = x[1];",
        "x[2 * t] = a[t]; x[2 * t + 1] = b[t];",
    ),
    (
        "transposed",
        "float x[4]; for (int t = 0; t < 2; ++t) { x[2 * t] = a[t]; x[2 * t + 1] = b[t]; } out[0] = x[1];",
        "x[t] = a[t]; x[t + 2] = b[t];",
    ),
    (
        "transposed",
        "int lane = threadIdx.x & 31, g = lane >> 2; int row[2] = {m + 2 * g, m + 2 * g + 1}; out[row[n]] = a[row[m]];",
        "{m + g, m + g + 8}",
    ),
    (
        "transposed",
        "int lane = threadIdx.x % 32, g = lane / 4; int row[2] = {m + g, m + g + 8}; out[row[n]] = a[row[m]];",
        "{m + 2 * g, m + 2 * g + 1}",
    ),
    (
        "transposed",
        "int h = n / 2; for (int d = 0; d < h; ++d) { float p = a[2 * d], q = a[2 * d + 1];"
        " out[m + 2 * d + 3] = p; out[m + 2 * d + 4] = q; }",
        "float p = a[d], q = a[d + h]; out[m + d + 3] = p; out[m + d + h + 3] = q;",
    ),
    (
        "transposed",
        "int h = n / 2; for (int d = 0; d < h; ++d) { out[m + d] = a[0]; out[m + h + d] = a[1]; }",
        "out[m + 2 * d] = a[0]; out[m + 2 * d + 1] = a[1];",
    ),
    (
        "term_more",  # all of another index
        "int w = threadIdx.x / 32; for (int j = 0; j < m; ++j) out[w * 16] += a[j * n];",
        "a[j * n + w * 16]",
    ),
    ("name_for_sum", "int r = threadIdx.x, at = r * 4;\n#define PUT(i) out[i] = a[r * 4 + 1]\nPUT(at);", "a[at]"),
    (
        "term_more",
        "int c = threadIdx.x, r = threadIdx.y; copy4(out + r * m + 1, a + r * n); copy4(out + 2, a + m);"
        "copy4(out + 3, b + n); copy4(out + 4, b + n * m); for (int j = 0; j < 2; ++j) { copy4(out + c, a + r * n + c);"
        "copy4(out + c + j * 16, b); }",
        "a + r * n + c + j * 16)",
    ),
    (  # what `t` is held to is the pitch beside it
        "variable",
        "int t = threadIdx.x, r = threadIdx.y, e = m, f = m, g = n, h = n, k = n, l = m; out[r * e] = a[r * f];"
        "out[r * g] = a[r * h]; out[r * k] = a[r * l]; if (t < BM) out[r * n + t] = a[0];",
        "out[r * BM + t]",
    ),
]

# operator, body, what must not come of it.
NEVER = [
    ("number", "out[0] = __shfl_xor_sync(0x0f0f0f0f, a[0], 1);", "0xf0f0f0f0"),  # lanes
    ("sign_apart", "unsigned v = threadIdx.x; out[v >> 1] = a[0];", "0x8000"),  # no bits are named
    ("in_steps", "const int y = blockIdx.x / m; for (int b = 0; b < 4; ++b) out[y * 4 + b] = a[y];", "m * 4"),
    ("looked_up", "const uint8_t* t = (const uint8_t*)b; int r = threadIdx.x; out[r] = a[r] * t[r];", "a[t[r]]"),
    ("remaining", "const int count = 16; for (int i = 0; i < count; ++i) out[i] = a[i];", "min(16"),
    ("number_everywhere", "out[m + 1] = a[n + 1];", "+ 2"),  # one is no number that something is called by
    (
        "from_the_end",
        "for (int i = 0; i < n; ++i) out[i] = a[0]; for (int i = 0; i < m; ++i) out[i] = b[i];",
        "b[n - 1",
    ),
    ("digits", "int x = threadIdx.x % m, y = threadIdx.y; out[y * 64 + x] = a[0];", "out[x"),  # how many `y` there are
    (
        "digits",
        "for (int t = 0; t < 2; ++t) for (int j = 0; j < 4; ++j) out[t + 2 * j] = a[0];",
        "out[j * 2 + t]",
    ),  # the same
    ("negated", "out[0] = a[0] - b[0];", "-(a[0]"),  # its operands are exchanged
    ("negated", "out[0] = fmaxf(a[0], b[0]);", "fmaxf(-a[0]"),
    ("negated", "int i = m; out[i] = a[0];", "-m"),
    ("clipped", "float x = a[0]; out[0] = sqrtf(x) + b[0];", "fmaxf(x"),  # not what is stored
    ("within_warp", "int t = threadIdx.x, w = t / 32, y = threadIdx.y; out[w] = a[y];", "/ 32 / 32"),
    ("within_warp", "int t = threadIdx.x, w = t / 32, y = threadIdx.y; out[w] = a[y];", "a[y % 32]"),
    ("based", "int x0 = blockIdx.x * 64; int t = x0 + threadIdx.x; out[t] = a[t];", "out[x0 + t]"),  # it is in it
    ("based", "int x0 = m * 64; int t = threadIdx.x; out[t] = a[x0];", "x0 + t"),  # no block's
    ("quarters", "int l = threadIdx.x; copy4(out, a + l % 4 * n + l / 4 * 8);", "l ^ 8"),  # no quarter of a warp
    (  # other lanes' numbers
        "quarters",
        "int l = threadIdx.x, k = threadIdx.y; int r = m + l % 16; int c = n + k / 16; copy4(out, a + r * n + c);",
        "^ 8",
    ),
    ("variable", "for (int i = 0; i < n; ++i) out[i] = a[i];", "i < i"),
    ("variable", "out[0] = scaled<Type<BM>>(a[0]);", "scaled<BM"),  # a type is no number
    ("factor_more", "float x = a[0]; for (int i = 0; i < n; ++i) out[i] = sqrtf(x);", "x / n"),  # no sum
    ("first_use", "int h = blockIdx.x + n; out[h * m] = a[h];", "h / m"),  # which is read
    (
        "first_use",
        "int h = blockIdx.x + m, p = n, q = n, r = n, s = n; out[h] = a[h];",
        "h / p",
    ),  # of four that nothing reads
    ("name_for_sums", "int q = threadIdx.x / 4; out[threadIdx.x & 7] = a[0]; out[threadIdx.x & 3] = b[0];", "out[q]"),
    ("regrouped_calls", "float x = fmaxf(a[0], a[1]); out[0] = x;", "__fmul_rn"),
    ("step_ahead", "for (int i = threadIdx.x; i < n; i += m) { int j = m; out[j + 1] = a[i]; }", "j + m"),
    ("name_for_even", "out[blockIdx.x * 4 * 16] = a[m];", "blockIdx.x * m"),  # two numbers
    ("magnitude", "float s = fabsf(a[0] - b[0]); out[0] = s;", "fabsf(fabsf"),
    ("term_more", "int t = threadIdx.x; if (t < m) { int w = t / 32; out[w] = a[w]; }", "(t - m) / 32"),
    ("regrouped", "int r = threadIdx.x, c = threadIdx.y; out[r * n + c] = a[0];", "(r + c) * n"),
    ("regrouped", "out[0] = b[0] - a[0] * alpha;", "(b[0] - a[0]) * alpha"),
    ("quotient_and_remainder", "int l = threadIdx.x; int x = l & 6, y = l & 5; out[x] = a[y];", "l >>"),  # no bits left
    (
        "quotient_and_remainder",
        "int i = blockIdx.x, j = blockIdx.y; int x = i / m; int y = j % n; out[x] = a[y];",
        "x = i / n",  # of another number
    ),
    (
        "quotient_and_remainder",
        f"int i = threadIdx.x; if (m) {{ out[i / 8] = 0.0f; }} {FAR} if (n) {{ int y = i % 8; out[y] = 1.0f; }}",
        "int y = i / 8;",
    ),  # neither sees the other
    ("counted_by", "int k = blockIdx.x; int g = k / m; out[g] = a[g] + b[threadIdx.x * 32];", "k * 32"),
    ("together", "int j = threadIdx.x; if (j < m) out[0] = a[j]; if (j > n) out[1] = a[j];", "<="),
    ("term_more", "int r = threadIdx.x; if (r < n && a[r] > 0.0f) out[r] = a[0];", "out[r - n]"),  # below it
    ("term_more", "int r = threadIdx.x; if (r >= n || m < 1) return; out[r] = a[0];", "out[r - n]"),
    ("operation", "int r = threadIdx.x; out[r + threadIdx.y] = a[0];", "out[r * threadIdx.y]"),
    ("named", "int t = threadIdx.x / 4; out[t] = a[threadIdx.x / 8];", "a[t]"),
    ("named", "{ int t = threadIdx.x / 4; out[t] = a[0]; } out[0] = a[threadIdx.x / 4];", "a[t]"),
    ("begun", f"{FRAGMENT} wmma::fill_fragment(f, 0.0f); out[0] = f.x[0];", "load_matrix_sync"),
    ("term_more", "int k0 = blockIdx.x, c = threadIdx.x; if (n - c > 8) out[0] = a[k0 + c];", "n - c + k0"),
    (
        "term_more",  # what is a factor somewhere is a size
        "int more = n - m, r = threadIdx.x, c = threadIdx.y; out[0] = a[n + more * m]; if (c > r) out[1] = a[1];",
        "c > r + more",
    ),
    ("rounded", "int r = threadIdx.x / 16; out[r] = a[0];", "(threadIdx.x + 16 - 1) / 16"),
    ("looked_up", "int r = blockIdx.x % 3; out[r] = a[0];", "a[blockIdx.x]"),
    ("variable", f"{COPY} s[r * pitch + c] = a[c];", "a[alpha]"),  # no real number is an index
    ("variable", "out[threadIdx.x] = a[0]; { int later = 1; }", "a[later]"),  # out of scope
    ("variable", "out[threadIdx.x] = a[0];", "b[threadIdx.x] ="),  # nothing is stored through a pointer to const
    ("variable", "for (int i = 0; i < n; ++i) { int j = i; out[j] = a[i]; }", "for (int i = 0; j"),
    ("number", "out[threadIdx.x] = a[0];", "a[-1]"),
    ("held_value", "{ float x = a[n] * alpha; out[0] = x; } if (a[n] > 1.0f) out[1] = alpha;", "if (x >"),  # not known
    ("held_value", "if (a[n] > 1.0f) out[1] = alpha; float x = a[n] * alpha; out[0] = x;", "if (x >"),  # made later
    (
        "unread_member",
        "float2 v = *reinterpret_cast<const float2*>(a); float x = 0.f; x += v.x * v.x; out[0] = x - v.y;",
        "v.x * v.x + v.y",
    ),  # it is read
    (
        "unread_member",
        "float2 v = *reinterpret_cast<const float2*>(a); out[0] = v.x; *reinterpret_cast<float2*>(out) = v;",
        "v.x + v.y",
    ),  # all of it is
    ("eights", "int t = threadIdx.x; out[(t >> 3 & 3) * 8] = a[t & 31];", "t >> 4"),  # two bits tell four
    ("steps_shifted", "for (int i = 1; i < 8; i += 2) out[i] = a[i];", "i = 4; i < 32;"),  # counts, doubles nothing
    ("steps_shifted", "for (int i = 1; i < 8; i <<= 1) out[i] = a[i];", "i = 8; i < 64;"),  # no warp has so many
    ("identity", "float x = 1.f; for (int i = 0; i < n; ++i) x += i < m ? a[i] : 0.f; out[0] = x;", "-INFINITY"),
    (
        "identity",
        "float x[2] = {0.f, 1.f}; for (int i = 0; i < n; ++i) if (a[i] > x[1]) x[1] = a[i]; out[0] = x[1];",
        "{-INFINITY, -INFINITY}",
    ),  # they begin with different numbers
    ("identity", "float x = 0.0f; x = fmaxf(a[0], a[1]); out[0] = x;", "float x = -INFINITY"),  # nothing is accumulated
    ("carried", "float x = a[0]; out[0] = x > 0.0f ? alpha : b[0];", "x + alpha"),  # what it decides is no part of it
    ("carried", "float x = fmaxf(a[0], alpha); out[0] = x + b[0];", "fmaxf(x, alpha)"),  # of two numbers
    ("carried", "float x = a[0]; { float y = b[0]; out[0] = x + y; }", "float x = a[0] + y"),  # not known there
    ("less", "out[threadIdx.x] = a[threadIdx.x % 32];", "a[32]"),
    ("less", "out[0] = *(float*)a;", "*a"),  # a pointer's cast is no number's
    ("operation", "out[threadIdx.x] = *(a + n);", "a - n"),
    ("exchange", "out[threadIdx.x] = a[threadIdx.x % 32];", "a[32 % threadIdx.x]"),
    ("factor_more", "out[threadIdx.x] = 0.0f;", "0.0f * alpha"),
    ("donor", "int r = threadIdx.x; out[r * n] = a[r]; { int q = m; out[q + r] = b[0]; }", "a[q + r]"),
    ("group", "int g = threadIdx.x % 32; out[g] = a[g];", "/ (m / 32)"),
    ("everywhere", "out[threadIdx.x] = a[n];", "out[m] = a[m]"),
    (
        "missing_combination",
        "float s[2], p = a[0], q = a[1], u = b[0], v = b[1]; if (m < 1) s[0] += p * u; if (m < 2)"
        " s[0] += p * v; if (n < 1) s[1] += q * u; if (n < 2) s[1] += q * v;",
        "p * q",  # each is there once
    ),
    ("term_more", "int w = threadIdx.x / 32; out[w * 16] = a[w * n];", "a[w * n + w * 16]"),  # one of `w` is enough
    (
        "transposed",  # nobody says how many there are
        "int lane = threadIdx.x, g = lane >> 2; int row[2] = {m + 2 * g, m + 2 * g + 1}; out[row[n]] = a[row[m]];",
        "{m + g,",
    ),
    (
        "transposed",
        "float x[8]; for (int t = 0; t < 2; ++t) { x[t] = a[t]; x[t + 3] = b[t]; x[t + 5] = a[t]; }",
        "x[3 * t",
    ),  # unevenly apart
    (
        "sibling_term",
        "int g = threadIdx.x / 4, t = threadIdx.x % 4, f = threadIdx.y; out[m + f * 8 + t * 2] = a[f * 4 + g];",
        "out[m + f * 8 + g]",
    ),  # no term that both have
    ("in_groups", "int h = blockIdx.y % m; out[h] = a[h % 4];", "a[h / (m / 4)]"),  # a number that nobody passes
    ("in_groups", "int h = n * m; out[h] = a[h % n];", "/ n)"),  # below what is not known
    (
        "name_for_sum",
        "int r = threadIdx.x;\n#define PUT(i) out[i] = a[r * 4 + 1]\nPUT(r); int at = r * 4; out[at] = 0;",
        "a[at]",
    ),  # declared after the macro is used
]


@each(YIELDS)
def test_expression_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted)


@each(NEVER)
def test_expression_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted)


def test_only_what_the_entry_reaches_is_changed() -> None:
    assert yields("unreached(1); out[0] = a[0];", "number", "n + 42")
    assert not yields("out[0] = a[0];", "number", "n + 42")


FILL = """__device__ void fill(float* s, const float* a, int rows, int cols, int k0, int first) {
    for (int i = threadIdx.x; i < 64; i += 32) { s[i] = first + i / 8 < cols ? a[k0 + i] : 0.0f; }
}
"""


def test_what_calls_give_a_function_tells_sizes_from_coordinates() -> None:
    calls = "__shared__ float s[64]; for (int k = 0; k < n; k += 8) fill(s, a, m, n, k, blockIdx.x); out[0] = s[0];"
    either = calls.replace("out[0]", "fill(s, a, m, threadIdx.x, 0, 0); out[0]")
    for body, role in ((calls, "bound"), (either, "compared")):
        assert {change.role for change, text in made(body, "variable", FILL) if "first + i / 8 < rows" in text} == {
            role
        }


def test_what_a_constructor_is_given_and_gives_its_members_is_changed() -> None:
    head = """struct Rows { const float* from; int left;
        __device__ Rows(const float* p, int first, int count) : from(p + first * 4), left(count - first) {}
        __device__ float at(int i) const { return i < left ? from[i] : 0.0f; } };
    """
    body = "int first = blockIdx.x; Rows rows(a, first, m); out[0] = rows.at(n);"
    assert yields(body, "variable", "Rows rows(a, first, n);", head)
    assert yields(body, "variable", "from(p + count * 4)", head)
    assert yields(body, "number", "from(p + first * 8)", head)


def test_the_value_of_an_enumerator_is_a_constant() -> None:
    head = "enum : int { ROWS = 64, COLS = 16 };"
    assert {one.role for one, text in made("out[ROWS] = a[COLS];", "number", head) if "COLS = 32" in text} == {
        "constant"
    }


def test_what_a_function_accumulates_in_its_reference_begins_as_what_it_is_given() -> None:
    head = "__device__ void keep(float& top, float x) { if (x > top) top = x; }"
    body = "float x = 0.f; for (int i = 0; i < n; ++i) keep(x, a[i]); out[0] = x;"
    assert yields(body, "identity", "float x = -INFINITY", head)
    assert not yields(body, "identity", "float x = -INFINITY", head.replace("float&", "float"))


def test_a_part_of_a_warp_that_a_template_is_given_is_any_other() -> None:
    head = "template <int N> __device__ float total(float x) { return x + __shfl_xor_sync(~0u, x, N / 2, N); }\n"
    assert all(yields("out[0] = total<32>(a[0]);", "number", f"total<{lanes}>", head) for lanes in (2, 4, 8, 16))
    assert not yields("out[0] = total<48>(a[0]);", "number", "total<8>", head)
    assert not yields(f"{FRAGMENT} wmma::fill_fragment(f, 0.0f);", "number", "accumulator, 4, 16, 16")


def test_a_change_of_two_lines_begins_with_the_first_and_keeps_parentheses_around_what_binds_alike() -> None:
    body = "const int x = (m % n) * 2;\nconst int y = (m / n) * 3;\nout[x] = a[y];"
    found = [(one, text) for one, text in made(body, "quotient_and_remainder") if one.note.endswith("exchanged")]
    ((change, text),) = found
    assert [edit.text for edit in change.edits] == ["m / n", "m % n"]
    assert "const int x = (m / n) * 2; const int y = (m % n) * 3;" in text
    assert any("out[n * 2]" in text for _, text in made("out[(m + n) * 2] = a[0];", "less"))
