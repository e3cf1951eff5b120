"""Operators of the second round: what each must yield, and a look-alike that it must not."""

from __future__ import annotations

import pytest
from changed_texts import kernel, made, yields

from wmmadiag.diagnose.changes import applied
from wmmadiag.diagnose.operators.registry import changes

WARP = "const int w = threadIdx.x / 32, t = threadIdx.x % 32;"
NAMES = [f"c{i}" for i in range(8)]
SIZES = f"int {', '.join(f'{one} = n + m' for one in NAMES)}; out[{' + '.join(NAMES)}] = a[{' * '.join(NAMES)}];"
"""As many names that are used more often as are tried at one place."""
PAIR = "struct Pair { float x; int at; };\nstruct All { float o[64]; int n; };\n"

YIELDS = [
    ("other_pitches", "int i = threadIdx.x, j = threadIdx.y; out[i] = a[i + j * n];", "a[i * n + j]"),
    ("other_pitches", "int w = threadIdx.x / 32; for (int k = 0; k < n; ++k) out[k * m] += a[w * 16 + k * n];",
     "a[w * 16 * m + k]"),
    ("other_pitches", "int i = threadIdx.x, j = threadIdx.y; copy4(out + i + j * n, a + i * m + j * n);",
     "copy4(out + i * n + j"),
    ("other_pitches", "int i = threadIdx.x, j = threadIdx.y; out[i * m] = sqrtf(b[i + j * n] * n);",
     "b[i * m + j] * m"),  # and what the statement calls the pitch elsewhere,
    ("other_pitches", "int i = threadIdx.x, j = threadIdx.y; out[i * m] = a[m * n + j * 16 + i + j * n];",
     "a[m * n + (j * 16 + i) * n + j]"),
    ("other_pitches", "int i = threadIdx.x, j = threadIdx.y; out[i] = a[(i + 16 * j) * n + j];",
     "a[i + 16 * j + j * n]"),
    ("element_more", "int i = threadIdx.x; float g = a[i]; out[i] = g;", "g = b[i] > 0.0f ? a[i] : 0.0f;"),
    ("element_more", "__shared__ half s[64]; int i = threadIdx.x; float g = a[i]; out[i] = g;",
     "g = static_cast<float>(s[i]) > 0.0f ? a[i] : 0.0f;"),
    ("flat_transposed", "int i = threadIdx.x; float y = a[i / 16 + i % 16]; out[0] = y * b[i];",
     "b[i % 16 * 16 + i / 16]"),
    ("term_composed", f"{WARP} out[w * 16 + t] = a[t]; out[t] = b[w];", "a[t + w * 16]"),
    (
        "term_composed",
        "constexpr int W = 2, H = 4; __shared__ float s[W * H]; int g = blockIdx.x * 64, h = blockIdx.y * 64; "
        "int x = threadIdx.x / 32; int y = threadIdx.y; int c = g + x * 8, r = h + y * 8; int l = threadIdx.x % 32; "
        "out[r * n + c] = a[r * n + l]; out[l * n + g] = a[h * n + x * 8]; s[x] = a[l * n + c];",
        "s[x + y * W]",
    ),
    ("term_composed", f"{WARP} copy4(out + w * 16, a); out[t] = b[t];", "copy4(out + w * 16, a + w * 16)"),
    ("term_composed", "int r = threadIdx.x, c = threadIdx.y; out[r * n + c] = a[c];", "a[c + r * n]"),
    ("term_composed", "int w = threadIdx.x / 32, t = threadIdx.x, i = t % 4, j = t % 8, k = t % 16, l = t % 2;"
     " out[w * 16 + i] = a[i + j]; const int c = j + k * 2 + l; out[j + k] = a[l + k]; out[i + w * 16] = a[c];",
     "c = j + k * 2 + l + w * 16"),
    ("term_composed", f"{WARP} copy4(out + w * 16, a); out[t] = b[t * n];", "a + w * 16 * n)"),
    ("terms_rescaled", f"{WARP} out[w * 8 + t + t % 2 * 4] = a[t];", "t * 2 + t % 2]"),
    ("terms_rescaled", f"{WARP} out[w + t / 4] = a[t];", "out[w * 8 + t]"),
    ("element_more", f"{WARP} out[t] = a[t];", "a[t] + b[t]"),
    ("element_more", f"{WARP} float x = 0.0f; x += a[t]; out[t] = x;", "float x = b[t]"),
    ("element_more", "int c = blockIdx.x + threadIdx.x; int j = threadIdx.y; __shared__ float s[64];"
     " if (blockIdx.x + j < n) { float x = s[j]; out[c] = x; }", "float x = a[blockIdx.x + j]"),
    ("limited", "const int first = blockIdx.x * 8; const int end = first + 8; if (m < n) out[first] = a[end];",
     "const int end = min(first + 8, n)"),
    ("limited", "const int i = blockIdx.x * m; const int end = n; for (int k = i; k < end; k += m) out[k] = a[k];",
     "const int end = min(n, i + m)"),
    ("limited", "int i = blockIdx.x, j = i - m; out[i] = a[j];", "j = max(i - m, 0)"),
    ("limited", f"{SIZES} const int all = m * m, steps = (all + 31) / 32; const int end = blockIdx.x * 32;"
     " for (int i = steps; i < end; ++i) out[i] = a[i];", "end = min(blockIdx.x * 32, all)"),
    ("value_compared", "int i = threadIdx.x, j = threadIdx.y; out[i * n + j] = a[i + j];", "j <= i ? a[i + j] : 0.0f"),
    ("split_by_power", "const int r = threadIdx.x % 16; const int h = threadIdx.x / 16; out[r * n + h] = a[r];",
     "const int r = threadIdx.x / 2; const int h = threadIdx.x % 2;"),
    ("left_early", "for (int i = 0; i < m; ++i) { const int c = i * 8 + threadIdx.x; out[c] = a[c]; } out[n] = 0.0f;",
     "if (c >= n) break; out[c]"),
    ("left_early", "for (int c = 0; c < m; ++c) { float x = a[n + c]; out[c] = x; }", "if (n + c >= m) break; float x"),
    ("divisible", "int i = threadIdx.x - m; if (i < 0) return; i /= n; out[i] = a[i];", "i < 0 || i % n != 0"),
    ("divisible", "int i = threadIdx.x - m; if (i >= 0) out[i / n] = a[i];", "i >= 0 && i % n == 0"),
    ("exchanged", "int i = threadIdx.x; int r = i / n % m; out[r] = a[i];", "i / m % n"),
    ("exchanged", "int l = threadIdx.x; out[(l >> 4) * 8 + (l & 7) + (l >> 3 & 1) * n] = a[l];",
     "(l >> 3 & 1) * 8 + (l & 7) + (l >> 4) * n"),
    ("both_terms", "int r = threadIdx.x, c = threadIdx.y; if (c < r) out[m + r] = a[n + c];", "if (c + n < r + m)"),
    ("piece_end", "const int first = blockIdx.x * m; int end = first; for (int k = 0; k < end; ++k) out[k] = a[first];",
     "int end = first + m;"),
    ("piece_end", "for (int k = 0; k < n; k += m) { if (k < n) out[k] = a[k]; }", "if (k + m < n)"),
    ("aligned", "int i = threadIdx.x, q = i / 4; float x = a[i] + b[i]; float y = a[q]; out[i] = x + y;",
     "float y = a[q] + b[q]"),
    ("aligned", "Pair p, q, o; o.x = p.x - q.at * a[0] - p.at * b[0]; o.at = p.at - q.at * a[0]; out[0] = o.x + o.at;",
     "o.at = p.at - q.at * a[0] - p.at * b[0];"),
    (
        "aligned",
        "int r = m / 3, c = m % 3; int x = n * sizes.rows + r; int y = m * sizes.rows + c * sizes.cols; out[x] = a[y];",
        "int x = n * sizes.rows + r * sizes.cols;",
    ),
    ("aligned", "Pair p, o; o.x = __shfl_xor_sync(~0u, p.x, m); o.at = p.at; out[0] = o.x + o.at;",
     "o.at = __shfl_xor_sync(~0u, p.at, m);"),
    ("again", "float x = 0, y = 0, x_new = a[0], y_new = a[1]; if (m > n) { x = x_new; } out[0] = x + y;",
     "x = x_new; y = y_new;"),
    ("cleared", "__shared__ float s[64]; int i = threadIdx.x; s[i] += a[i]; out[i] = s[i];",
     "at_ < sizeof(s) / 4; at_ += blockDim.x * blockDim.y * blockDim.z)"),
    ("cleared", "__shared__ All all; int i = threadIdx.x; all.o[i] += a[i];",
     "sizeof(all.o) / 4"),
    ("cleared", "__shared__ float s[4][64]; int w = threadIdx.x / 32; float* t = s[w]; for (int i = 0; i < n; ++i)"
     " { out[i] = 0.0f; t[m] = a[i]; __syncwarp(); out[i] = t[i]; }",
     "out[i] = 0.0f; for (unsigned at_ = threadIdx.x % 32; at_ < sizeof(s[w]) / 4; at_ += 32)"),
    ("cleared", "__shared__ float s[64]; for (int i = 0; i < n; ++i) { out[i] = 0.0f; s[m] = a[i]; }",
     "out[i] = 0.0f; __syncthreads(); for (unsigned at_"),
]  # fmt: skip

NEVER = [
    ("other_pitches", "int i = threadIdx.x; out[i] = a[i + m * n];", "a[i * n"),  # one term alone that varies,
    ("other_pitches", "int i = threadIdx.x, j = threadIdx.y; out[i] = a[i + j * n];", "a[i + j]"),  # one changed alone,
    ("flat_transposed", "int i = threadIdx.x; out[i] = a[i / 16 + i % 16];", "i / 16 % "),
    ("divisible", "int i = threadIdx.x; if (i < 0) return; out[i] = a[m / n];", "m % n"),  # it is not asked about `m`
    ("exchanged", "int i = threadIdx.x; out[i] = a[n]; out[m] = b[i];", "a[m]"),  # in another statement
    ("both_terms", "int r = threadIdx.x, c = threadIdx.y; if (c == r) out[m + r] = a[n + c];", "c + n == r + m"),
    ("terms_rescaled", f"{WARP} out[t + 8] = a[t];", "out[t * 2 + 8]"),  # one term alone that varies
    ("term_composed", f"{WARP} float r[4]; r[0] = a[t]; out[w] = r[0];", "r[t]"),  # a register is no place of a thread
    ("term_composed", f"{WARP} if (t < n) out[w] = a[t];", "t + w < n"),
    ("element_more", f"{WARP} out[t] = a[t] * b[t];", "+ b["),  # both are read
    ("element_more", f"{WARP} float x = 0.0f; x = a[t]; out[t] = x;", "(x = a[t]) +"),  # what nobody takes
    ("limited", "int i = threadIdx.x; out[i] = a[i * m];", "a[min(i * m, n)]"),
    ("value_compared", "int i = threadIdx.x; out[i] = a[i];", "i < i"),
    ("split_by_power", "const int r = threadIdx.x % 16; const int h = threadIdx.y / 16; out[r * n + h] = a[r];", "/ 2"),
    ("left_early", "const int c = threadIdx.x; out[c] = a[c];", "break"),
    ("aligned", "out[0] = a[0]; if (m < n) { copy4(out, b); }", "copy4(out, b); }  out"),
    ("again", "float x = 0; { float y = a[1]; out[1] = y; } x = a[0]; out[0] = x;", "y = a[0]"),
    ("cleared", "float s[64]; int i = threadIdx.x; s[i] += a[i]; out[i] = s[i];", "sizeof(s)"),  # a thread's own
    ("cleared", "__shared__ float s[4][64]; int w = m; for (int i = 0; i < n; ++i) s[w][i] = a[i];", "sizeof(s[w])"),
]


@pytest.mark.parametrize(("operator", "body", "wanted"), YIELDS, ids=[f"{row[0]}: {row[2]}" for row in YIELDS])
def test_wider_operator_yields(operator: str, body: str, wanted: str) -> None:
    assert yields(body, operator, wanted, PAIR)


@pytest.mark.parametrize(("operator", "body", "wanted"), NEVER, ids=[f"{row[0]}: {row[2]}" for row in NEVER])
def test_wider_operator_does_not_yield(operator: str, body: str, wanted: str) -> None:
    assert not yields(body, operator, wanted, PAIR)


def test_the_second_round_makes_no_text_of_the_first() -> None:
    texts = {"k.cu": kernel(f"{WARP} out[w * 16 + t] = a[t * n] + b[w]; if (t < m) out[w] = a[t + 8];").encode()}
    first = {applied(texts, [one])["k.cu"] for one in changes(texts, "k")}
    second = [applied(texts, [one])["k.cu"] for one in changes(texts, "k", wider=True)]
    assert len(second) > 100 and not first & set(second) and len(second) == len(set(second))


def test_a_value_is_put_as_its_neighbour_is_where_one_name_stands_for_two() -> None:
    body = "float x = a[m] * alpha; float y = b[m]; out[0] = x + y;"
    assert any("float y = b[m] * alpha" in text for _, text in made(body, "aligned", PAIR))
