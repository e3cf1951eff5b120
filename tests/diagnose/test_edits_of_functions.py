"""Edits that need to know nothing of the operation: tables, members, divisors, ends, weights and guards."""

from __future__ import annotations

import pytest

from wmmadiag.compile.lexer import tokenize
from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

KERNEL = """#include <cuda_fp16.h>
struct Shape {{ int rows, cols, depth, channels, width; }};
__device__ float part(const float* x, int first, int last) {{
    float total = 0.f;
    for (int k = first; k < last; ++k) total += x[k];
    return total;
}}
__global__ void k(const float* x, const int* tables, float* out, Shape p, int length, int keys) {{
    __shared__ float s[64], w[64], sums[64];
    const int* table = tables + blockIdx.y * p.rows;
    const int begin = blockIdx.z * p.depth, tile = blockIdx.x * 64;
    float num = 0.f, den = 0.f, m = 0.f;
    const int lane = threadIdx.x % 32;
    {used}
    for (int j = 0; j < keys; ++j) m = fmaxf(m, s[j]);
{body}
    out[threadIdx.x] = num / den + m;
}}
"""
USED = "if (lane < 4) out[table[lane]] = begin + tile;"


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


@pytest.mark.parametrize(
    ("kind", "hypothesis", "wrong", "right"),
    [
        (
            "members",
            "index-arithmetic",
            "const int col = lane / p.cols % p.rows; num += x[col];",
            "const int col = lane / p.cols % p.depth; num += x[col];",
        ),
        (
            "radix",
            "index-arithmetic",
            "const int a = tile / (p.width * p.channels);\nconst int b = tile / p.channels % p.channels;\nnum = x[a];",
            "const int a = tile / (p.width * p.channels);\nconst int b = tile / p.channels % p.width;\nnum = x[a];",
        ),
        (
            "radix",
            "index-arithmetic",
            "const int a = tile / p.width;\nconst int b = tile / p.channels % p.width;\nnum = x[a];",
            "const int a = tile / (p.channels * p.width);\nconst int b = tile / p.channels % p.width;\nnum = x[a];",
        ),
        (
            "clamps",
            "loop-extent",
            "const int last = begin + 64;\nnum = part(x, begin, last);",
            "const int last = (begin + 64 < length ? begin + 64 : length);\nnum = part(x, begin, last);",
        ),
        (
            "clamps",
            "out-of-bounds",
            "for (int i = begin; i < begin + 64; ++i) num += x[i];",
            "for (int i = begin; i < (begin + 64 < length ? begin + 64 : length); ++i) num += x[i];",
        ),
        (
            "sibling-factors",
            "rescale-missing",
            "const float f = w[lane];\nnum += f * s[lane];\nden += sums[lane];",
            "const float f = w[lane];\nnum += f * s[lane];\nden += f * sums[lane];",
        ),
        (
            "guarded-values",
            "tail-masking",
            "for (int j = 0; j < 64; ++j) { const float e = __expf(s[j] - m); den += e; }",
            "for (int j = 0; j < 64; ++j) { const float e = j < keys ? __expf(s[j] - m) : 0.0f; den += e; }",
        ),
        (
            "signs",
            "card-mismatch",
            "num = s[lane] * p.rows + w[lane] * p.cols;",
            "num = s[lane] * p.rows - w[lane] * p.cols;",
        ),
        (
            "odd-arguments",
            "index-arithmetic",
            "num = fmaf(x[begin], s[tile], w[begin]);",
            "num = fmaf(x[begin], s[begin], w[begin]);",
        ),
        (
            "named-steps",
            "index-arithmetic",
            "constexpr int half_of = 32;\nnum = s[lane + 1] + w[half_of];",
            "constexpr int half_of = 32;\nnum = s[lane + half_of] + w[half_of];",
        ),
        (
            "pointer-starts",
            "tensor-strides",
            "const float* from = x;\nnum = from[lane];",
            "const float* from = x + begin * length;\nnum = from[lane];",
        ),
        (
            "members",
            "tensor-strides",
            "num = x[(long long)lane * p.rows * p.rows];",
            "num = x[(long long)lane * p.rows * p.depth];",
        ),
        (
            "extra-terms",
            "index-arithmetic",
            "const int row = begin + tile + lane;\nnum = row < length ? s[lane] : 0.f;",
            "const int row = tile + lane;\nnum = row < length ? s[lane] : 0.f;",
        ),
    ],
)
def test_the_change_is_offered(kind: str, hypothesis: str, wrong: str, right: str) -> None:
    source, wanted = KERNEL.format(body=wrong, used=USED), words(KERNEL.format(body=right, used=USED))
    first = source[: source.index(wrong)].count("\n") + 1
    lines = range(first, first + wrong.count("\n") + 1)
    offered = edits(read_source(source), hypotheses={hypothesis}, lines=lines)
    made = [edit.kind for edit in offered if words(apply(source, edit)) == wanted]
    assert made[:1] == [kind]


def test_a_table_that_nothing_reads() -> None:
    wrong, right = "const int at = lane;", "const int at = table[lane];"
    source, wanted = KERNEL.format(body=wrong, used=""), words(KERNEL.format(body=right, used=""))
    line = source[: source.index(wrong)].count("\n") + 1
    offered = edits(read_source(source), hypotheses={"index-arithmetic"}, lines=[line])
    assert words(apply(source, offered[0])) == wanted
    # A table that is read is no anomaly.
    offered = edits(read_source(KERNEL.format(body=wrong, used=USED)), lines=[line])
    assert not [edit for edit in offered if edit.kind == "lookups"]


def test_divisors_that_fit_are_left_alone() -> None:
    body = "const int a = tile / (p.width * p.channels);\nconst int b = tile / p.channels % p.width;\nnum = x[a];"
    source = KERNEL.format(body=body, used=USED)
    assert not [edit for edit in edits(read_source(source)) if edit.kind == "radix"]


def test_a_strict_comparison_comes_first_where_it_is_known() -> None:
    source = KERNEL.format(body="if (lane >= begin && lane < length) num = 1.f;", used=USED)
    line = source[: source.index("if (lane >= begin")].count("\n") + 1
    offered = edits(read_source(source), hypotheses={"guard-condition"}, lines=[line], values={"strict": 1})
    assert {edit.summary.split(" at ")[0] for edit in offered[:2]} == {"> in place of >=", "<= in place of <"}
