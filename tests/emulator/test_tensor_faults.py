"""What tensor-core instructions refuse: memory outside, lanes that disagree, part of a warp, what is not emulated."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, run

from wmmadiag.errors import KernelFault, UnsupportedError

LOAD = (
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}, [%rd1], %r1;"
)
STORE = "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%rd1], {%r10, %r11, %r12, %r13}, %r1;"


def fault(body: str, size: int = 256, block: int = 32, **how) -> KernelFault:
    with pytest.raises(KernelFault) as error:
        run(
            "mov.u64 %rd1, %a0; mov.u32 %r1, 16;" + body,
            np.zeros(size, np.float16),
            block=block,
            names=("tile",),
            **how,
        )
    return error.value


@pytest.mark.parametrize("operation", [LOAD, STORE])
def test_the_whole_footprint_is_checked(operation):
    run("mov.u64 %rd1, %a0; mov.u32 %r1, 16;" + operation, np.zeros(256, np.float16))
    error = fault(operation, size=255)
    assert error.kind == "out-of-bounds" and "line 15 of the fragment" in error.detail and "tile" in error.detail
    error = fault("mov.u32 %r1, 24;" + operation, size=256)
    assert error.kind == "out-of-bounds" and "leading dimension 24" in error.detail and "line 11 of" in error.detail
    assert fault("add.u64 %rd1, %rd1, -32;" + operation).kind == "out-of-bounds"


@pytest.mark.parametrize("operation", [LOAD, STORE])
def test_alignment_of_fragments(operation):
    error = fault("add.u64 %rd1, %rd1, 2;" + operation, size=512)
    assert error.kind == "misaligned" and "leading dimension" in error.hint


@pytest.mark.parametrize("operation", [LOAD, STORE])
def test_lanes_that_disagree(operation):
    assert fault("setp.eq.u32 %p1, %lane, 7; @%p1 add.u64 %rd1, %rd1, 32;" + operation, size=512).lane == 7
    error = fault("setp.eq.u32 %p1, %lane, 9; @%p1 mov.u32 %r1, 32;" + operation, size=1024)
    assert (error.kind, error.lane) == ("bad-operand", 9)


MULTIPLY = (
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r20, %r21}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%r16,"
    " %r17};"
)
MATRICES = ".shared .align 16 .b8 s[512]; mov.u64 %rd2, s; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd2];"
TRANSPOSE = "movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r11;"


@pytest.mark.parametrize("operation", [LOAD, STORE, MULTIPLY, MATRICES, TRANSPOSE])
def test_part_of_a_warp(operation):
    for body, block in (
        (operation, 48),
        ("setp.lt.u32 %p1, %lane, 20; @%p1 ret;" + operation, 32),
        ("setp.lt.u32 %p1, %lane, 20; @%p1 bra E;" + operation + "E:", 32),
    ):
        error = fault(body, block=block)
        assert error.kind == "partial-warp" and error.hint


def test_half_of_a_warp_at_a_barrier_is_a_deadlock():
    error = fault("setp.lt.u32 %p1, %lane, 20; @%p1 bra E;" + MULTIPLY + "E: bar.sync 0;")
    assert error.kind == "deadlock" and "0xfff00000" in error.detail


def test_lanes_meet_before_a_multiplication():
    run("setp.lt.u32 %p1, %lane, 20; @%p1 bra E; mov.b32 %r10, 0; E:" + MULTIPLY, np.zeros(4, np.uint32))


def test_matrix_rows_out_of_bounds_name_their_lane():
    error = fault(
        ".shared .align 16 .b8 s[128]; mov.u64 %rd2, s; mad.wide.u32 %rd2, %lane, 16, %rd2;"
        " ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%rd2];"
    )
    assert (error.kind, error.lane) == ("out-of-bounds", 8)
    error = fault(
        ".shared .align 16 .b8 s[512]; mov.u64 %rd2, s; setp.eq.u32 %p1, %lane, 5; @%p1 add.u64 %rd2, %rd2, 8;"
        " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd2];"
    )
    assert (error.kind, error.lane) == ("misaligned", 5)
    run(
        ".shared .align 16 .b8 s[128]; mov.u64 %rd2, s; mad.wide.u32 %rd2, %lane, 16, %rd2;"
        " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%rd2];",
        np.zeros(4),
    )


@pytest.mark.parametrize(
    "operation",
    [
        (
            "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r20, %r21}, {%r10, %r11}, {%r14, %r15}, {%r16,"
            " %r17}, %r1, 0x0;"
        ),
        "wgmma.fence.sync.aligned;",
        "tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [tex, {%r1}];",
    ],
)
def test_refused_by_name(operation):
    with pytest.raises(UnsupportedError) as error:
        kernel(operation, target="sm_90a", globals=".global .texref tex;" if "tex" in operation else "")
    assert error.value.place is not None
