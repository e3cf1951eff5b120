"""Bounds that an address asks for, and the conditions that leave early."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source
from wmmadiag.diagnose.source.slices import Slicer

HEAD = "__global__ void k(float* y, const float* x, int rows, int ldy, int cols) {\n"


def texts(body: str, line: int) -> list[str]:
    source = HEAD + body + "}\n"
    found = edits(read_source(source), hypotheses=("out-of-bounds", "guard-condition"), lines={line})
    return [apply(source, edit) for edit in found if edit.kind == "bounds"]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "  int r = threadIdx.y, c = threadIdx.x;\n  if (r < rows) y[(size_t)r * ldy + c] = 1.f;\n",
            "if (r < rows && c < ldy) y[",
        ),
        (
            "  int r = threadIdx.y, c = threadIdx.x, r0 = blockIdx.x * 16;\n"
            "  if (r < rows) y[(r0 + r) * ldy + c] = 1.f;\n",
            "if (r0 + r < rows) y[",
        ),
        (
            "  int r = threadIdx.y, c = threadIdx.x, c0 = blockIdx.x * 16;\n"
            "  y[c] = r < rows ? x[r * ldy + c0 + c] : 0.f;\n",
            "= r < rows && c0 + c < ldy ? x[",
        ),
        (
            "  int r = threadIdx.y, c = threadIdx.x;\n  y[static_cast<long>(r) * ldy + c] = 1.f;\n",
            "if (c < ldy) y[",
        ),
        (
            "  int r = threadIdx.y, c = threadIdx.x;\n  y[c] = x[r * ldy + c];\n",
            "y[c] = (c < ldy) ? x[r * ldy + c] : ",
        ),
        (
            "  int r = threadIdx.y, c = threadIdx.x;\n  if (r < 4 || r > 8) y[r * ldy + c] = 1.f;\n",
            "if ((r < 4 || r > 8) && c < ldy) y[",
        ),
    ],
)
def test_what_the_address_says_is_offered(body, wanted):
    assert any(wanted in text for text in texts(body, 3)), texts(body, 3)


def test_a_bound_that_is_there_is_not_offered_again():
    body = "  int r = threadIdx.y, c = threadIdx.x;\n  if (r < rows && c < ldy) y[r * ldy + c] = 1.f;\n"
    assert not any("c < ldy && c < ldy" in text or "c < ldy) && c < ldy" in text for text in texts(body, 3))


@pytest.mark.parametrize("body", ["  y[threadIdx.x * 4] = 1.f;\n", "  int c = threadIdx.x;\n  y[c] = x[c];\n"])
def test_no_row_and_column_no_bound(body):
    assert texts(body, 2) == []


def test_early_exits_are_what_a_line_depends_on():
    body = (
        "  int r = threadIdx.x;\n"
        "  if (r > rows) return;\n"
        "  if (r > 5) { __syncwarp(); }\n"
        "  for (int i = 0; i < 4; ++i) {\n"
        "    if (i > cols) continue;\n"
        "    y[r + i] = 1.f;\n"
        "  }\n"
        "  if (r > 3) return;\n"
    )
    away = Slicer(read_source(HEAD + body + "}\n")).distances([7])
    assert away[3] == away[6] == 1
    assert 9 not in away and 4 not in away


@pytest.mark.parametrize(
    ("definition", "without"),
    [
        ("const int end = n / 16 - 1;", {"end without - 1": "const int end = n / 16;"}),
        ("int end = min(first + 64 - 16, n);", {"end without - 16": "int end = min(first + 64, n);"}),
        ("const int end = n / 16;", {}),
    ],
)
def test_what_a_loop_runs_to_is_defined_elsewhere(definition, without):
    text = f"""__global__ void k(float* x, int n, int first) {{
        {definition}
        for (int i = first; i < end; ++i) {{
            x[i] = 0;
        }}
    }}"""
    found = edits(read_source(text), hypotheses=("loop-extent",), lines=(2,))
    assert {e.summary: apply(text, e).split("\n")[1].strip() for e in found if "end without -" in e.summary} == without


@pytest.mark.parametrize(
    ("bound", "times", "mended"),
    [
        ("ROWS * 32 / 4", 2, "ROWS * 32 / 2"),
        ("ROWS * 32 / 4", 4, "ROWS * 32"),
        ("ROWS * 32 / 4", 3, "3 * ROWS * 32 / 4"),
        ("128", 2, "2 * 128"),
    ],
)
def test_a_bound_that_memory_shows_to_be_a_part(bound, times, mended):
    text = f"""__global__ void k(float* x, float* s) {{
        for (int i = threadIdx.x; i < {bound}; i += 32)
            s[i] = x[i];
    }}"""
    found = edits(read_source(text), hypotheses=("partial-fill",), lines=(2,), values={"times": times})
    assert f"i < {mended};" in apply(text, found[0]).replace("(", "").replace(")", "")
    without = edits(read_source(text), hypotheses=("partial-fill",), lines=(2,))
    assert not any("times as many" in edit.summary for edit in without)


def test_only_loops_over_the_threads_fill_a_tile():
    text = """__global__ void k(float* x, float* s, int n) {
        for (int k0 = 0; k0 < n; k0 += 32) {
            for (int i = threadIdx.x; i < 32; i += 32)
                s[i] = x[k0 + i];
        }
    }"""
    found = edits(read_source(text), hypotheses=("partial-fill",), lines=(2, 3, 4), values={"times": 2})
    assert {edit.summary for edit in found if "times as many" in edit.summary} == {"fill 2 times as many: 2 * 32"}
