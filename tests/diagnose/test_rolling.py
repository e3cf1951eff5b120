"""Which loops of a program with alternatives may be unrolled."""

from __future__ import annotations

import pytest

from wmmadiag.csource.edits import ByteEdit
from wmmadiag.diagnose.trials.rolling import Loops, rolled
from wmmadiag.diagnose.trials.schemata import SELECTOR

SOURCE = """\
__device__ float twice(float x) { return x * 2; }
#define FOUR(x) twice(twice(x))
struct Sum {
    float held;
    __device__ Sum& operator+=(float x) { held += x; return *this; }
};
__global__ void k(float* out, int n) {
    auto put = [&](int i) { out[i] = i; };
    #pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = 1;
    for (int j = 0; j < n; ++j) {
        _Pragma("unroll") for (int i = 0; i < 4; ++i) out[i] += 2;
        put(j);
    }
    for (int l = 0; l < 4; ++l) out[l] = FOUR(out[l]);
    for (int q = 0; q < 4; ++q) { Sum s{}; s += out[q]; out[q] = s.held; }
}
"""
CONDITION = f"(::{SELECTOR} == 1 ? 0 : 1)"


def spared(place: str, alternatives: int = 9) -> str:
    """The counters of the loops that may be unrolled where so many alternatives stand at a place."""
    at = SOURCE.index(place)
    edit = ByteEdit(at, at + len(place), "+".join([CONDITION] * alternatives))
    text = rolled(Loops({"k.cu": SOURCE.encode()}).spared({"k.cu": [edit]})["k.cu"]).decode()
    assert len(text.splitlines()) == len(SOURCE.splitlines())
    assert "\x01" not in text
    loops = [line for line in text.splitlines() if "for (" in line]
    return "".join(line.split("for (int ")[1][0] for line in loops if '_Pragma("unroll 1") for' not in line)


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("= 1;", "jilq"),
        ("+= 2", "ilq"),  # that around it stays one, too
        ("x * 2", "ijiq"),  # named through a macro
        ("held += x", "ijil"),  # an operator: where its class is named
        ("= i;", "iilq"),  # a lambda
        ("float* out", "ijilq"),
        ("float held;", ""),  # what has no name may be run anywhere
    ],
)
def test_a_loop_stays_one_where_it_holds_or_names_many_alternatives(place: str, wanted: str) -> None:
    assert spared(place) == wanted


def test_few_alternatives_in_a_loop_leave_it_as_it_is() -> None:
    assert spared("+= 2", 2) == "ijilq"
    assert spared("float held;", 1) == ""


def test_what_nothing_is_changed_of_is_the_text_itself() -> None:
    texts = {"k.cu": SOURCE.encode()}
    assert rolled(Loops(texts).spared({"k.cu": []})["k.cu"]) == SOURCE.encode()


def test_a_loop_that_an_alternative_stands_for_stays_one() -> None:
    loop = SOURCE[SOURCE.index("for (int l") : SOURCE.index("    for (int q")].rstrip()
    start = SOURCE.index(loop)
    edit = ByteEdit(start, start + len(loop), f"if {CONDITION} {{ {loop} }}")
    text = Loops({"k.cu": SOURCE.encode()}).spared({"k.cu": [edit]})["k.cu"]
    assert b"for (int l" in text
    assert b"for (int q" not in text
