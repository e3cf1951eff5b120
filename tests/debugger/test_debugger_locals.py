"""Local variables: by their definition, in registers, and what cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from debugged import line_of, small

import wmmadiag
from wmmadiag.debugger import Session
from wmmadiag.debugger.interpreter import Interpreter
from wmmadiag.debugger.text import number
from wmmadiag.errors import ConfigurationError

SOURCE = """#define TILE 16
constexpr int PAD = 8;

extern "C" __global__ void small(const float* x, float* out, int n)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
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
    out[threadIdx.x] = other + (even ? squared : pitch + last) + moving + wrapped;
}
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    made = small(tmp_path, SOURCE)
    made.run_to(line=line_of(made, "out[threadIdx.x]"), warp=1)
    return made


def values(session: Session, name: str) -> Any:
    return session.variable(name).values


def test_what_is_defined_once_follows_from_its_definition(session: Session) -> None:
    lane = np.arange(32)
    assert (values(session, "row") == 16 + lane // 2).all()
    assert (values(session, "last") == 63).all() and (values(session, "pitch") == 72).all()
    assert (values(session, "even") == (lane % 2 == 0)).all()
    assert not session.variable("row").registers
    session.select(warp=0, lane=3)
    assert (values(session, "row") == lane // 2).all()


def test_a_pointer_is_the_element_that_it_leads_to(session: Session) -> None:
    prompt = Interpreter(session)
    session.select(warp=1, lane=3)
    with pytest.raises(ConfigurationError, match="no variable 'TILE'") as told:
        prompt.run("print x + row * 2 - TILE")
    assert "after `keep` macros" in told.value.hint
    reply = prompt.run("print x + row * 2 - 16")  # row is 17, an element has four bytes
    start = session.arrays.parts["x"][0].start
    assert reply.text == f"x + row * 2 - 16 = {start + 18 * 4:#x}, x[18]" and reply.data["element"] == "x[18]"
    assert prompt.run("print 3 + x").data["element"] == "x[3]"
    assert prompt.run("print x - 1").data == {"name": "x - 1", "value": start - 4}  # leads to nothing
    assert prompt.run("print (x + row) - x").data["value"] == 17 and prompt.run("print x + 1 > x").data["value"] == 1
    with pytest.raises(ConfigurationError, match=r"cannot be computed.*'pointer' and 'int'"):
        prompt.run("print x * 2")
    prompt.run("keep")
    assert prompt.run("print x + TILE").data["element"] == "x[16]"


def test_unsigned_arithmetic_wraps_as_the_kernels_does(session: Session) -> None:
    assert (values(session, "wrapped") == (27 + np.arange(32)) // 2).all()
    session.select(warp=0)
    assert (values(session, "wrapped") == (np.arange(32) - 5) % 2**32 // 2).all()


def test_what_code_changes_is_not_evaluated(session: Session) -> None:
    session.select(warp=0)
    try:
        assert session.variable("moving").registers
    except ConfigurationError as error:
        assert "optimised away" in error.message or "run no instruction" in error.message


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
    session.run_to(line=line_of(session, "sum += x"), warp=1)
    at = (32 + np.arange(32)) * 136 // 16
    assert (values(session, "at") == at).all()
    assert (values(session, "low") == at * 3 % 256).all()
    assert (values(session, "wide") == at * 3 % 256 - 300).all()
    assert session.variable("wide").type == "const Wide"


def test_what_a_statement_left_in_a_register(session: Session) -> None:
    total = np.float32(0)
    x = session.case.inputs()["x"]
    for one in x:
        total = np.float32(total * np.float32(0.5) + one)
    found = session.variable("sum")
    assert np.allclose(found.values, total, rtol=1e-5) and found.line == line_of(session, "sum = sum *")
    row = 16 + np.arange(32) // 2
    assert np.allclose(values(session, "squared"), total * total + x[row], rtol=1e-5)


def test_a_variable_changes_while_the_warp_goes_on(session: Session) -> None:
    session.seek(0)
    with pytest.raises(ConfigurationError, match="run no instruction that assigns 'squared'"):
        session.variable("squared")
    x = session.case.inputs()["x"]
    sums = [np.float32(0)]
    for one in x:
        sums.append(np.float32(sums[-1] * np.float32(0.5) + one))
    seen = []
    for _ in range(3):
        session.run_to(line=line_of(session, "if (sum > 1e30f)"), warp=0)
        value = values(session, "sum")
        assert (value == value[0]).all()
        seen.append(int(np.argmin(np.abs(np.array(sums) - value[0]))))
        assert np.isclose(value[0], sums[seen[-1]], rtol=1e-5)
    assert seen == sorted(set(seen))


def test_as_text_and_unknown_names(session: Session) -> None:
    interpreter = Interpreter(session)
    assert "by its definition, line 7" in interpreter.run("print row").text
    reply = interpreter.run("print squared")
    assert "taken from %f" in reply.text and len(reply.data["values"]) == 32
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
