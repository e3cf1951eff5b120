"""The check `resources`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks.finding import Level
from wmmadiag.checks.registry import select
from wmmadiag.checks.resources import function_name, launch_lines
from wmmadiag.checks.run import run_checks
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


def test_launch_lines() -> None:
    text = (
        "// k<<<1, 1>>>();\nint kk;\nk <float, 4> <<<1, 2>>>(a);\nother<<<1, 1>>>();\n/* k<<<2,\n2>>> */ k<<<a, b>>>();"
    )
    assert launch_lines(text, "k") == [3, 6]


def test_function_names() -> None:
    assert function_name("_Z1kILi2EEvPf") == "k"
    assert function_name("plain") == "plain"
