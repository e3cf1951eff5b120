"""The check `resources`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from run_checks import run_checks

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks.finding import Level
from wmmadiag.checks.registry import Context, select
from wmmadiag.checks.resources import function_name, inspect
from wmmadiag.compile.model import Resources
from wmmadiag.compile.origin import remember_resources
from wmmadiag.emulator.extents import NamedExtents
from wmmadiag.launch import Launch

_KERNEL = """template <int N> __global__ void k(float* out) {
    extern __shared__ float s[];
    s[threadIdx.x] = N;
    out[threadIdx.x] = s[threadIdx.x];
}
"""
_LAUNCH = "void run(float* out) { k<2><<<1, 32, 65536>>>(out); }\n"
_SET = "void set() { cudaFuncSetAttribute(k<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536); }\n"


def _run(tmp_path: Path, text: str, shared: int) -> list[tuple[str, Level, int]]:
    source = tmp_path / "kernel.cu"
    source.write_text(text)
    made = wmmadiag.compile_cuda(source, arch="sm_80", entry="k<2>")
    kernel = emulator.load(made.ptx, made.entry("k<2>").name, arch="sm_80")
    launch = Launch((1, 1, 1), (32, 1, 1), (np.zeros(32, np.float32),), shared)
    return [(one.kind, one.level, one.place.line) for one in run_checks(kernel, launch, select("resources"))]


def test_missing_opt_in(tmp_path: Path) -> None:
    assert _run(tmp_path, _KERNEL + _LAUNCH, 65536) == [("missing-opt-in", Level.ERROR, 6)]


@pytest.mark.parametrize(
    ("text", "shared"),
    [(_KERNEL + _LAUNCH, 48 << 10), (_KERNEL + _SET + _LAUNCH, 65536), (_KERNEL, 65536)],
    ids=["48 KB", "opted in", "launched elsewhere"],
)
def test_look_alike(tmp_path: Path, text: str, shared: int) -> None:
    assert _run(tmp_path, text, shared) == []


def test_function_names() -> None:
    assert function_name("_Z1kILi2EEvPf") == "k"
    assert function_name("plain") == "plain"


@pytest.mark.parametrize(
    ("registers", "block", "spills", "expected"),
    [
        (128, 512, 0, []),
        (129, 512, 0, ["too-many-registers"]),
        (64, 1024, 16, ["spills"]),
        (65, 1024, 16, ["too-many-registers", "spills"]),
    ],
)
def test_what_ptxas_said(registers: int, block: int, spills: int, expected: list[str]) -> None:
    made = wmmadiag.compile_cuda(_KERNEL, arch="sm_80", entry="k<2>")
    kernel = emulator.load(made.ptx, made.entry("k<2>").name, arch="sm_80")
    use = Resources(made.entries[0].name, "sm_80", registers, spills, spills, 0, 0, 0, 0)
    context = Context(
        kernel.kernel, Launch((1, 1, 1), (block, 1, 1), ()), NamedExtents((), lambda one: one), resources=use
    )
    assert [one.kind for one in inspect(context)] == expected


def test_what_ptxas_said_reaches_the_check() -> None:
    made = wmmadiag.compile_cuda(_KERNEL + "// asked", arch="sm_80", entry="k<2>")
    name = made.entry("k<2>").name
    assert emulator.load(made.ptx, name).names.resources() is None
    remember_resources(made, (Resources(name, "sm_80", 40, 0, 0, 0, 0, 0, 0),))
    use = emulator.load(made.ptx, name).names.resources()
    assert use is not None
    assert use.registers == 40
