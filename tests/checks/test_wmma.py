"""The check `wmma`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import PRELUDE, found

import wmmadiag
from wmmadiag.checks.finding import Finding, Level
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions, lower
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch
from wmmadiag.place import own_place
from wmmadiag.ptx.parser import parse

_SHARED = """__global__ void k(const half* x, float* out) {
    __shared__ %s half a[1024];
    for (int i = threadIdx.x; i < 1024; i += 32) a[i] = x[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a + %d, %d);
    wmma::load_matrix_sync(fb, x + %d, %d);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(out, fc, %d, wmma::mem_row_major);
}"""


def _run(source: str) -> tuple[Finding, ...]:
    return found("wmma", source, np.zeros(4096, np.float16), np.zeros(1024, np.float32), names=("x", "out"))


BAD = {
    "declared half": (("", 0, 16, 0, 16, 16), ("declared-alignment", Level.WARNING)),
    "declared for 8 bytes": (("__align__(8)", 0, 24, 0, 16, 16), ("declared-alignment", Level.WARNING)),
    "global leading dimension 17": (("__align__(32)", 0, 16, 0, 17, 16), ("leading-dimension", Level.ERROR)),
    "global leading dimension 18": (("__align__(32)", 0, 16, 0, 18, 16), ("leading-dimension", Level.WARNING)),
    "store with leading dimension 18": (("__align__(32)", 0, 16, 0, 16, 18), ("leading-dimension", Level.WARNING)),
    "global pointer at 4 bytes": (("__align__(32)", 0, 16, 2, 16, 16), ("pointer-alignment", Level.WARNING)),
}
GOOD = {
    "aligned": ("__align__(32)", 0, 16, 0, 16, 16),
    "padded": ("__align__(32)", 0, 24, 0, 72, 20),
    "a tile inside": ("__align__(16)", 24 * 8, 24, 32, 64, 16),
}


@pytest.mark.parametrize("name", BAD)
def test_found(name: str) -> None:
    values, expected = BAD[name]
    assert {(one.kind, one.level) for one in _run(_SHARED % values)} == {expected}


@pytest.mark.parametrize("name", GOOD)
def test_look_alike(name: str) -> None:
    assert _run(_SHARED % GOOD[name]) == ()


def test_one_finding_for_all_arrays() -> None:
    source = """__global__ void k(const half* x, float* out) {
        __shared__ half a[256];
        __shared__ half b[256];
        __shared__ float c[256];
        for (int i = threadIdx.x; i < 256; i += 32) { a[i] = x[i]; b[i] = x[256 + i]; }
        __syncwarp();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        wmma::fill_fragment(fc, 0.0f);
        wmma::load_matrix_sync(fa, a, 16);
        wmma::load_matrix_sync(fb, b, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
        __syncwarp();
        for (int i = threadIdx.x; i < 256; i += 32) out[i] = c[i];
    }"""
    (finding,) = _run(source)
    assert finding.message.startswith("a, b, c are declared with less alignment than their matrix loads need")
    assert finding.detail[:3] == (
        "a: declared 2 bytes, line 14 faults below 16",
        "b: declared 2 bytes, line 15 faults below 16",
        "c: declared 4 bytes, line 17 faults below 8",
    )
    assert finding.detail[3].endswith("its declaration allows: line 14 dies there of a misaligned read")


def test_code_that_aligns_its_pointer_itself() -> None:
    source = _SHARED.replace("half a[1024];", "half room[1040];").replace(
        "    for (", "    half* a = (half*)(((unsigned long long)room + 31) & ~31ull);\n    for (", 1
    )
    assert _run(source % ("", 0, 16, 0, 16, 16)) == ()


@pytest.mark.parametrize("declared", ["", "__align__(8)", "__align__(16)"])
def test_what_the_declaration_does_not_promise_faults_where_it_is_not_kept(declared: str) -> None:
    source = _SHARED % (declared, 0, 16, 0, 16, 16)
    made = wmmadiag.compile_cuda(PRELUDE + source, arch="sm_80")
    module = parse(made.ptx, name="k.ptx")
    lowered = lower(module, made.entries[0].name, "sm_80", least_aligned=True)
    launch = Launch((1, 1, 1), (32, 1, 1), (np.zeros(4096, np.float16), np.zeros(1024, np.float32)))
    findings = _run(source)
    if not findings:
        EmulatedKernel(lowered, EmulatorOptions()).launch(launch)
        return
    with pytest.raises(KernelFault, match="misaligned") as fault:
        EmulatedKernel(lowered, EmulatorOptions()).launch(launch)
    assert fault.value.place is not None
    assert f"line {own_place(fault.value.place).line} faults below 16" in findings[0].detail[0]
