"""Operators that make alike what is a pair, or take what stands elsewhere: what each must yield, and a look-alike."""

from __future__ import annotations

from changed_texts import each, yields

COPY = "const int r = threadIdx.x / 16, c = threadIdx.x % 16; const int pitch = 24; __shared__ float s[16 * 24];"

TWICE = """int tx = threadIdx.x, ty = threadIdx.y, fx = blockIdx.x, fy = blockIdx.y;
const int step_x = m, step_y = n, pad_x = m, pad_y = n, dil_x = m, dil_y = n;"""

FAR = "\n".join("out[m] += a[0];" for _ in range(10))

YIELDS = [
    ("donor", "int t = threadIdx.x; out[t + m] = alpha * a[t] + alpha * a[t];", "alpha * a[t] + alpha * out[t + m]"),
    (
        "in_steps",
        "const int y = blockIdx.x / m; const int row = n + y; for (int b = 0; b < 4; ++b) out[(row + b) * 64] = a[0];",
        "y = blockIdx.x / m * 4;",
    ),
    ("term_more", "int shift = n - m; int t = threadIdx.x; if (t < m) out[t] = a[t];", "if (t < m + shift)"),
    ("based", "int x0 = blockIdx.x * 64; int t = threadIdx.x; out[x0 + t] = a[t];", "int t = x0 + threadIdx.x;"),
    (
        "based",
        "int x0 = blockIdx.x * 64; int t = threadIdx.x; out[x0 + t] = a[(size_t)(t) * n];",
        "a[(size_t)(x0 + t) * n]",
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
    ("name_for_sum", "int r = threadIdx.x, at = r * 4; out[at] = a[r * 4 + 1];", "a[at]"),
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
    ("factor_more", "for (int i = 0; i < m; i += 16, b += 16) out[i] = b[i] + a[i * n];", "b += 16 * n"),
    ("name_for_size", "int r = threadIdx.x; out[r * m] = a[r * (n / 4 + 3)];", "a[r * n]"),
    ("variable", f"{COPY} s[r * pitch + c] = a[r * n + c];", "a[r * m + c]"),
    ("variable", f"{COPY} s[r * pitch + c] = a[c];", "a[r]"),
    ("variable", "out[threadIdx.x] = a[blockIdx.y * blockDim.x];", "a[blockIdx.x * blockDim.x]"),
    ("variable", "out[threadIdx.x] = a[blockIdx.y * blockDim.x];", "a[blockIdx.y * blockDim.y]"),
    ("variable", "float4 v = ((float4*)a)[0]; out[0] = v.x + v.y + v.z + v.z;", "v.x + v.y + v.z + v.w"),
    ("variable", "out[threadIdx.x] = a[threadIdx.x * sizes.rows];", "a[threadIdx.x * sizes.cols]"),
    ("variable", "out[threadIdx.x] = a[threadIdx.x * Tile<BM>::rows];", "a[threadIdx.x * Tile<BM>::pitch]"),
    ("variable", "out[threadIdx.x] = a[0];", "out[threadIdx.x] = b[0]"),
    ("name_for_number", "if (threadIdx.x < 16) out[threadIdx.x * n] = a[threadIdx.x * 16];", "a[threadIdx.x * n]"),
    (
        "name_for_number",
        "__shared__ float s[4][64]; int w = threadIdx.x / 32; s[0][threadIdx.x] = a[w]; out[w] = s[0][m];",
        "out[w] = s[w][m]",
    ),
    ("name_for_number", "float x[4]; for (int i = 0; i < 4; ++i) x[0] += a[i]; out[0] = x[1];", "x[i] += a[i]"),
    (
        "held_value",
        "float x[4]; for (int i = 0; i < 4; ++i) x[i] = out[i * n];"
        " for (int i = 0; i < 4; ++i) out[m] += out[i * n] * alpha;",
        "out[m] += x[i] * alpha",
    ),
    ("held_value", "float x = a[n] * alpha; if (a[n] > 1.0f) out[0] = x;", "if (x > 1.0f)"),
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
    (
        "term_more",
        "int more = n - m, r = threadIdx.x, c = threadIdx.y; out[0] = a[n + more]; if (c > r) out[1] = a[1];",
        "c > r + more",
    ),
    ("variable", "int end = n * 16; for (int i = 0; i < n; ++i) out[i] = a[i * 2];", "i < end"),  # made of it
    (
        "factor_more",
        "float x = 0.0f; for (int i = 0; i < n; ++i) x += a[i]; out[0] = sqrtf(x + alpha);",
        "x / n + alpha",
    ),
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
    ("variable", "out[0] = scaled<Tile<BM>::rows, float>(a[0]);", "scaled<Tile<BM>::pitch, float>"),
    ("everywhere", f"int o = threadIdx.y; {COPY} out[r * n] = a[r] + b[r];", "out[o * n] = a[o] + b[o]"),
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

NEVER = [
    ("in_steps", "const int y = blockIdx.x / m; for (int b = 0; b < 4; ++b) out[y * 4 + b] = a[y];", "m * 4"),
    ("based", "int x0 = blockIdx.x * 64; int t = x0 + threadIdx.x; out[t] = a[t];", "out[x0 + t]"),  # it is in it
    ("based", "int x0 = m * 64; int t = threadIdx.x; out[t] = a[x0];", "x0 + t"),  # no block's
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
    ("step_ahead", "for (int i = threadIdx.x; i < n; i += m) { int j = m; out[j + 1] = a[i]; }", "j + m"),
    ("name_for_even", "out[blockIdx.x * 4 * 16] = a[m];", "blockIdx.x * m"),  # two numbers
    ("term_more", "int t = threadIdx.x; if (t < m) { int w = t / 32; out[w] = a[w]; }", "(t - m) / 32"),
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
    ("term_more", "int k0 = blockIdx.x, c = threadIdx.x; if (n - c > 8) out[0] = a[k0 + c];", "n - c + k0"),
    (
        "term_more",  # what is a factor somewhere is a size
        "int more = n - m, r = threadIdx.x, c = threadIdx.y; out[0] = a[n + more * m]; if (c > r) out[1] = a[1];",
        "c > r + more",
    ),
    ("variable", f"{COPY} s[r * pitch + c] = a[c];", "a[alpha]"),  # no real number is an index
    ("variable", "out[threadIdx.x] = a[0]; { int later = 1; }", "a[later]"),  # out of scope
    ("variable", "out[threadIdx.x] = a[0];", "b[threadIdx.x] ="),  # nothing is stored through a pointer to const
    ("variable", "for (int i = 0; i < n; ++i) { int j = i; out[j] = a[i]; }", "for (int i = 0; j"),
    ("held_value", "{ float x = a[n] * alpha; out[0] = x; } if (a[n] > 1.0f) out[1] = alpha;", "if (x >"),  # not known
    ("held_value", "if (a[n] > 1.0f) out[1] = alpha; float x = a[n] * alpha; out[0] = x;", "if (x >"),  # made later
    ("carried", "float x = a[0]; out[0] = x > 0.0f ? alpha : b[0];", "x + alpha"),  # what it decides is no part of it
    ("carried", "float x = fmaxf(a[0], alpha); out[0] = x + b[0];", "fmaxf(x, alpha)"),  # of two numbers
    ("carried", "float x = a[0]; { float y = b[0]; out[0] = x + y; }", "float x = a[0] + y"),  # not known there
    ("factor_more", "out[threadIdx.x] = 0.0f;", "0.0f * alpha"),
    ("donor", "int t = threadIdx.x; out[t + m] = alpha * a[t];", "= out[t + m];"),  # all of it
    ("donor", "int r = threadIdx.x; out[r * n] = a[r]; { int q = m; out[q + r] = b[0]; }", "a[q + r]"),
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
    (
        "name_for_sum",
        "int r = threadIdx.x;\n#define PUT(i) out[i] = a[r * 4 + 1]\nPUT(r); int at = r * 4; out[at] = 0;",
        "a[at]",
    ),  # declared after the macro is used
]


@each(YIELDS)
def test_pair_or_donor_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted)


@each(NEVER)
def test_pair_or_donor_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted)
