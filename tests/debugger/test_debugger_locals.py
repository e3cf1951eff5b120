"""Local variables: of a source that keeps them, and how the prompt comes to that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debugged import line_of, small

import wmmadiag
from wmmadiag.debugger import Session
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.debugger.kept import kept
from wmmadiag.debugger.text import number
from wmmadiag.errors import ConfigurationError

SOURCE = """#define TILE 16
constexpr int PAD = 8;

extern "C" __global__ void small(const float* x, float* out, int n)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    constexpr int half = TILE / 2;
    int row = warp * TILE + (lane >> 1), last = min(n, TILE * 4) - 1;
    const bool even = (lane & 1) == 0;
    const unsigned wrapped = (threadIdx.x - 5) / 2;
    int moving = lane;
    size_t pitch = (size_t)n + PAD;
    if (lane > 3) moving += 2;
    float sum = 0.0f, other = 1.0f;
    for (int i = 0; i < n; ++i) {
        sum = sum * 0.5f + x[i];
        if (sum > 1e30f) break;
    }
    const float squared = sum * sum + x[row];
    other = squared / (1.0f + sum);
    int left = half;
    int* to = &left;
    *to += lane;
    out[threadIdx.x] = other + (even ? squared : pitch + last) + moving + wrapped + left;
}
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = small(tmp_path, SOURCE)
    made.run_to(line=line_of(made, "out[threadIdx.x]"), warp=1)
    return made


def values(session: Session, name: str) -> Any:
    return session.variable(name).values


def test_variables_are_told_of_a_source_that_keeps_them_alone(session: Session) -> None:
    with pytest.raises(ConfigurationError, match="nothing tells where it is") as told:
        session.variable("row")
    assert "keep" in told.value.hint
    made = kept(session)
    lane = np.arange(32)
    assert (values(made, "row") == 16 + lane // 2).all() and (values(made, "half") == 8).all()
    assert (values(made, "last") == 63).all() and (values(made, "pitch") == 72).all()
    assert (values(made, "even") == (lane % 2 == 0)).all()
    assert (values(made, "wrapped") == (27 + lane) // 2).all()
    assert (values(made, "moving") == np.where(lane > 3, lane + 2, lane)).all()
    made.select(warp=0, lane=3)
    assert (values(made, "row") == lane // 2).all()
    assert (values(made, "wrapped") == (lane - 5) % 2**32 // 2).all()


def test_the_prompt_keeps_them_once_one_is_asked_for_and_its_breakpoints_stay(session: Session) -> None:
    prompt = Interpreter(session)
    prompt.run("break 16 warp 1")
    prompt.run("watch out[40]")
    prompt.run("disable 2")
    reply = prompt.run("print row")
    assert "times differ" in reply.text and "as it was after line 8" in reply.text and len(reply.data["values"]) == 32
    assert prompt.session is not session and prompt.session.moment.warp == 1
    points = prompt.breakpoints.all
    assert [(n, one.words, one.enabled) for n, one in points.items()] == [
        (1, "line 16, warp 1", True),
        (2, "write to out[40]", False),
    ]
    assert "times differ" not in prompt.run("print squared").text
    prompt.run("enable 2")
    assert "breakpoint 2: write to out[40]" in prompt.run("continue").text
    again = Interpreter(session, keeps=False)
    with pytest.raises(ConfigurationError, match="nothing tells"):
        again.run("print row")


def test_what_something_else_may_write_the_compiler_reads(session: Session) -> None:
    prompt = Interpreter(kept(session))
    with pytest.raises(ConfigurationError, match="no copy of it") as told:
        prompt.run("print left")
    assert "print +left" in told.value.hint
    prompt.session.select(warp=1, lane=5)
    assert prompt.run("print +left").data["value"] == 13


def test_a_pointer_is_the_element_that_it_leads_to(session: Session) -> None:
    prompt = Interpreter(session)
    session.select(warp=1, lane=3)
    with pytest.raises(ConfigurationError, match="no variable 'TILE'") as told:
        prompt.run("print x + 2 - TILE")
    assert "after `keep` macros" in told.value.hint
    assert prompt.run("print 3 + x").data["element"] == "x[3]"
    start = session.arrays.parts["x"][0].start
    assert prompt.run("print x - 1").data == {"name": "x - 1", "value": start - 4}  # leads to nothing
    assert prompt.run("print (x + 17) - x").data["value"] == 17 and prompt.run("print x + 1 > x").data["value"] == 1
    with pytest.raises(ConfigurationError, match=r"cannot be computed.*'pointer' and 'int'"):
        prompt.run("print x * 2")
    reply = prompt.run("print x + row * 2 - 16")  # row is 17, an element has four bytes
    assert reply.text.endswith(f"x + row * 2 - 16 = {start + 18 * 4:#x}, x[18]") and reply.data["element"] == "x[18]"
    assert prompt.run("print x + TILE").data["element"] == "x[16]"


def test_types_and_template_arguments_are_the_compilers(tmp_path: Path) -> None:
    session = small(
        tmp_path,
        """template <int ROWS, class T> struct Tile { static constexpr int pitch = ROWS * sizeof(T) + 8; };
template <int ROWS, class T> __device__ float row_of(const float* x)
{
    const auto at = threadIdx.x * Tile<ROWS, T>::pitch / ROWS;
    const unsigned char low = at * 3;
    using Wide = long;
    const Wide wide = Wide(low) - 300;
    float sum = 0.0f;
    for (unsigned i = 0; i < at + low; ++i) sum += x[(i + wide) & 63];
    return sum;
}
extern "C" __global__ void small(const float* x, float* out, int n)
{
    out[threadIdx.x] = row_of<16, double>(x);
}
""",
    )
    session = kept(session)
    session.run_to(line=line_of(session, "sum += x"), warp=1)
    at = (32 + np.arange(32)) * 136 // 16
    assert (values(session, "at") == at).all()
    assert (values(session, "low") == at * 3 % 256).all()
    assert (values(session, "wide") == at * 3 % 256 - 300).all()
    assert session.variable("wide").type == "const Wide"


def test_a_variable_changes_while_the_warp_goes_on(session: Session) -> None:
    session = kept(session)
    total, x = np.float32(0), session.case.inputs()["x"]
    sums = [total]
    for one in x:
        sums.append(np.float32(sums[-1] * np.float32(0.5) + one))
    assert np.allclose(values(session, "sum"), sums[-1], rtol=1e-5)
    row = 16 + np.arange(32) // 2
    assert np.allclose(values(session, "squared"), sums[-1] ** 2 + x[row], rtol=1e-5)
    session.seek(0)
    with pytest.raises(ConfigurationError, match="run no instruction that assigns 'squared'"):
        session.variable("squared")
    for rounds in range(1, 4):
        session.run_to(line=line_of(session, "if (sum > 1e30f)"), warp=0)
        assert np.allclose(values(session, "sum"), sums[rounds], rtol=1e-5)


def test_unknown_names(session: Session) -> None:
    interpreter = Interpreter(session)
    assert "row" in interpreter.run("info variables").text and "squared" in interpreter.completions("print squ")
    with pytest.raises(ConfigurationError, match="no variable 'squred'") as error:
        interpreter.run("print squred")
    assert "squared" in error.value.hint


INFINITE = """#include <cuda_fp16.h>

extern "C" __global__ void small(const float* x, half* res, int n)
{
    __shared__ float out[2][64];
    float top = -INFINITY;
    for (int i = 0; i < n; ++i) top = fmaxf(top, x[i] - INFINITY);
    out[0][threadIdx.x] = top;
    __syncthreads();
    res[threadIdx.x] = __float2half(out[0][63 - threadIdx.x] * x[0]);
}
"""


def test_infinities_are_shown_and_an_array_with_a_role_s_name_is_itself(tmp_path: Path) -> None:
    (tmp_path / "small.cu").write_text(INFINITE)
    (tmp_path / "reference.py").write_text("def reference(inputs, symbols):\n    return {'out': inputs['x']}\n")
    card = tmp_path / "small.toml"
    card.write_text(
        """format = 1
name = "small"
source = "small.cu"
entry = "small"
arguments = [
    { name = "x", role = "x", dtype = "f32", direction = "in", shape = ["64"] },
    { name = "res", role = "out", dtype = "f16", direction = "out", shape = ["64"] },
    { name = "n", dtype = "s32", value = "64" },
]
launch = { grid = 1, block = 64 }
computes = { operation = "python", python = "reference.py:reference" }
tolerance = { atol = 1e-6, rtol = 0 }
cases = [{ name = "one" }]
"""
    )
    interpreter = Interpreter(wmmadiag.debug(card))
    interpreter.run("break 10")
    interpreter.run("run")
    assert interpreter.run("print out[0][5]").text == "out[0][5] = -inf"
    assert interpreter.run("print out[0][5] * 2").text.endswith("= -inf")
    told = [number(value) for value in (np.inf, -np.inf, np.nan, 3.0, -0.5, 1e7, np.float32(2), True)]
    assert told == ["inf", "-inf", "nan", "3", "-0.5", "1e+07", "2", "1"]
