"""The code that a kernel runs, as text."""

from __future__ import annotations

import pytest

from wmmadiag.compile.kernel_code import kernel_code

SOURCE = """
__device__ float act(float x) { return tanhf(x); }
template <bool BIAS, bool ACT> __global__ void f(float* y, const float* b) {
    float v = BIAS ? b[0] : 1.0f;
    if constexpr (ACT) { v = act(v); } else v += 2.0f;
    if (!ACT) v *= 3.0f;
    y[0] = v;
}
"""


@pytest.mark.parametrize(
    ("flags", "held", "idle"),
    [
        ({}, ["tanhf", "b[0]", "2.0f", "3.0f"], []),
        ({"ACT": False}, ["b[0]", "2.0f", "3.0f"], ["tanhf", "act(v)"]),
        ({"ACT": True}, ["tanhf"], ["2.0f", "3.0f"]),
        ({"BIAS": False, "ACT": True}, ["1.0f", "tanhf"], ["b[0]"]),
    ],
)
def test_what_a_templates_flags_leave_out_is_none_of_it(flags, held, idle):
    code = kernel_code(SOURCE, "f", flags)
    assert all(one in code for one in (*held, "y[0] = v"))
    assert not any(one in code for one in idle)
