"""Edits that other statements of the source suggest, and whole statements cleared, moved or repeated."""

from __future__ import annotations

import pytest

from wmmadiag.compile.lexer import tokenize
from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

KERNEL = """#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* x, const half* y, float* out, int rows, int cols, int heads, int depth) {{
    __shared__ half a[64][32];
    __shared__ half b[64][32];
    const int first = blockIdx.x * 64;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float total[2];
    for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) {{
        const int r = i / 32, c = i % 32;
{body}
    }}
    out[threadIdx.x] = total[0] + __half2float(a[warp][lane]) + __half2float(b[warp][lane]);
}}
"""


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


@pytest.mark.parametrize(
    ("hypothesis", "wrong", "right"),
    [
        (
            "index-arithmetic",
            "a[r][c] = x[(first + r) * depth + c];\nb[r][c] = y[r * depth + c];",
            "a[r][c] = x[(first + r) * depth + c];\nb[r][c] = y[(first + r) * depth + c];",
        ),
        (
            "guard-condition",
            "if (first + r < cols && c < rows) a[r][c] = x[(first + r) * cols + c];",
            "if (first + r < rows && c < cols) a[r][c] = x[(first + r) * cols + c];",
        ),
        (
            "stale-tile",
            "if (first + r < rows) a[r][c] = x[(first + r) * cols + c];",
            "if (first + r < rows) a[r][c] = x[(first + r) * cols + c]; else a[r][c] = __float2half(0.0f);",
        ),
        (
            "tensor-strides",
            "a[r][c] = x[((blockIdx.y * heads + blockIdx.z) * rows + r) * depth + c];",
            "a[r][c] = x[((blockIdx.y * rows + r) * heads + blockIdx.z) * depth + c];",
        ),
        (
            "tail-masking",
            "a[r][c] = r < rows ? x[(blockIdx.y * rows + r) * depth + c] : __float2half(0.0f);",
            "a[r][c] = r < rows && c < depth ? x[(blockIdx.y * rows + r) * depth + c] : __float2half(0.0f);",
        ),
    ],
)
def test_the_mend_is_among_the_first(hypothesis: str, wrong: str, right: str) -> None:
    broken, mended = KERNEL.format(body=wrong), KERNEL.format(body=right)
    last = broken[: broken.index(wrong) + len(wrong)].count("\n") + 1
    found = edits(read_source(broken), hypotheses={hypothesis}, lines={last})
    ranks = [i for i, edit in enumerate(found) if words(apply(broken, edit)) == words(mended)]
    assert ranks and ranks[0] < 10, [edit.summary for edit in found[:10]]


def test_quotient_and_remainder_by_one_divisor() -> None:
    text = (
        "__global__ void k(int* p, int M, int tiles) {\n  int w = threadIdx.x;\n  p[0] = w / tiles;\n"
        "  p[1] = w % (M / 32);\n}\n"
    )
    found = edits(read_source(text), hypotheses={"index-arithmetic"}, lines={4})
    assert "w % tiles" in apply(text, found[0])


def test_waits_behind_macros_are_seen() -> None:
    text = (
        '#define COMMIT() asm volatile("cp.async.commit_group;\\n")\n'
        '#define WAIT(n) asm volatile("cp.async.wait_group %0;\\n" :: "n"(n))\n'
        "#define BOTH() COMMIT(); WAIT(0)\n"
        "__global__ void k(int* p) {\n  COMMIT();\n  WAIT(1);\n  p[0] = 0;\n}\n"
    )
    model = read_source(text)
    assert [b.kind for b in model.barriers] == ["commit", "wait"]
    found = edits(model, hypotheses={"async-copy-order"}, lines={6})
    assert any("WAIT(0);\n  p" in apply(text, edit) for edit in found[:10])


def test_a_condition_on_the_thread_becomes_a_stride_loop() -> None:
    text = "__global__ void k(float* p, int n) {\n  if (threadIdx.x < n) p[threadIdx.x] = 0.0f;\n}\n"
    found = edits(read_source(text), hypotheses={"partial-fill"}, lines={2})
    wanted = "for (int i_ = threadIdx.x; i_ < n; i_ += blockDim.x) p[i_] = 0.0f;"
    assert any(wanted in apply(text, edit) for edit in found[:5])


def test_a_reset_moves_out_of_its_loop() -> None:
    text = (
        "__global__ void k(float* p, int n) {\n  float s;\n  for (int i = 0; i < n; ++i) {\n    s = 0.f;\n"
        "    s += p[i];\n  }\n  p[0] = s;\n}\n"
    )
    found = edits(read_source(text), hypotheses={"accumulator-reset"}, lines={4})
    assert any("float s = 0;" in apply(text, e) and "s = 0.f;" not in apply(text, e) for e in found[:5])


def test_no_more_than_asked_for() -> None:
    model = read_source(KERNEL.format(body="a[r][c] = x[(first + r) * depth + c];"))
    assert len(edits(model)) <= 150
    assert len(edits(model, hypotheses={"index-arithmetic"}, lines={12})) <= 40
    found = edits(model)
    assert len({edit.line for edit in found[:30]}) > 5


LANES = """#include <cuda_fp16.h>
__device__ int swz(int row, int chunk) { return row * 64 + ((chunk ^ (row & 7)) << 3); }
__device__ void load4(unsigned* r, const half* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"((unsigned)__cvta_generic_to_shared(p)));
}
__global__ void k(float* out, int n) {
    __shared__ half t[64 * 64];
    const int lane = threadIdx.x % 32;
    unsigned r[4];
    float mx = out[lane], sum = 0.f;
    t[swz(lane, 0)] = __float2half(mx);
    load4(r, t + (lane & 7) * 64 + (lane >> 3) * 8);
    mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));
    for (int c = lane & 1; c < n; c += 2) sum += out[c];
    out[lane] = sum / mx + r[0];
}
"""


@pytest.mark.parametrize(
    ("hypothesis", "line", "part"),
    [
        ("ldmatrix-address", 4, "x4.trans.shared"),
        ("ldmatrix-address", 13, "(lane % 16) * 64 + lane / 16 * 8"),
        ("swizzle-mismatch", 13, "t + swz(lane & 7, lane >> 3)"),
        ("reduction", 15, "sum += __shfl_xor_sync(0xffffffff, sum, 1);"),
        ("operand-order", 5, '"=r"(r[1]), "=r"(r[0])'),
    ],
)
def test_what_lanes_hold(hypothesis: str, line: int, part: str) -> None:
    found = edits(read_source(LANES), hypotheses={hypothesis}, lines={line})
    made = ["".join(apply(LANES, edit).replace("((", "(").replace("))", ")").split()) for edit in found[:10]]
    wanted = "".join(part.replace("((", "(").replace("))", ")").split())
    assert any(wanted in text for text in made), [edit.summary for edit in found[:10]]


@pytest.mark.parametrize(
    ("bound", "wanted"),
    [
        ("causal ? min(n, q0) : n", "min(n, q0 + 64)"),
        ("causal ? min(n, (int)(blockIdx.x + 1) * 64 - 32) : n", "min(n, (int)(blockIdx.x + 1) * 64)"),
        ("(q0 + 31) / 32 - 1", "(q0 + 31) / 32;"),
        ("min(n, blockIdx.x * 64)", "min(n, (blockIdx.x + 1) * 64)"),
        ("tile", "tile + 1"),
    ],
)
def test_a_loop_to_the_diagonal_ends_behind_the_rows_of_its_block(bound, wanted):
    source = f"""__global__ void k(float* out, int n, int causal) {{
    const int tile = gridDim.x - 1 - blockIdx.x;
    const int q0 = tile * 64;
    const int end = {bound};
    for (int j = 0; j < end; j += 32) out[q0] += j;
}}
"""
    found = [
        edit
        for edit in edits(read_source(source), hypotheses=("loop-extent",), lines=(4,))
        if edit.kind == "block-ends" and "".join(words(wanted)) in "".join(words(apply(source, edit)))
    ]
    assert found and found[0].line == 4


def test_a_bound_that_is_the_same_in_all_blocks_is_left_alone():
    source = "__global__ void k(float* out, int n) { for (int j = 0; j < n - 1; ++j) out[j] = blockIdx.x; }"
    assert not [
        e for e in edits(read_source(source), hypotheses=("loop-extent",), lines=(1,)) if e.kind == "block-ends"
    ]
