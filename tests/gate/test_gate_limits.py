"""Hostile sizes, times and texts: refused with the true reason, cut short in time, never obeyed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from small_kernels import HANG, RIGHT, write_card, write_right

from wmmadiag.cli.console import disarmed

EIGHT_WARPS = """extern "C" __global__ void k(const float* x, float* y) {
    for (int i = 0; i < 100; i++) y[threadIdx.x] = 2 * x[threadIdx.x];
}
"""
TWICE = """format = 1
source = "k.cu"
entry = "k"
arguments = [
    { name = "x", role = "x", dtype = "f32", shape = [256] },
    { name = "y", role = "y", dtype = "f32", shape = [256], direction = "out" },
]
launch = { grid = 1, block = 256 }
computes = { operation = "python", python = "own.py:f" }
tolerance = { atol = 1e-6, rtol = 1e-6 }
cases = [{ name = "one" }]
"""


@pytest.mark.parametrize("schedules", ["1000000000", "40"])
def test_the_budget_of_time_binds_all_schedules(here, run, schedules):
    Path("k.cu").write_text(EIGHT_WARPS)
    Path("k.toml").write_text(TWICE)
    Path("own.py").write_text("def f(inputs, symbols):\n    return 2 * inputs['x']\n")
    started = time.monotonic()
    code, out, _ = run("check", "k.toml", "--schedules", schedules, "--budget-seconds", "3")
    assert time.monotonic() - started < 40
    assert (code, "the time is over: 3 s" in out) == ((3, True) if schedules == "1000000000" else (0, False)), out


def test_the_budget_of_time_binds_a_card_with_many_cases(here, run):
    Path("gemm.cu").write_text(HANG.replace("hang(", "gemm("))
    write_card(here, "spins")
    started = time.monotonic()
    code, out, _ = run("check", "spins.toml", "--budget-seconds", "2", "--budget-instructions", "0")
    assert code == 3 and "UNDECIDED: 2 undecided of 2 cases" in out and time.monotonic() - started < 30


def test_a_grid_that_nobody_can_run_is_refused_for_its_size(here, run):
    write_right(here)
    code, out, _ = run("check", "right.toml", "--case", "one", "--grid", "2147483647,65535,65535")
    assert code == 3 and "9,223,090,559,730,712,575" in out and "at least 1" not in out


@pytest.mark.parametrize(
    "offset", ["9223372036854775808", "-9223372036854775808", "18446744073709551615", "-9223372036854775809"]
)
def test_offsets_at_the_end_of_64_bits_wrap(here, run, offset):
    Path("k.ptx").write_text(
        ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y) {\n"
        "    .reg .b64 %rd<2>;\n    .reg .b32 %r<2>;\n    ld.param.u64 %rd1, [x];\n"
        f"    ld.global.u32 %r1, [%rd1+{offset}];\n    ret;\n}}\n"
    )
    Path("k.toml").write_text(TWICE.replace("k.cu", "k.ptx"))
    Path("own.py").write_text("def f(inputs, symbols):\n    return 2 * inputs['x']\n")
    code, out, err = run("check", "k.toml")
    assert code == 1 and ("out of bounds" in out or "misaligned" in out) and "internal" not in err


HARMLESS = ["a::b", "x ::error::", "#[x]", "- ::", "std::vector"]
COMMANDS = ["::error::x", "  ::stop-commands::x", "\t::x", "a\n::x", "a\r::x", "##[error]x", "a ##[group]"]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_workflow_command_stays(text):
    assert disarmed(text) == text


@pytest.mark.parametrize("text", COMMANDS)
def test_a_workflow_command_is_disarmed_and_stays_legible(text):
    made = disarmed(text)
    assert made != text and made.replace(" ", "") == text.replace(" ", "")
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in made.splitlines())


@pytest.mark.parametrize("how", ["--github", "environment"])
def test_what_a_kernel_prints_commands_no_runner(here, run, monkeypatch, how):
    write_right(here)
    text = RIGHT.replace(
        "    wmma::store", '    if (!threadIdx.x) printf("::error::pwned\\n##[group]x\\n");\n    wmma::store'
    )
    Path("gemm.cu").write_text("#include <cstdio>\n" + text)
    if how == "environment":
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, out, _ = run("check", "right.toml", "--case", "one", "-v", *(["--github"] if how == "--github" else []))
    assert code == 0 and "pwned" in out
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in out.splitlines())


def test_and_annotations_still_command(here, run):
    write_right(here)
    Path("gemm.cu").write_text(RIGHT.replace("0.0f", "1.0f"))
    code, out, _ = run("check", "right.toml", "--case", "one", "--github")
    assert code == 1 and any(line.startswith("::error file=gemm.cu") for line in out.splitlines())
