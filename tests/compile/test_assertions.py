"""`assert` in kernels, and NDEBUG, which turns it off where the header is read."""

from __future__ import annotations

import pytest

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions

KERNEL = "__global__ void {}(int* x) {{ assert(x[0] > {}); x[0] = 1; }}\n"


def ptx(text: str, **macros: str) -> str:
    return compile_text(text, "k.cu", CompileOptions(macros=macros), use_cache=False).ptx


@pytest.mark.parametrize("header", ["assert.h", "cassert"])
def test_ndebug_before_the_header_turns_assertions_off(header):
    include = f"#include <{header}>\n"
    assert "__assertfail" in ptx(include + KERNEL.format("k", 1))
    assert "__assertfail" not in ptx("#define NDEBUG\n" + include + KERNEL.format("k", 1))
    assert "__assertfail" not in ptx(include + KERNEL.format("k", 1), NDEBUG="")


def test_the_header_is_read_each_time_as_ndebug_stands_then():
    off = "#define NDEBUG\n#include <cassert>\n" + KERNEL.format("off", 1)
    on = "#undef NDEBUG\n#include <cassert>\n" + KERNEL.format("on", 2)
    made = ptx(off + on)
    assert made.count("call.uni") == 1 and "__assertfail" in made


def test_behind_the_header_ndebug_changes_nothing():
    assert "__assertfail" in ptx("#include <cassert>\n#define NDEBUG\n" + KERNEL.format("k", 1))
