"""Variables that a change leaves without a reader, or gives their first one; functions and macros first used by it."""

from __future__ import annotations

import pytest

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.readers import Readers

TEXT = """#define TWO 2.0f
#define HALF(v) (0.5f * v / TWO)
__device__ float root(float v) { return sqrtf(v); }
__device__ float half(float v) { return v / 2.0f; }
__global__ void k(const float* x, float* out, int n, float scale, int unused) {
    __shared__ float held[32];
    int t = threadIdx.x;
    float top = x[t];
    float low = x[t + 1];
    top = fmaxf(top, low);
    held[t] = top * 2.0f;
    auto twice = [&](float v) { return v + v; };
    if (t < n) out[t] = held[t] + twice(low);
}
"""


def words(*edits: tuple[str, str]) -> set[str]:
    made = []
    for old, new in edits:
        start = TEXT.index(old)
        made.append(TextEdit("k.cu", start, start + len(old), new))
    change = Change("made", tuple(made), "expression", "value", "")
    return set(Readers({"k.cu": parse(TEXT.encode(), "k.cu")}).words(change))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("top * 2.0f", "top * 2.0f * scale", {"reader:first"}),
        ("top * 2.0f", "root(top)", {"reader:first"}),  # which nothing calls
        ("top * 2.0f", "HALF(top)", {"reader:first"}),  # a macro that nothing names
        ("top * 2.0f", "top * TWO", set()),  # one that another one names
        ("t < n", "t < unused", {"reader:first", "reader:last"}),
        ("t < n", "t < 3", {"reader:last"}),
        ("held[t] = top * 2.0f", "held[t] = low * 2.0f", {"reader:last"}),  # `top` is read for itself alone then
        ("top = fmaxf(top, low);", "", set()),  # both are read elsewhere
        ("held[t] + twice(low)", "held[t]", {"reader:last"}),
        ("x[t + 1]", "x[t]", set()),
        ("top * 2.0f", "top * 3.0f", set()),
    ],
)
def test_who_reads_a_variable_last_and_first(old: str, new: str, said: set[str]) -> None:
    assert words((old, new)) == said


def test_what_two_edits_take_away_together_is_read_no_more() -> None:
    assert words(("fmaxf(top, low)", "fmaxf(top, 0.0f)")) == set()
    assert words(("fmaxf(top, low)", "fmaxf(top, 0.0f)"), ("twice(low)", "twice(top)")) == {"reader:last"}
