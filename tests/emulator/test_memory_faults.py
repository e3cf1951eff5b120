"""Every access that must fault, with lane and nearest allocation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import result, run

from wmmadiag.emulator import EmulatorOptions
from wmmadiag.errors import KernelFault

STORE = "st.global.b32 [%to], %r1;"


def fault(body: str, *arguments, **how) -> KernelFault:
    with pytest.raises(KernelFault) as error:
        run(body, *(arguments or (np.zeros(32, np.uint32),)), **how)
    return error.value


@pytest.mark.parametrize("distance", [0, 4, 400, 1 << 16])
@pytest.mark.parametrize("lane", [0, 9, 31])
@pytest.mark.parametrize(
    "operation",
    [
        "ld.global.b32 %r1, [%rd1];",
        "st.global.b32 [%rd1], %r1;",
        "ld.b32 %r1, [%rd1];",
        "atom.global.add.u32 %r1, [%rd1], 1;",
        "ld.global.nc.b32 %r1, [%rd1];",
        "red.global.add.u32 [%rd1], 1;",
    ],
)
def test_past_the_end(operation, lane, distance):
    out = np.zeros(32, np.uint32)
    error = fault(
        f"setp.eq.u32 %p1, %lane, {lane}; add.u64 %rd2, %a0, {128 + distance}; selp.b64 %rd1, %rd2, %to, %p1;"
        + operation,
        out,
        names=("scores",),
    )
    assert (error.kind, error.lane, error.warp, error.block) == ("out-of-bounds", lane, 0, (0, 0, 0))
    assert f"{distance} bytes past the end of scores (128 bytes)" in error.detail
    assert error.place is not None and error.place.file == "<ptx>"
    assert not out.any()  # nobody stored


def test_before_the_start():
    error = fault("st.global.b32 [%a0+-12], 1;")
    assert (error.kind, error.lane) == (
        "out-of-bounds",
        0,
    ) and "12 bytes before the start of argument 0" in error.detail


def test_over_the_end():
    error = fault("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%a0+112];", np.zeros(30, np.uint32))
    assert error.kind == "out-of-bounds" and "bytes 112 to 128 of 120" in error.detail


def test_between_two_arrays_the_nearer_one_is_named():
    arrays = [np.zeros(32, np.uint32), np.zeros(32, np.uint32)]
    assert (
        "20 bytes before the start of second"
        in fault("ld.global.b32 %r1, [%a1+-20];", *arrays, names=("first", "second")).detail
    )
    assert (
        "16 bytes past the end of first"
        in fault("ld.global.b32 %r1, [%a0+144];", *arrays, names=("first", "second")).detail
    )


@pytest.mark.parametrize("offset", [0, 16, 1 << 20])
def test_null(offset):
    error = fault(f"mov.u64 %rd1, 0; ld.global.b32 %r1, [%rd1+{offset}];")
    assert (error.kind, error.address) == ("out-of-bounds", offset)
    assert ("null pointer" if offset < 1 << 16 else "no allocation is near") in error.detail


@pytest.mark.parametrize("generic", ["", ".global"])
@pytest.mark.parametrize(
    ("type_name", "count", "offset"),
    [("b16", 1, 1), ("b32", 1, 2), ("b64", 1, 4), ("b32", 2, 4), ("b32", 4, 8), ("b64", 2, 8), ("b16", 4, 2)],
)
def test_misaligned(type_name, count, offset, generic):
    letter = {"b16": "h", "b32": "r", "b64": "rd"}[type_name]
    names = ", ".join(f"%{letter}{i + 10}" for i in range(count))
    operand = f"{{{names}}}" if count > 1 else names
    error = fault(
        f"mad.wide.u32 %rd1, %lane, 32, %a0; setp.eq.u32 %p1, %lane, 5; @%p1 add.u64 %rd1, %rd1, {offset};"
        f" ld{generic}{f'.v{count}' if count > 1 else ''}.{type_name} {operand}, [%rd1];",
        np.zeros(1000, np.uint32),
    )
    assert (error.kind, error.lane) == ("misaligned", 5) and error.address % 32 == offset
    assert "multiple of its own size" in error.hint and "__align__" not in error.hint


def test_misaligned_generic_shared_address_is_named_as_shared():
    error = fault(".shared .align 16 .b32 s[4]; mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1; ld.b32 %r1, [%rd1+2];")
    assert (
        error.kind == "misaligned"
        and "shared address" in error.message
        and "byte" in error.detail
        and " s (16 bytes)" in error.detail
    )


def test_read_only():
    data = np.arange(32, dtype=np.uint32)
    data.flags.writeable = False
    assert (
        result("mad.wide.u32 %rd1, %lane, 4, %a1; ld.global.b32 %r1, [%rd1];" + STORE, data).tolist() == data.tolist()
    )
    assert fault("st.global.b32 [%a1], 1;", np.zeros(32, np.uint32), data).kind == "read-only"
    assert fault("atom.global.add.u32 %r1, [%a1], 1;", np.zeros(32, np.uint32), data).kind == "read-only"
    assert (
        fault(
            "mov.u64 %rd1, c; cvta.const.u64 %rd1, %rd1; st.b32 [%rd1], 1;", globals=".const .align 4 .u32 c = 1;"
        ).kind
        == "read-only"
    )


def test_wrong_space():
    assert (
        fault(".shared .align 4 .b32 s; mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1; ld.global.b32 %r1, [%rd1];").kind
        == "wrong-space"
    )
    assert (
        fault(".local .align 4 .b32 s; mov.u64 %rd1, s; cvta.local.u64 %rd1, %rd1; st.global.b32 [%rd1], %r1;").kind
        == "wrong-space"
    )
    assert fault("ld.shared.b32 %r1, [%a0];").kind in ("wrong-space", "out-of-bounds")
    assert fault("cvta.to.shared.u64 %rd1, %a0; ld.shared.b32 %r1, [%rd1];").kind in (
        "wrong-space",
        "out-of-bounds",
    )


@pytest.mark.parametrize(
    "operation", ["ld.shared.b32 %r1, [%rd1];", "st.shared.b32 [%rd1], 1;", "atom.shared.add.u32 %r1, [%rd1], 1;"]
)
def test_shared_out_of_bounds(operation):
    body = (
        ".shared .align 4 .b32 tile[64]; mov.u64 %rd1, tile; setp.eq.u32 %p1, %lane, 3; @%p1 add.u64 %rd1, %rd1,"
        " 260;" + operation
    )
    error = fault(body, names=("x",))
    assert (
        (error.kind, error.lane) == ("out-of-bounds", 3)
        and "4 bytes past the end of tile (256 bytes)" in error.detail
        and "shared memory" in error.message
    )
    assert (
        fault(".shared .align 4 .b32 tile[64]; cvta.shared.u64 %rd1, 0; ld.b32 %r1, [%rd1+4];").kind == "out-of-bounds"
    )  # what the chip keeps for itself


def test_dynamic_shared_out_of_bounds():
    error = fault(
        "mov.u64 %rd1, dyn; ld.shared.b32 %r1, [%rd1+96];",
        shared=96,
        globals=".extern .shared .align 16 .b8 dyn[];",
    )
    assert "0 bytes past the end of dyn (96 bytes)" in error.detail
    assert fault("ld.shared.b32 %r1, [dyn];", globals=".extern .shared .align 16 .b8 dyn[];").kind == "out-of-bounds"


def test_local_out_of_bounds():
    error = fault(
        ".local .align 4 .b32 l[4]; mov.u64 %rd1, l; mad.wide.u32 %rd1, %lane, 4, %rd1; st.local.b32 [%rd1], 1;"
    )
    assert (error.kind, error.lane) == ("out-of-bounds", 4) and "local memory" in error.message
    assert (
        fault(
            ".local .align 4 .b32 l[4]; mov.u64 %rd1, l; cvta.local.u64 %rd1, %rd1; add.u64 %rd1, %rd1, 64; st.b32"
            " [%rd1], 1;"
        ).kind
        == "out-of-bounds"
    )


def test_a_fault_in_a_later_block_is_named_whatever_the_threads():
    for threads in (1, 2, 4):
        error = fault(
            "setp.ge.u32 %p1, %cta, 5; @%p1 trap;",
            np.zeros(1024, np.uint32),
            grid=9,
            options=EmulatorOptions(threads=threads),
        )
        assert (error.kind, error.block) == ("trap", (5, 0, 0))


def test_what_was_written_before_a_fault_stays():
    out = np.zeros(64, np.uint32)
    fault("st.global.b32 [%to], 3; setp.eq.u32 %p1, %tid, 40; @%p1 trap;", out, block=64)
    assert out.tolist() == [3] * 64


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(
        [
            "ld.global.b32 %r1, [%rd1];",
            "st.global.b64 [%rd1], %rd1;",
            "ld.b8 %h1, [%rd1];",
            "st.shared.b32 [%rd1], %r1;",
            "st.v4.b32 [%rd1], {%r1,%r1,%r1,%r1};",
            "atom.cas.b32 %r1, [%rd1], 0, 1;",
            "ld.local.b16 %h1, [%rd1];",
            "ld.param.b32 %r1, [%rd1];",
        ]
    ),
    st.integers(0, 2**64 - 1)
    | st.sampled_from(
        [
            0x7D00_0000_0000,
            0x7E00_0000_0000,
            0x7E00_FFFF_FFFC,
            0x7E01_0000_0000,
            0x7D00_FFFF_FFFF,
            0x7F00_0000_0000,
            0x7C00_0000_0000,
            0x7B00_0000_0000,
            2**64 - 1,
            2**64 - 4,
            2**63,
            1 << 32,
            0xFFFF_FFFF,
        ]
    ).flatmap(lambda base: st.integers(-20, 2000).map(lambda delta: (base + delta) % 2**64)),
)
def test_no_address_harms_the_process(operation, address):
    try:
        run(
            ".shared .align 4 .b32 s[8]; .local .align 4 .b32 l[8]; mov.u64 %rd1, s; mov.u64 %rd1, l; mov.u64"
            f" %rd1, {address}; " + operation,
            np.zeros(64, np.uint32),
        )
    except KernelFault as error:
        assert error.kind in ("out-of-bounds", "misaligned", "read-only", "wrong-space")
