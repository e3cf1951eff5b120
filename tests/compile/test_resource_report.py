"""The resource report and ptxas' errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wmmadiag.compile import resource_report
from wmmadiag.compile.driver import compile_source, compile_text
from wmmadiag.compile.model import PtxasError
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.records import to_record
from wmmadiag.compile.resource_report import parse_report, ptxas_error, resources
from wmmadiag.errors import CompileError, ConfigurationError

TEXT = """#include <vector>
__global__ void first(float *x, int i) {
  __shared__ float s[1000];
  s[threadIdx.x] = x[i];
  __syncthreads();
  x[i] = s[threadIdx.x ^ 1];
}
__global__ void second(float *x) { *x = 1.0f; }
int main() { return 0; }
"""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_report(arch: str) -> None:
    found = {one.entry: one for one in resources(compile_text(TEXT, "k.cu", CompileOptions(arch=arch)))}
    assert set(found) == {"_Z5firstPfi", "_Z6secondPf"}
    first, second = found["_Z5firstPfi"], found["_Z6secondPf"]
    assert (first.shared, first.barriers, first.arch) == (4000, 1, arch)
    assert (second.shared, second.barriers) == (0, 0)
    assert 0 < second.registers <= first.registers < 64
    assert (first.stack, first.spill_stores, first.spill_loads) == (0, 0, 0)


def test_report_again_and_for_another_architecture(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(TEXT)
    compilation = compile_source(path)
    assert resources(compilation) == resources(compilation) == resources(path)
    assert {one.arch for one in resources(compilation, CompileOptions(arch="sm_120"))} == {"sm_120"}


def test_stack_and_spills() -> None:
    text = """__global__ void __launch_bounds__(1024, 2) k(float *x, int n) {
  float t[100];
  for (int i = 0; i < 100; i++) t[i] = x[i * n];
  for (int j = 0; j < n; j++)
    for (int i = 0; i < 100; i++) t[i] = t[i] * t[(i + 1) % 100] + x[j];
  float s = 0;
  for (int i = 0; i < 100; i++) s += t[(i * n) % 100];
  *x = s;
}
"""
    (one,) = resources(compile_text(text, "k.cu"))
    assert one.registers <= 32
    assert one.stack >= 400


def test_too_much_shared_memory() -> None:
    text = TEXT.replace("s[1000]", "s[20000]")
    with pytest.raises(PtxasError, match="80000 bytes of static shared memory, 49152 are allowed") as caught:
        resources(compile_text(text, "k.cu"))
    error = caught.value
    assert isinstance(error, CompileError)
    assert (error.kind, error.entry, error.used, error.limit) == ("too-much-shared", "_Z5firstPfi", 80000, 49152)
    assert error.place is not None
    assert (error.place.file, error.place.line) == ("k.cu", 2)
    assert "MaxDynamicSharedMemorySize" in error.hint


def test_bad_instruction_has_the_users_line() -> None:
    text = """__device__ __forceinline__ void copy(unsigned to, const float *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from));
}
__global__ void k(const float *x, unsigned to) {
  copy(to, x);
}
"""
    with pytest.raises(PtxasError, match="expected to be 16") as caught:
        resources(compile_text(text, "k.cu"))
    assert caught.value.kind == "instruction"
    assert caught.value.place is not None
    assert caught.value.place.line == 5


def test_source_error_stays_a_source_error() -> None:
    compilation = compile_text(TEXT, "k.cu")
    with pytest.raises(CompileError, match="undefined") as caught:
        resources(compilation, CompileOptions(macros={"main": "k", "i": "oops + j"}))
    assert not isinstance(caught.value, PtxasError)


def test_old_style_report() -> None:
    log = """ptxas info    : 0 bytes gmem, 32 bytes cmem[3]
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_75'
ptxas info    : Function properties for _Z1kPf
    48 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for _Z1fv
    99 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, 1024+16 bytes smem, 360 bytes cmem[0], 8 bytes cmem[2]
"""
    (one,) = parse_report(log)
    assert (one.stack, one.spill_stores, one.spill_loads) == (48, 8, 12)
    assert (one.registers, one.shared, one.constant, one.barriers) == (40, 1024, 368, 0)


def test_unknown_ptxas_message_is_kept() -> None:
    error = ptxas_error("ptxas fatal   : Something new\n", "", "k.cu")
    assert error.kind == "other"
    assert "Something new" in str(error)


@pytest.mark.parametrize("by", ["nvJitLink", "ptxas"])
def test_ptx_file(tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "ptxas":
        monkeypatch.setattr(resource_report, "assembler_log", lambda *_: None)
        if shutil.which("ptxas") is None:
            pytest.skip("ptxas is not on PATH")
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        "  .shared .align 4 .b8 s[256];\n  .reg .b64 %rd<3>;\n  .reg .b32 %r<3>;\n  ld.param.u64 %rd1, [p];\n"
        "  mov.u32 %r1, s;\n  ld.shared.u32 %r2, [%r1];\n  st.global.u32 [%rd1], %r2;\n  ret;\n}\n"
    )
    (one,) = resources(path)
    assert (one.entry, one.shared, one.arch) == ("k", 256, "sm_80")
    path.write_text(path.read_text().replace("ld.shared.u32", "ld.nowhere.u32"))
    with pytest.raises(PtxasError) as caught:
        resources(path)
    assert caught.value.kind == "instruction"


def test_ptx_file_without_ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(".version 7.0\n.target sm_80\n.address_size 64\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(resource_report, "assembler_log", lambda *_: None)
    with pytest.raises(ConfigurationError, match="ptxas"):
        resources(path)


WARNED = """#warning said
template <class T> __global__ void scaled(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 3; }
template __global__ void scaled<float>(float*, int);
__global__ void kept(double* x) {
    __shared__ double s[32];
    s[threadIdx.x] = x[threadIdx.x], x[0] = s[31 - threadIdx.x];
}
"""


def test_one_call_gives_the_same_ptx_and_what_ptxas_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "warned.cu"
    source.write_text(WARNED)
    apart = compile_source(source)
    asked = resources(apart)
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "cache"))
    together = compile_source(source, assembled=True)
    monkeypatch.setattr(resource_report, "build", None)  # nothing is compiled any more
    assert resources(together) == asked and len(asked) == 2
    assert not together.cached and "said" in together.log
    assert to_record(together) == to_record(apart)


def test_what_ptxas_refuses_is_compiled_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "large.cu"
    source.write_text("__global__ void k(int* x) { __shared__ int s[20000]; s[*x] = 1; __syncthreads(); *x = s[0]; }")
    with pytest.raises(PtxasError):
        resources(compile_source(source, assembled=True))
