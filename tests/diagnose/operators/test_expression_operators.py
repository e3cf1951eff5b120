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
    ("in_same_units", "int r = threadIdx.x, c = threadIdx.y; out[r * n + c / 8] = a[0];", "out[r * (n / 8) + c / 8]"),
    ("in_same_units", "int r = threadIdx.x, c = threadIdx.y; out[r * (n >> 3) + c] = a[0];", "(n >> 3) + (c >> 3)]"),
    ("number", "unsigned v = m; out[0] = __byte_perm(v, 0, 0x0414);", "0x1404)"),
    ("number", "unsigned v = m; out[0] = v & 0x0f0f0f0fu;", "v & 0xf0f0f0f0u"),
    ("number", "unsigned v = m; out[0] = v >> 4 & 0x7;", "v >> 4 & 0xf;"),
    ("number", "unsigned v = m; out[0] = v & 31;", "v & 15;"),
    ("number", "out[0] = a[0] * 0.44715f;", "a[0] * 0.044715f"),
    ("number", "out[0] = a[0] * 0.7979f;", "a[0] * 7.979f"),
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
    ("in_reals", "const float s = m / n; out[0] = s;", "const float s = (float)m / n;"),
    ("in_reals", "out[0] = a[0] * (m / n);", "a[0] * ((float)m / n)"),
    ("in_reals", "out[0] = float(m / n + 1);", "float((float)m / n + 1)"),
    ("negated", "out[0] = expf(a[0] * alpha);", "expf(-(a[0] * alpha))"),
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
    ("exchange", "int r = threadIdx.x; out[(r + 1) * n + blockIdx.x + m] = a[0];", "out[r + 1 + (blockIdx.x + m) * n]"),
    (
        "exchange",
        "int r = threadIdx.x; out[0] = a[(size_t)(r + m) * n + blockIdx.x + threadIdx.y];",
        "a[r + m + (size_t)(blockIdx.x + threadIdx.y) * n]",
    ),
    (  # the other coordinate may have another size
        "exchange",
        "int r = threadIdx.x; out[m] = a[(size_t)(r + m) * n + blockIdx.x + threadIdx.y];",
        "a[r + m + (size_t)(blockIdx.x + threadIdx.y) * m]",
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
    ("in_groups", "int h = blockIdx.y % m; out[h] = a[h % n];", "a[h / (m / n)]"),
    ("in_groups", "int h = blockIdx.y; out[h] = a[h / n];", "a[h / (gridDim.y / n)]"),
    ("in_groups", "int h = blockIdx.y; out[h] = a[h / (m / n)];", "a[h % n]"),
    ("in_groups", "int h = blockIdx.y; out[h] = a[h / (m / n)];", "a[h / n]"),
    ("number", "out[0] = a[0] * 0.5f;", "a[0] * 1.0f"),
    ("operation", "int r = threadIdx.x; out[r + 16 + n] = a[0];", "out[r * 16 + n]"),
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
    ("regrouped_calls", "__half2 v, s, z; v = __hsub2(__hmul2(v, s), __hmul2(s, z));", "v = __hmul2(__hsub2(v, z), s)"),
    ("regrouped_calls", "float x = fmaf(a[0], a[1], b[0]); out[0] = x;", "__fmul_rn(__fadd_rn(a[0], b[0]), a[1])"),
    (
        "regrouped_calls",
        "float x = __fadd_rn(__fmul_rn(a[0], a[1]), b[0]); out[0] = x;",
        "__fmul_rn(__fadd_rn(a[1], b[0]), a[0])",
    ),
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
    ("number", "out[threadIdx.x] = a[3];", "a[4]"),
    ("number", "out[threadIdx.x * 16] = a[0];", "threadIdx.x * 8"),
    ("number", "float x = 1.5f; out[0] = x * 2.0f;", "x * 1.5f"),
    ("nudged", "for (int i = 0; i < n; ++i) out[i] = a[i];", "i < n - 1"),
    ("nudged", "out[threadIdx.x] = a[n];", "a[n + 1]"),
    ("identity", "float x = 0.0f; for (int i = 0; i < n; ++i) x = fmaxf(x, a[i]); out[0] = x;", "float x = -INFINITY"),
    (
        "identity",
        "float x = 0.0f; for (int i = 0; i < n; ++i) if (a[i] < x) x = a[i]; out[0] = x;",
        "float x = INFINITY",
    ),
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
    ("rounded", "int tiles = n / 16; out[0] = tiles;", "(n + 16 - 1) / 16"),
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
    ("nudged", "int row = m; out[threadIdx.x * row] = a[0];", "row = m * 3"),
    ("within_warp", "int w = threadIdx.x / 32; if (threadIdx.x == 0) out[w] = a[w];", "if (threadIdx.x % 32 == 0)"),
    ("within_warp", "const int t = threadIdx.x; out[t] = a[m];", "out[t / 32]"),
    ("nudged", "int r = threadIdx.x / 4; out[r] = a[0];", "r = threadIdx.x / 4 + 1"),
    ("regrouped", "out[0] = alpha * (a[0] + a[1]);", "= alpha * a[0] + a[1]"),
    ("regrouped", "out[0] = alpha * a[0] + a[1];", "= alpha * (a[0] + a[1])"),
    ("regrouped", "int r = threadIdx.x; out[0] = *(a + (long)r * n + m * 4 + 8);", "a + (long)(r + 8) * n + m * 4"),
    ("regrouped", "__shared__ float s[8][8]; int r = threadIdx.x; s[r + 4][0] = a[r];", "s[r][4]"),
    ("regrouped", "out[0] = (a[0] + b[0]) * alpha * m;", "a[0] * alpha * m + b[0]"),
    ("regrouped", "out[0] = a[0] * alpha - b[0];", "= (a[0] - b[0]) * alpha"),
    ("regrouped", "out[0] = a[0] * alpha * m + b[0];", "(a[0] + b[0]) * alpha * m"),
]

# operator, body, what must not come of it.
NEVER = [
    ("in_same_units", "int r = threadIdx.x, c = threadIdx.y; out[r * n + c] = a[m / 8];", "n / 8"),
    ("in_same_units", "int r = threadIdx.x, c = threadIdx.y; out[r * n + 8 + c / 8] = a[0];", "8 / 8"),
    ("in_reals", "out[m / n] = a[m / n];", "(float)m / n"),
    ("in_reals", "const int s = m / n; out[s] = a[0] / alpha;", "(float)"),
    ("number", "out[0] = __shfl_xor_sync(0x0f0f0f0f, a[0], 1);", "0xf0f0f0f0"),  # lanes
    ("sign_apart", "unsigned v = threadIdx.x; out[v >> 1] = a[0];", "0x8000"),  # no bits are named
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
    ("within_warp", "int t = threadIdx.x, w = t / 32, y = threadIdx.y; out[w] = a[y];", "/ 32 / 32"),
    ("within_warp", "int t = threadIdx.x, w = t / 32, y = threadIdx.y; out[w] = a[y];", "a[y % 32]"),
    ("quarters", "int l = threadIdx.x; copy4(out, a + l % 4 * n + l / 4 * 8);", "l ^ 8"),  # no quarter of a warp
    (  # other lanes' numbers
        "quarters",
        "int l = threadIdx.x, k = threadIdx.y; int r = m + l % 16; int c = n + k / 16; copy4(out, a + r * n + c);",
        "^ 8",
    ),
    ("regrouped_calls", "__half2 v, s, z, t; v = __hsub2(__hmul2(v, s), __hmul2(t, z));", "__hsub2(v, z)"),
    ("regrouped_calls", "float x = fmaxf(a[0], a[1]); out[0] = x;", "__fmul_rn"),
    ("magnitude", "float s = fabsf(a[0] - b[0]); out[0] = s;", "fabsf(fabsf"),
    ("regrouped", "int r = threadIdx.x, c = threadIdx.y; out[r * n + c] = a[0];", "(r + c) * n"),
    ("regrouped", "out[0] = b[0] - a[0] * alpha;", "(b[0] - a[0]) * alpha"),
    ("operation", "int r = threadIdx.x; out[r + threadIdx.y] = a[0];", "out[r * threadIdx.y]"),
    ("named", "int t = threadIdx.x / 4; out[t] = a[threadIdx.x / 8];", "a[t]"),
    ("named", "{ int t = threadIdx.x / 4; out[t] = a[0]; } out[0] = a[threadIdx.x / 4];", "a[t]"),
    ("begun", f"{FRAGMENT} wmma::fill_fragment(f, 0.0f); out[0] = f.x[0];", "load_matrix_sync"),
    ("rounded", "int r = threadIdx.x / 16; out[r] = a[0];", "(threadIdx.x + 16 - 1) / 16"),
    ("looked_up", "int r = blockIdx.x % 3; out[r] = a[0];", "a[blockIdx.x]"),
    ("number", "out[threadIdx.x] = a[0];", "a[-1]"),
    ("number", "out[threadIdx.x * 31] = a[0];", "threadIdx.x * 63"),  # no mask
    ("number", "unsigned v = m; out[0] = v & 0x5;", "v & 0xf"),
    ("number", "out[0] = a[0] * 0.5f;", "a[0] * 0.05f"),
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
    ("less", "out[threadIdx.x] = a[threadIdx.x % 32];", "a[32]"),
    ("less", "out[0] = *(float*)a;", "*a"),  # a pointer's cast is no number's
    ("operation", "out[threadIdx.x] = *(a + n);", "a - n"),
    ("exchange", "out[threadIdx.x] = a[threadIdx.x % 32];", "a[32 % threadIdx.x]"),
    ("group", "int g = threadIdx.x % 32; out[g] = a[g];", "/ (m / 32)"),
    ("in_groups", "int h = blockIdx.y % m; out[h] = a[h % 4];", "a[h / (m / 4)]"),  # a number that nobody passes
    ("in_groups", "int h = n * m; out[h] = a[h % n];", "/ n)"),  # below what is not known
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
