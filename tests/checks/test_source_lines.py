"""Where a statement can be inserted in source text."""

from __future__ import annotations

import pytest

from wmmadiag.checks.source_lines import structure

SOURCE = """#include <x.h>
__global__ void k(float* out) {  // { not a brace
    __shared__ float s[64];
    for (int i = 0; i < 4; ++i) {
        s[i] = i; // 5
    }
    const char* text = "}{;";
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out[i] = s[i]; // 10
        if (i > 2)
            out[i] += 1; // 12
        else
            out[i] -= 1; // 14
        call(out,
             s[i]); // 16
#if 0
        more(); // 18
#endif
        out[i] = 0; // 20
    }
    do {
        out[0] += s[1]; // 23
    } while (out[0] < 3);
}
"""


@pytest.mark.parametrize(
    ("after", "before", "line"),
    [
        (5, 10, 8),  # out of both loops, and not between #pragma unroll and its loop
        (10, 12, 11),  # before the if, not under it
        (10, 14, 11),
        (12, 14, 0),  # between if and else there is no place
        (14, 16, 15),  # not inside a call
        (16, 20, 20),  # not under #if
        (5, 6, 6),  # at the end of a body
        (10, 5, 0),  # no way forward
        (10, 99, 0),
    ],
)
def test_between(after, before, line):
    assert structure(SOURCE).between(after, before) == line


def test_loop_end():
    one = structure(SOURCE)
    assert [one.loop_end(lines) for lines in ((10, 20), (5,), (9, 12), (23,), (5, 10))] == [21, 6, 21, 24, 0]


@pytest.mark.parametrize("text", ["", "}", "}}}{{{", '"', "/*", "((((", "#", "for (", "\\\n", "'"])
def test_any_text_has_some_structure(text):
    one = structure(text)
    assert one.between(1, 1) == 0 and one.loop_end((1,)) in (0, 1)
