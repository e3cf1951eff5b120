"""Lane formulas and register order: what is wrong becomes the fragment's own map, and what is right stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.diagnose.edits import Edit, apply
from wmmadiag.diagnose.edits.registry import derived
from wmmadiag.diagnose.source.lanes import LANES
from wmmadiag.diagnose.source.read import read_source

RIGHT = """\
#include <cuda_fp16.h>
#define LOAD_T(R0, R1, p) \\
  asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];" : "=r"(R0), "=r"(R1) : "r"(p))
constexpr int LD = 40;
struct Load {
  __device__ static void copy(unsigned (&r)[4], const half* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(unsigned(__cvta_generic_to_shared(p))));
  }
};
__device__ void mma(float* d, const unsigned* a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__global__ void kernel(const half* A, const half* B, float* C, int n, int k) {
  __shared__ half sa[32 * LD];
  __shared__ half sb[16][72];
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int g = lane >> 2, t = lane & 3;
  float acc[2][4] = {};
  for (int i = tid; i < 32 * 32; i += 64) sa[i / 32 * LD + i % 32] = A[i / 32 * k + i % 32];
  __syncthreads();
  unsigned ra[4], rb[2], rc[2];
  Load::copy(ra, &sa[(warp * 16 + (lane & 15)) * LD + (lane >> 4) * 8]);
  const int row_b = lane % 16;
  unsigned address = __cvta_generic_to_shared(&sb[row_b][warp * 8]);
  LOAD_T(rb[0], rb[1], address);
  const half* from = B + (size_t)(warp * 8 + g) * k + t * 2;
  rc[0] = *reinterpret_cast<const unsigned*>(from);
  rc[1] = *reinterpret_cast<const unsigned*>(from + 8);
  mma(acc[0], ra, rb[0], rb[1]);
  mma(acc[1], ra, rc[0], rc[1]);
  for (int h = 0; h < 2; ++h)
    for (int e = 0; e < 4; ++e) {
      const int row = warp * 16 + g + (e >= 2 ? 8 : 0);
      const int col = h * 8 + t * 2 + (e & 1);
      C[row * n + col] = acc[h][e];
    }
}
"""

# (right text, wrong text, what the first edit makes of the wrong text)
MISTAKES = [
    ("(lane & 15)) * LD", "(lane & 7)) * LD", "lane % 16) * LD"),
    ("(lane >> 4) * 8]", "(lane & 1) * 8]", "lane / 16 * 8]"),
    ("(warp * 16 + (lane & 15)) * LD + (lane >> 4) * 8", "(warp * 16 + (lane & 7)) * LD + (lane >> 3) * 8",
     "(warp * 16 + (lane % 16)) * LD + (lane / 16 * 8)"),
    ("row_b = lane % 16", "row_b = lane % 8 * 2", "row_b = lane % 16"),
    ("warp * 8 + g) * k + t * 2", "warp * 8 + t) * k + g * 2", "warp * 8 + g) * k + t * 2"),
    ("lane >> 2, t", "lane >> 3, t", "lane / 4, t"),
    ("lane & 3;", "lane & 7;", "lane % 4;"),
    ('"r"(a[1]), "r"(a[2])', '"r"(a[2]), "r"(a[1])', '"r"(a[1]), "r"(a[2])'),
    ("rc[0], rc[1])", "rc[1], rc[0])", "rc[0], rc[1])"),
    ("(from + 8)", "(from)", "(from + 8)"),
    ("g + (e >= 2 ? 8 : 0);\n      const int col = h * 8 + t * 2 + (e & 1);",
     "g * 2 + (e & 1);\n      const int col = h * 8 + t * 2 + e / 2;",
     "g + e / 2 * 8;\n      const int col = h * 8 + t * 2 + e % 2;"),
]  # fmt: skip


def _suspicious(text: str) -> list[Edit]:
    found = derived(read_source(text), range(1, text.count("\n") + 2))
    return sorted((edit for edit in found if edit.rank <= 0.05), key=lambda edit: edit.rank)


def _same(text: str) -> str:
    return "".join(text.split()).replace("(", "").replace(")", "")


@pytest.mark.parametrize(("right", "wrong", "wanted"), MISTAKES)
def test_a_wrong_formula_becomes_the_fragments_own(right: str, wrong: str, wanted: str) -> None:
    assert RIGHT.count(right) == 1
    text = RIGHT.replace(right, wrong)
    mended = {_same(apply(text, edit)) for edit in _suspicious(text)[:6]}
    assert _same(RIGHT.replace(right, wanted)) in mended


def test_what_is_right_is_left_alone() -> None:
    assert not _suspicious(RIGHT)


KERNELS = Path(__file__).parents[2] / "kernels"
MULTIPLYING = [
    path
    for path in sorted([*KERNELS.glob("*/kernel.cu"), *KERNELS.glob("*/lookalike/*.cu")])
    if "mma.sync" in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", MULTIPLYING, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_right_kernels_have_nothing_that_is_laid_out_as_no_fragment_is(path: Path) -> None:
    assert not [edit.summary for edit in _suspicious(path.read_text("utf-8")) if edit.rank <= 0.04]


def test_columns_may_be_counted_in_matrices() -> None:
    swizzled = RIGHT.replace(
        "(warp * 16 + (lane & 15)) * LD + (lane >> 4) * 8", "at(warp * 16 + (lane & 15), lane >> 4)"
    )
    assert swizzled != RIGHT and not _suspicious(swizzled)
    wrong = swizzled.replace("lane & 15), lane >> 4)", "lane & 15), lane >> 3)")
    assert any("lane / 16)" in apply(wrong, edit) for edit in _suspicious(wrong))


def test_other_spellings_of_a_right_formula_are_right() -> None:
    text = RIGHT.replace("(lane & 15)) * LD", "lane % 8 + lane / 8 % 2 * 8) * LD").replace(
        "lane >> 2, t", "lane / 4, t"
    )
    assert text != RIGHT and not _suspicious(text)


def test_a_kernel_without_mma_has_no_formulas() -> None:
    text = RIGHT.replace("mma.sync", "mma_").replace("ldmatrix", "load")
    assert not _suspicious(text.replace("lane >> 2, t", "lane >> 3, t"))


def test_a_lane_is_followed_through_names_but_a_thread_is_none() -> None:
    model = read_source(RIGHT)
    variable = {one.name: one for one in model.variables if one.initial is not None}
    values = {name: model.lanes.values(one.initial) for name, one in variable.items() if one.initial is not None}
    assert [values["g"], values["row_b"]] == [
        tuple(lane // 4 % 8 for lane in range(2 * LANES)), tuple(lane % 16 for lane in range(2 * LANES)),
    ]  # fmt: skip
    assert values["tid"] is not None and not model.lanes.of_lane(values["tid"])
    assert values["from"] is None
