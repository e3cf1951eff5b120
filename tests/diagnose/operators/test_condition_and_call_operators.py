"""Operators on conditions, guards and calls: what each must yield, and a look-alike that it must not."""

from __future__ import annotations

from changed_texts import each, made, yields

FRAGMENTS = """wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb, fc;
wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc, sum;"""
ROWS = "int r = threadIdx.x, c = threadIdx.y, r0 = blockIdx.x * 16;"
ENUMERATIONS = "enum class Act { None, ReLU }; enum Order { A, B }; enum { kM = 1, kN = 2 };"

YIELDS = [
    (
        "arguments",
        'float z = 0; asm("" : "+f"(out[0]) : "f"(alpha), "f"(z), "f"(z), "f"(alpha));',
        '"f"(z), "f"(alpha), "f"(alpha), "f"(z)',
    ),
    (
        "conjunct",
        "int r = threadIdx.x, c = threadIdx.y; const bool f = c < n; out[0] = f ? a[c] : 0.0f;"
        " place((size_t)r * n + c, f);",
        "f = c < n && r < m",
    ),
    ("conjunct", "int r = threadIdx.x, c = threadIdx.y; if (r < m) out[(size_t)r * n + c] = a[0];", "r < m && c < n"),
    ("conjunct", "int r = threadIdx.x, c = threadIdx.y; if (r < m) out[0] = *(a + r * n + c);", "r < m && c < n"),
    (
        "conjunct",
        "int r = threadIdx.x, c = threadIdx.y, k0 = blockIdx.x; if (r < m) out[r * n + k0 + c * 8] = a[0];",
        "r < m && k0 + c * 8 < n",
    ),
    ("comparisons_together", "if (m <= n && n <= 64) out[0] = a[0];", "m < n && n < 64"),
    (
        "comparisons_together",
        "int r = threadIdx.x, c = threadIdx.y; if (r < n && c < m) out[0] = a[0];",
        "r < m && c < n",
    ),
    ("sibling_everywhere", "float x = expf(a[0]), y = expf(a[1]); out[0] = x * y;", "exp2f(a[0]), y = exp2f(a[1])"),
    ("comparison", "if (threadIdx.x < n) out[0] = a[0];", "threadIdx.x <= n"),
    ("comparison", "if (threadIdx.x < n) out[0] = a[0];", "threadIdx.x >= n"),
    ("comparison", "for (int i = 0; i + 16 <= n; i += 16) out[i] = a[i];", "i < n;"),
    ("comparison", "for (int i = 0; i < n; i += 16) out[i] = a[i];", "i + 16 <= n;"),
    (
        "conjunct",
        "int y = threadIdx.y - 1, x = threadIdx.x - 1; if (y < 0 || y >= m || x >= n) return; out[0] = a[y * n + x];",
        "x >= n || x < 0",
    ),
    ("conjunct", f"{ROWS} if (r >= m) return; out[r * n + c] = a[0];", "if (r >= m || c >= n)"),
    (
        "conjunct",
        "int y = threadIdx.y - 1, x = threadIdx.x - 1; bool in = y < m && x < n; if (in) out[0] = a[y * n + x];",
        "in = y < m && x < n && y >= 0 && x >= 0",
    ),
    ("connective", "if (m < n && n < 64) out[0] = a[0];", "m < n || n < 64"),
    ("connective", "if (m < n && n < 64) out[0] = a[0];", "if (n < 64)"),
    ("negation", "bool whole = m > n; if (whole) out[0] = a[0];", "if (!whole)"),
    ("negation", "bool first = true; if (first) out[0] = a[0];", "bool first = false;"),
    ("conjunct", "int c = threadIdx.x - m; if (c < n) out[c] = a[c];", "if (c < n && c >= 0)"),
    ("conjunct", f"{ROWS} if (r < m) out[r * 64 + c] = a[0];", "if (r < m && c < n)"),
    ("conjunct", f"{ROWS} if (r < m) out[r] = a[0]; if (c < n) out[r * 64 + c] = a[1];", "if (c < n && r < m)"),
    (
        "conjunct",
        f"{ROWS} const bool in = r < m; float x = in ? a[r * 64 + c] : 0.0f; out[0] = x;",
        "in = r < m && c < n",
    ),
    ("guard_less", "if (threadIdx.x < 16) out[threadIdx.x] = a[0];", "{ out[threadIdx.x] = a[0]; }"),
    ("guard_less", "out[0] = m < n ? a[0] : a[1];", "out[0] = a[1];"),
    ("guard_more", f"{ROWS} if (c < n) out[1] = a[1]; out[(r0 + r) * 64 + c] = a[0];", "if (r0 + r < m) out[(r0 + r)"),
    (
        "guard_more",
        f"{ROWS} if (r0 < m) out[0] = a[0]; out[(r0 + r) * n + c] = a[0];",
        "if (r0 + r < m && c < n) out[(r0 + r)",
    ),
    (
        "skipped",
        "for (int i = threadIdx.x; i < 64; i += 32) { int r = i / 8, c = i % 8; float x = a[c];"
        " if (r < m) x += b[r]; out[r * n + c] = x; }",
        "c = i % 8; if (r >= m || c >= n) continue; float x = a[c];",
    ),
    (
        "skipped",
        "for (int i = threadIdx.x; i < 64; i += 32) { int p = i + m; float x = b[i]; if (i < n) x += a[i];"
        " out[p / m * 64 + p % m] = x; }",
        "int p = i + m; if (p >= n) continue; float x",
    ),
    (
        "skipped",
        "for (int i = 0; i < 4; ++i) { int r = threadIdx.x + i * 8; float s = b[r]; if (i < m) s += 1.0f;"
        " for (int c = 0; c < n; ++c) out[r * n + c] = s; }",
        "int r = threadIdx.x + i * 8; if (r >= m) continue; float s",
    ),
    (
        "skipped",  # a number that memory has may tell that there is none
        "const int* t = (const int*)b; for (int i = threadIdx.x; i < 64; i += 32) { int s = t[i]; int q = s / 8;"
        " float* to = out + q * n; to[i] = a[i]; }",
        "t[i]; if (s < 0) continue; int q",
    ),
    (
        "value_guarded",
        "for (int j = 0; j < m; j += 16) { for (int r = 0; r < 16; ++r) if (j + r < n) out[r] = a[r];"
        " for (int y = 0; y < 16; ++y) out[y] = b[y]; }",
        "j + y < n ? b[y] : 0.0f",
    ),
    (
        "guard_more",
        "int p = threadIdx.x; if (p > 3) b[p] = a[0]; float x = p < n; out[p / m * 64 + p % m] = x;",
        "if (p < n) out[p / m",
    ),
    ("value_guarded", f"{ROWS} float x = a[r0 + r]; out[0] = x;", "r0 + r < n ? a[r0 + r] : 0.0f"),
    ("value_guarded", "bool valid = m < n; int bytes = 16; copy4(out + bytes, a);", "bytes = valid ? 16 : 0;"),
    (
        "value_guarded",  # nothing may have been compared with the greatest
        "float top[2] = {-INFINITY, -INFINITY}; for (int i = 0; i < n; ++i) top[i & 1] = fmaxf(top[i & 1], a[i]);"
        " float held = top[m]; out[0] = a[0] - held;",
        "held = top[m] == -INFINITY ? 0.0f : top[m]",
    ),
    (
        "value_guarded",  # no nought of its type stands anywhere
        f"{ROWS} __shared__ uint4 s[64]; s[c] = *reinterpret_cast<const uint4*>(a + (r0 + r) * 64);",
        "r0 + r < n ? *reinterpret_cast<const uint4*>(a + (r0 + r) * 64) : uint4{}",
    ),
    ("else_nought", f"{ROWS} if (r < n) out[r] = a[r];", "out[r] = r < n ? a[r] : 0.0f;"),
    (
        "else_nought",
        f"{ROWS} __shared__ float s[64]; if (r < n) __pipeline_memcpy_async(&s[c], a + r, sizeof(float2));",
        "else *reinterpret_cast<float2*>(&s[c]) = float2{};",
    ),
    (
        "else_nought",
        f"{ROWS} if (r < n) *reinterpret_cast<int4*>(out + r) = *reinterpret_cast<const int4*>(a + r);",
        "= r < n ? *reinterpret_cast<const int4*>(a + r) : int4{};",
    ),
    (
        "else_nought",
        f"{ROWS} if (r < n) {{ float x = a[r]; out[r] = x; }}",
        "if (r < n) { float x = a[r]; out[r] = x; }\nelse out[r] = 0.0f;",
    ),
    (
        "applied_alike",
        "int i = threadIdx.x; out[0] = a[min(i, n - 1)]; out[1] = a[i + 1]; out[2] = a[i + 2];",
        "out[1] = a[min(i + 1, n - 1)]; out[2] = a[min(i + 2, n - 1)];",
    ),
    ("arguments", "out[0] = place(m, n);", "place(n, m)"),
    (
        "called_alike",  # of what two variables are made
        "float x = fmaxf(a[0], a[1]); float y = fmaxf(a[8 * n], a[9 * n]); out[0] = x + y;",
        "x = fmaxf(a[0 * n], a[1 * n]);",
    ),
    ("arguments", f"{FRAGMENTS} wmma::mma_sync(acc, fb, fa, acc);", "mma_sync(acc, fa, fb, acc)"),
    (
        "argument_again",
        f"{FRAGMENTS} wmma::fragment<wmma::accumulator, 16, 16, 16, float> r[2][2];"
        " wmma::mma_sync(r[m][n], fa, fb, r[m][0]);",
        "mma_sync(r[m][n], fa, fb, r[m][n])",
    ),
    (
        "made_alike",
        "float x = a[0]; int y = m; float x2 = __shfl_xor_sync(~0u, x, 1); keep(x, y, x2, y); out[y] = x;",
        "keep(x, y, x2, __shfl_xor_sync(~0u, y, 1))",
    ),
    ("sibling_function", "copy4(out, a);", "copy4t(out, a)"),
    (
        "chosen_alike",
        "const bool in = threadIdx.x < n; const float* from = in ? a + m : a; copy4n(out, from, 16);",
        "copy4n(out, from, in ? 16 : 0)",
    ),
    ("chosen_alike", "copy4n(out, m < n ? a + m : a, 16);", "copy4n(out, m < n ? a + m : a, m < n ? 16 : 0)"),
    (
        "chosen_between",
        "__shared__ float p[64], q[64]; const bool once = m == n; p[m] = a[0]; if (!once) q[n] = a[1];"
        " const float* from = q + n; out[0] = *from;",
        "from = once ? p + n : q + n;",
    ),
    (
        "chosen_between",
        "float x = b != nullptr ? b[m] : 0.0f; float y = a[n] + b[n]; out[0] = x * y;",
        "y = b != nullptr ? a[n] + b[n] : a[n] + a[n];",
    ),
    (
        "chosen_between",
        "float x = b != nullptr ? b[m] : 0.0f; float y = a[n] + b[n]; out[0] = x * y;",
        "y = b != nullptr ? a[n] + b[n] : 0.0f;",
    ),
    ("sibling_function", "out[0] = fmaxf(a[0], a[1]);", "fminf(a[0], a[1])"),
    ("sibling_function", "out[0] = __int2float_rn(m);", "__int_as_float(m)"),
    ("sibling_function", "out[0] = __uint2float_rn(m);", "__int2float_rn(m)"),
    ("sibling_function", "out[__float2int_rz(a[0])] = a[1];", "__float2int_rd(a[0])"),
    ("sibling_function", "out[0] = __half2float(__ushort_as_half(m));", "__ushort2half_rn(m)"),
    ("sibling_function", "out[0] = __shfl_down_sync(0xffffffff, a[0], 1);", "__shfl_xor_sync(0xffffffff, a[0], 1)"),
    (
        "sibling_enumerator",
        f"{FRAGMENTS} wmma::store_matrix_sync(out, acc, n, wmma::mem_row_major);",
        "wmma::mem_col_major",
    ),
    ("sibling_enumerator", f"{ENUMERATIONS} put<4, Act::ReLU>(out, a);", "put<4, Act::None>(out, a)"),
    ("sibling_enumerator", f"{ENUMERATIONS} out[0] = m == B;", "m == A"),
    ("application", "float d = n; out[0] = 1.0f / d;", "1.0f / sqrtf(d)"),
    ("application", "half h = __float2half(a[0] + b[0]); out[0] = sqrtf(__half2float(h));", "sqrtf(a[0] + b[0])"),
    ("inward", "out[0] = sqrtf(a[0]) + b[0];", "sqrtf(a[0] + b[0])"),
    ("inward", "float x = a[0]; out[0] = b[0] - fmaxf(x, 0.0f);", "= fmaxf(b[0] - x, 0.0f)"),
    ("inward", "out[0] = sqrtf(a[0] * alpha);", "= sqrtf(a[0]) * alpha"),
    ("inward", "out[0] = alpha * tanhf(a[0]);", "= alpha * tanhf(a[0] / alpha)"),
    ("inside_out", "out[0] = __fsub_rn(__fmul_rn(a[0], alpha), b[0]);", "__fmul_rn(__fsub_rn(a[0], b[0]), alpha)"),
    (
        "inside_out",
        "half2* x = (half2*)out; x[0] = __hsub2(__hmul2(x[0], x[1]), x[2]);",
        "= __hmul2(__hsub2(x[0], x[2]), x[1])",
    ),
    (
        "inside_out",
        "half2* x = (half2*)out; half2 v = __hmul2(x[0], x[1]); v = __hsub2(v, x[2]); x[0] = v;",
        "half2 v = __hsub2(x[0], x[2]); v = __hmul2(v, x[1]);",
    ),
    ("one_block", "float v = a[blockIdx.x]; v += b[threadIdx.x]; out[0] = v;", "if (blockIdx.x == 0) v += b"),
    ("one_block", "atomicAdd(out, a[blockIdx.z]);", "if (blockIdx.z == 0) atomicAdd(out"),
    (
        "inside",
        "int y = threadIdx.y - 1, x = threadIdx.x - 1; int at = ((blockIdx.x * m + y) * n + x) * 8; out[0] = a[at];",
        "out[0] = y >= 0 && y < m && x >= 0 && x < n ? a[at] : 0.0f;",
    ),
    (
        "inside",
        "int y = threadIdx.y, x = threadIdx.x; out[(blockIdx.x * m + y) * n + x] = a[0];",
        "if (y >= 0 && y < m && x >= 0 && x < n) out[",
    ),
    (
        "inside",
        "int y = threadIdx.y, x = threadIdx.x; float4 v = *(const float4*)(a + (blockIdx.x * m + y) * n + x);"
        "if (m > n) v = make_float4(0, 0, 0, 0); out[0] = v.x;",
        "x < n ? *(const float4*)(a + (blockIdx.x * m + y) * n + x) : make_float4(0, 0, 0, 0)",
    ),
]

NEVER = [
    ("inward", "atomicAdd(&out[m], a[0] * alpha);", "* alpha;"),  # what a statement returns is lost
    (
        "made_alike",
        "float x = a[0]; int y = m; float x2 = __shfl_xor_sync(~0u, x, 1); keep(x, x2, n, y); out[y] = x;",
        "__shfl_xor_sync(~0u, y, 1)",
    ),  # y is given once
    ("skipped", "int r = threadIdx.x, c = threadIdx.y; if (r < m) out[1] = a[0]; out[r * n + c] = a[0];", "continue"),
    (
        "applied_alike",
        "int i = threadIdx.x; out[0] = a[min(i, n - 1)]; out[1] = b[i + 1];",
        "b[min(",
    ),  # of another array
    ("conjunct", f"{ROWS} if (r >= m) out[0] = a[0]; out[r * n + c] = a[0];", "|| c >= n"),  # it leaves nothing
    (
        "value_guarded",  # `y` counts more than a piece has
        "for (int j = 0; j < m; ++j) { for (int r = 0; r < 16; ++r) if (j * 16 + r < n) out[r] = a[r];"
        " for (int y = 0; y < 32; ++y) out[y] = b[y]; }",
        "j * 16 + y < n",
    ),
    ("guard_more", "int r = threadIdx.x; int q = r / 8; out[q] = a[0];", "if (r >= 0)"),  # no memory has it
    ("comparisons_together", "if (m <= n && n < 64) out[0] = a[0];", "m < n && n <= 64"),
    ("sibling_everywhere", "float x = expf(a[0]); out[0] = x;", "exp2f"),
    ("comparison", "int i = m + n; out[i] = a[i];", "m < n"),
    ("conjunct", "int c = threadIdx.x + m; if (c < n) out[c] = a[c];", "c >= 0"),  # no difference
    ("negation", "if (m < n) out[0] = a[0];", "!"),
    ("negation", "bool first = true; if (first) out[0] = a[0];", "!true"),
    ("conjunct", f"{ROWS} if (r < m) out[r * 64] = a[0]; {{ int q = 3; if (q < n) out[q] = a[0]; }}", "r < m && q < n"),
    ("guard_more", f"{ROWS} float x; x = a[r]; out[0] = x;", "if (r < n) x"),
    ("value_guarded", f"{ROWS} out[r] = 1.0f;", "? 1.0f"),
    ("value_guarded", "bool valid = m < n; int bytes = 16; if (valid) out[bytes] = 0.0f;", "? 16"),  # it is read
    (
        "value_guarded",  # a sum is no extreme
        "float sum[2] = {-1.0f, -1.0f}; for (int i = 0; i < n; ++i) sum[i & 1] += a[i]; out[0] = sum[m];",
        "sum[m] == -1.0f",
    ),
    ("value_guarded", f"{ROWS} Sizes s[2]; Sizes t = s[r0 + r]; out[r] = a[r];", "Sizes{}"),  # no vector of CUDA
    ("else_nought", f"{ROWS} if (r < n) out[r] += a[r];", "? a[r] : 0.0f"),
    ("else_nought", f"{ROWS} if (r < n) {{ float x = a[r]; out[r] += x; }}", "else"),
    ("else_nought", f"{ROWS} if (r < n) {{ int to = r + 1; out[to] = a[r]; }}", "else"),  # nobody else knows where
    ("else_nought", f"{ROWS} if (r < n) {{ float x = a[r]; out[r] = x; }} else out[0] = 1.0f;", "= 0.0f"),
    (
        "else_nought",  # the rest is filled with nought already
        f"{ROWS} __shared__ float s[64]; if (r < n) __pipeline_memcpy_async(&s[c], a + r, sizeof(float2), m);",
        "else *",
    ),
    (
        "called_alike",  # a part of a value is another matter
        "float x = fmaxf(a[0], a[1]); float y = 1 + fmaxf(a[8 * n], a[9 * n]); out[0] = x + y;",
        "a[1 * n]",
    ),
    ("argument_again", "out[0] = place(m, n);", "place(m, m)"),  # numbers: any name may stand for one
    ("argument_again", f"{FRAGMENTS} wmma::mma_sync(acc, fa, fb, acc);", "mma_sync(acc, fa, fa, acc)"),
    ("arguments", "copy4(out, a);", "copy4(a, out)"),  # a const pointer for one that is written through
    ("sibling_function", "out[0] = place(m, n);", "copy4(m, n)"),
    ("sibling_function", "out[0] = __half2float(__float2half_rn(a[0]));", "_as_"),  # of another size
    ("sibling_function", "out[0] = __int2float_rn(m);", "__int2float_rz(m)"),  # nearly the same
    ("chosen_alike", "const float* from = m < n ? a + m : a; copy4n(out, a, 16); out[0] = *from;", "? 16 : 0"),
    ("sibling_enumerator", "out[0] = a[0];", "major"),
    ("sibling_enumerator", f"{ENUMERATIONS} out[kM] = a[0];", "kN]"),  # a list of constants
    ("chosen_between", "if (m < n) out[0] = b[0]; out[1] = b[1]; out[2] = a[2]; out[3] = b[3];", "? b[3]"),
    ("chosen_between", "if (m < n) out[0] = b[0]; if (m < n) out[1] = b[1];", "? b[1]"),  # behind it as well
    ("application", "out[0] = 1.0f;", "sqrtf(1.0f)"),
    ("inward", "int i = max(m, 0) + n; out[i] = a[i];", "max(m + n"),  # whole numbers
    ("inward", "out[0] = sqrtf(a[0] / b[0]);", "sqrtf(b[0])"),  # what is divided by it is not the divisor's root
    ("inward", "out[0] = alpha * tanhf(a[0] / alpha);", "/ alpha / alpha"),
    ("inward", "out[0] = b[0] / tanhf(a[0]);", "a[0] * b"),
    ("inside_out", "out[0] = fmaxf(fmaxf(a[0], alpha), b[0]);", "fmaxf(fmaxf(a[0], b[0]), alpha)"),  # the same function
    ("inside_out", "int i = max(min(m, 3), n); out[i] = a[i];", "min(max(m, n), 3)"),  # whole numbers
    (
        "inside_out",
        "float v = __fmul_rn(a[0], alpha); out[1] = v; v = __fsub_rn(v, b[0]); out[0] = v;",
        "float v = __fsub_rn(a[0], b[0])",
    ),  # what it is in between is used
    ("one_block", "float v = a[blockIdx.x]; v = b[0]; out[0] = v;", "== 0) v = b"),  # nothing is added
    ("one_block", "float v = a[blockIdx.x]; v += b[0]; out[0] = v;", "threadIdx"),  # along no axis that nobody asks for
    ("inside", "int x = threadIdx.x; out[x * n + m] = a[x];", ">= 0"),  # one dimension alone
]


@each(YIELDS)
def test_condition_or_call_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted)


@each(NEVER)
def test_condition_or_call_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted)


def test_a_function_that_nothing_calls_is_put_around_parts_of_a_value() -> None:
    head = "__device__ float total(float x) { return x + x; }"
    assert yields("out[0] = alpha * a[0] + b[0];", "application", "total(alpha * a[0]) + b[0]", head)
    assert not yields("out[0] = alpha * a[0] + total(b[0]);", "application", "total(alpha * a[0]) + total", head)


def test_fragments_of_two_layouts_are_exchanged_statically_and_of_one_layout_by_value() -> None:
    """No conditional expression has operands of two types."""
    exchanged = {
        text[-60:]: change.kind for change, text in made(f"{FRAGMENTS} wmma::mma_sync(acc, fa, fb, sum);", "arguments")
    }
    assert [kind for text, kind in exchanged.items() if "(acc, fb, fa, sum)" in text] == ["static"]
    assert [kind for text, kind in exchanged.items() if "(sum, fa, fb, acc)" in text] == ["expression"]


def test_a_function_of_the_same_types_is_another_ones_sibling_whatever_its_name() -> None:
    head = "__device__ void arrive(int* bar) { ++*bar; }\n__device__ void copies_came(int* bar) { *bar += 2; }\n"
    body = "__shared__ int bar; arrive(&bar); out[0] = bar;"
    assert yields(body, "sibling_function", "copies_came(&bar);", head)
    assert not yields(body, "sibling_function", "copies_came(&bar);", head.replace("came(int*", "came(float*"))


def test_a_macro_that_is_a_statement_gives_way_to_another_one_as_a_statement() -> None:
    head = "#define PUT4(x) { out[0] = x; }\n#define PUT4T(x) { out[1] = x; }\n"
    [kind] = [change.kind for change, text in made("PUT4(a[0]);", "sibling_function", head) if "PUT4T(a[0]);" in text]
    assert kind == "statement"


def test_what_a_type_is_called_for_is_reached() -> None:
    head = "struct Rows { int n; __device__ int operator()(int r, int c) const { return r * n + c; } };\n"
    assert yields("Rows at{n}; out[at(m, n)] = a[0];", "operation", "return r - n + c;", head) or yields(
        "Rows at{n}; out[at(m, n)] = a[0];", "exchange", "return c * n + r;", head
    )
    assert not yields("out[m] = a[0];", "exchange", "return c * n + r;", head)


def test_what_another_macro_takes_in_another_order_is_exchanged_as_it_is_called() -> None:
    taken = '"f"(a), "f"(b), "f"(c), "f"(p)'
    head = "".join(f'#define LD_{one}(a, b, c, p) asm("" :: {taken})\n' for one in ("ROWS", "COLUMNS"))
    body = "float r[4]; LD_ROWS(r[0], r[1], r[2], a[0]);"
    assert yields(body, "sibling_and_exchange", "LD_COLUMNS(r[0], r[2], r[1], a[0]);", head)
    assert not yields(body, "sibling_and_exchange", "a[0], r[1]", head)  # not alike


TRAITS = """template <class F> struct by_rows : std::true_type {};
template <> struct by_rows<wide_t> : std::false_type {};
template <class F> struct depth { static constexpr int value = 32; };
template <> struct depth<wide_t> { static constexpr int value = 48; };
template <int N> struct order { using type = wmma::row_major; };
template <class F, class G, class O> __device__ void product(float* c) { c[by_rows<F>::value] = depth<G>::value; }
"""


def test_every_specialisation_of_a_trait_is_changed() -> None:
    kinds = "".join(
        f"using {name} = wmma::fragment<wmma::{of}_major>;\n"
        for name, of in (
            ("rows_t", "matrix_a, 16, 16, 16, half, wmma::row"),
            ("wide_t", "matrix_a, 16, 16, 16, half, wmma::col"),
            ("other_t", "matrix_b, 32, 8, 16, half, wmma::col"),
        )
    )
    body, head = "product<rows_t, wide_t, order<2>::type>(out);", kinds + TRAITS
    assert yields(body, "number", "depth { static constexpr int value = 64; };", head)
    assert yields(body, "number", "depth<wide_t> { static constexpr int value = 96; };", head)
    assert yields(body, "type_named", "by_rows<wide_t> : std::true_type", head)
    assert yields(body, "type_named", "by_rows : std::false_type", head)
    assert yields(body, "type_named", "product<wide_t, wide_t, order<2>::type>(out)", head)
    assert yields(body, "type_named", "product<rows_t, rows_t, order<2>::type>(out)", head)
    changed = [text for _, text in made(body, "type_named", head)]
    assert not any("other_t," in text or ", other_t" in text for text in changed)  # of another use and shape
    assert not any("depth<rows_t>" in text for text in changed)  # what a specialisation is for
    assert any("order { using type = wmma::col_major; }" in text for text in changed)


def test_what_a_template_is_given_elsewhere_is_given_here() -> None:
    head = "struct Sum {}; struct Product {}; template <class T> struct Fold { __device__ float of(float x); };\n"
    body = "Fold<Sum> one; Fold<Product> two; out[0] = one.of(a[0]) + two.of(a[1]);"
    assert yields(body, "type_named", "Fold<Product> one;", head)
    assert not yields(body.replace("Fold<Product>", "Other<Product>"), "type_named", "Fold<Product> one;", head)


def test_arguments_that_a_call_leaves_out_are_given_as_elsewhere_or_by_the_parameters_names() -> None:
    head = "__device__ float of(float x, int width = 32, bool up = false) { return up ? x * width : x; }\n"
    body = "int width = n; out[0] = of(a[0], m, true); out[1] = of(a[1]);"
    assert yields(body, "arguments_left_out", "of(a[1], m, true)", head)
    assert yields("int width = n; out[1] = of(a[1]);", "arguments_left_out", "of(a[1], width)", head)
    assert yields(body, "arguments_left_out", "of(a[0], m);", head)
    assert yields(body, "arguments_left_out", "of(a[0]);", head)
    needed = head.replace(" = 32", "").replace(" = false", "")
    assert not made("out[0] = of(a[0], m, true); out[1] = of(a[1], n, false);", "arguments_left_out", needed)
