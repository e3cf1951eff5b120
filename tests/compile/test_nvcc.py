"""nvcc in NVRTC's place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.nvcc import _describe, find_nvcc
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.resource_report import resources
from wmmadiag.errors import CompileError, ConfigurationError

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
TEXT = """#include <cstdio>
#include <vector>
#include "inc.cuh"
template <int N> __global__ void fill(float *x) {
  x[threadIdx.x] = N + OFFSET;
}
int main() {
  std::vector<int> v(3);
  printf("%zu", v.size());
  fill<4><<<1, 32>>>(nullptr);
}
"""


@needs_nvcc
def test_host_code_goes_in_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("src").mkdir()
    Path("src/k.cu").write_text(TEXT)
    Path("src/inc.cuh").write_text("#define OFFSET 1\n")
    options = CompileOptions(compiler="nvcc", arch="sm_80", name_expressions=("fill<8>",))
    compilation = compile_source("src/k.cu", options)
    assert compilation.compiler.startswith("nvcc ")
    assert not compile_source("src/k.cu", options).cached
    assert {entry.demangled for entry in compilation.entries} == {"fill<4>", "fill<8>"}
    entry = compilation.entry("fill<8>")
    assert entry.name_expression == "fill<8>"
    assert entry.place is not None
    assert (entry.place.file, entry.place.line) == ("src/k.cu", 4)
    assert '"src/k.cu"' in compilation.ptx
    assert compilation.includes == ("src/inc.cuh",)


@needs_nvcc
@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("\n__global__ void k(float *x) {\n  *x = nope;\n}\n", "nope", 3),
        ('\n#include "nowhere.h"\n', "nowhere.h: No such file", 2),
        ("\nint main() { return nope; }\n", "nope", 2),
    ],
    ids=["device", "header", "host"],
)
def test_error_has_the_users_line(text: str, message: str, line: int) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        compile_text(text, "k.cu", CompileOptions(compiler="nvcc", arch="sm_80"))
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == ("k.cu", line)


@needs_nvcc
def test_architecture_that_it_lacks() -> None:
    with pytest.raises(ConfigurationError, match="cannot compile for sm_50"):
        compile_text("__global__ void k() {}\n", "k.cu", CompileOptions(compiler="nvcc", arch="sm_50"))


def test_no_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert find_nvcc() is None
    with pytest.raises(ConfigurationError, match="nvcc was not found"):
        compile_text("__global__ void k() {}\n", "k.cu", CompileOptions(compiler="nvcc"))


def test_program_that_is_no_nvcc(tmp_path: Path) -> None:
    fake = tmp_path / "nvcc"
    fake.write_text("#!/bin/sh\necho something else\n")
    fake.chmod(0o755)
    assert _describe(str(fake)) is None
    assert _describe(str(tmp_path / "absent")) is None


@needs_nvcc
def test_resources_by_ptxas() -> None:
    text = "__global__ void k(float *x) { __shared__ float s[64]; s[threadIdx.x] = *x; __syncthreads(); *x = s[0]; }\n"
    (one,) = resources(compile_text(text, "k.cu", CompileOptions(compiler="nvcc", arch="sm_80")))
    assert (one.entry, one.shared, one.arch) == ("_Z1kPf", 256, "sm_80")
