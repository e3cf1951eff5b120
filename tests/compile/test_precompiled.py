"""Precompiled headers change how long a compilation takes, not what it makes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.precompiled import precompiling
from wmmadiag.compile.toolchain import toolchain

KERNEL = """#include <cuda_fp16.h>
#include "scale.h"
__global__ void k(float* x, const half* y) { x[threadIdx.x] = SCALE * __half2float(y[threadIdx.x]); }
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "scale.h").write_text("#define SCALE 2.0f\n")
    return tmp_path / "k.cu"


@pytest.fixture
def kept(tmp_path: Path) -> CompileOptions:
    return CompileOptions(precompiled=tmp_path)


def ptx(source: Path, options: CompileOptions, text: str = KERNEL, scale: str = "") -> str:
    headers = {(source.parent / "scale.h").as_posix(): f"#define SCALE {scale}\n"} if scale else {}
    return compile_text(text, str(source), options, use_cache=False, headers=headers).ptx


def test_the_same_code_as_without(source, kept, tmp_path):
    plain = ptx(source, replace(kept, precompiled=None))
    assert [ptx(source, kept) for _ in range(3)] == [plain] * 3
    assert len(list(tmp_path.glob("*/*.pch"))) == 1


def test_a_changed_header_is_seen(source, kept):
    constants = {"3.0f": "0f40400000", "5.0f": "0f40A00000"}
    for scale in ("3.0f", "5.0f", "3.0f"):
        found = ptx(source, kept, scale=scale)
        assert [one for one, bits in constants.items() if bits in found] == [scale]


def test_changes_before_the_headers_and_macros_are_seen(source, kept):
    assert "0f40E00000" in ptx(source, kept, "#define HALF 7.0f\n" + KERNEL.replace("SCALE", "HALF"))
    assert "0f41000000" in ptx(source, kept, "#define HALF 8.0f\n" + KERNEL.replace("SCALE", "HALF"))
    for value, bits in (("9.0f", "0f41100000"), ("10.0f", "0f41200000")):
        named = replace(kept, macros={"NAMED": value})
        assert bits in ptx(source, named, KERNEL.replace("SCALE", "NAMED"))


def test_an_older_nvrtc_is_not_asked_for_it(tmp_path):
    assert precompiling({}, tmp_path, replace(toolchain(), version=(12, 6))) == []
    assert "--pch" in precompiling({}, tmp_path, replace(toolchain(), version=(12, 8)))
