"""Parameters of every type, and the arguments, extents and options that no launch takes."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import kernel, module, run

from wmmadiag.emulator import Budget, EmulatorOptions, load
from wmmadiag.errors import ConfigurationError, KernelFault, WmmadiagError
from wmmadiag.launch import Launch


def launched(ptx: str, *arguments, block: int = 32) -> None:
    load(ptx, "k", options=EmulatorOptions(threads=1)).launch(Launch((1, 1, 1), (block, 1, 1), list(arguments), 0, ()))


def parameters(declaration: str, body: str) -> str:
    registers = ".reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>;"
    return (
        f".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out, {declaration}) {{"
        f" {registers} ld.param.u64 %rd1, [out]; {body} ret; }}"
    )


def test_struct_by_value():
    ptx = parameters(
        ".param .align 8 .b8 s[24]",
        """ld.param.u32 %r1, [s]; ld.param.f64 %fd1, [s+8]; ld.param.u8 %h1, [s+16]; ld.param.s8 %r2, [s+17];
        st.global.u32 [%rd1], %r1; st.global.f64 [%rd1+8], %fd1;
        st.global.u8 [%rd1+16], %h1; st.global.u32 [%rd1+20], %r2;
        mov.b64 %rd2, s; ld.param.u32 %r3, [%rd2]; st.global.u32 [%rd1+4], %r3;
        ld.param.v2.u32 {%r4, %r5}, [s+8]; st.global.v2.u32 [%rd1+24], {%r4, %r5};""",
    )
    out = np.zeros(32, np.uint8)
    launched(ptx, out, struct.pack("<Iidbbxxxxxx", 7, -1, 2.5, 9, -3))
    assert struct.unpack("<IIdBxxxi8s", out.tobytes()) == (7, 7, 2.5, 9, -3, struct.pack("<d", 2.5))


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("u8", 200, 200),
        ("s8", -3, 0xFD),
        ("u16", 65535, 65535),
        ("s16", -2, 0xFFFE),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("s32", -1, 2**32 - 1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("s64", -5, 2**64 - 5),
        ("f32", 1.5, 0x3FC00000),
        ("f32", 3, 0x40400000),
        ("f64", 1.5, 0x3FF8000000000000),
        ("u32", np.uint32(9), 9),
        ("b16", np.float16(1.0), 0x3C00),
        ("b16", ml_dtypes.bfloat16(1.0), 0x3F80),
        ("f32", np.float32(-0.0), 0x80000000),
        ("u8", True, 1),
        ("b32", np.int32(-7), 2**32 - 7),
        ("u64", b"\x01\x02\x03\x04\x05\x06\x07\x08", 0x0807060504030201),
    ],
)
def test_scalars(type_name, value, expected):
    width = {"8": 8, "6": 16, "2": 32, "4": 64}[type_name[-1]]
    register = {8: "h", 16: "h", 32: "r", 64: "rd"}[width]
    out = np.zeros(1, np.uint64)
    launched(
        parameters(
            f".param .{type_name} x",
            f"ld.param.b{width} %{register}2, [x]; st.global.b{width} [%rd1], %{register}2;",
        ),
        out,
        value,
    )
    assert out[0] == expected


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("u8", 256),
        ("s32", 2**32),
        ("u32", 1.5),
        ("u32", np.float64(1)),
        ("u64", np.int32(3)),
        ("u32", b"12"),
        ("u32", "x"),
        ("u32", None),
        ("u32", np.zeros(3)),
        ("u64", [1, 2]),
        pytest.param("f64", 10**400, id="huge"),
        ("f32", 1e39),
    ],
)
def test_arguments_that_do_not_fit(type_name, value):
    with pytest.raises(ConfigurationError):
        launched(parameters(f".param .{type_name} x", ""), np.zeros(1, np.uint64), value)


def test_wrong_number_of_arguments():
    with pytest.raises(ConfigurationError, match="takes 2 arguments, 1"):
        launched(parameters(".param .u32 x", ""), np.zeros(1, np.uint64))


def test_arrays_must_be_contiguous():
    with pytest.raises(ConfigurationError, match="contiguous"):
        run("", np.zeros((4, 4), np.uint32)[:, ::2])


@pytest.mark.parametrize(
    ("grid", "block", "shared", "kind"),
    [
        ((1, 1, 1), (1025, 1, 1), 0, "launch-limits"),
        ((1, 1, 1), (2, 2, 65), 0, "launch-limits"),
        ((1, 65536, 1), (1, 1, 1), 0, "launch-limits"),
        ((1, 1, 1), (1, 1, 1), 300_000, "launch-limits"),
        ((0, 1, 1), (1, 1, 1), 0, None),
        ((1, 1, 1), (0, 1, 1), 0, None),
        ((1, 1, 1), (-1, 1, 1), 0, None),
        ((1, 1, 1), (32, 1, 1), -5, None),
        ((2**31, 1, 1), (32, 1, 1), 0, "launch-limits"),
    ],
)
def test_launches_that_no_chip_takes(grid, block, shared, kind):
    with pytest.raises(WmmadiagError) as error:
        kernel("ret;").launch(Launch(grid, block, [np.zeros(64, np.uint32)], shared))
    assert getattr(error.value, "kind", None) == kind


@pytest.mark.parametrize(
    ("grid", "block"), [((1, 1), (32, 1, 1)), ((1.0, 1, 1), (32, 1, 1)), ((1, 1, 1), (32, 1, 1, 1))]
)
def test_extents_are_three_integers(grid, block):
    with pytest.raises(ConfigurationError, match="three integers"):
        kernel("ret;").launch(Launch(grid, block, [np.zeros(64, np.uint32)]))
    kernel("ret;").launch(Launch((np.int64(1), 1, 1), (np.int32(32), 1, 1), [np.zeros(64, np.uint32)]))


@pytest.mark.parametrize(
    "options",
    [
        EmulatorOptions(threads=-1),
        EmulatorOptions(budget=Budget(instructions=-1)),
        EmulatorOptions(budget=Budget(seconds=-1.0)),
        EmulatorOptions(warp_order=(0, 0)),
        EmulatorOptions(warp_order=(0, 1, 2)),
        EmulatorOptions(warp_order=(0, 5)),
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(ConfigurationError):
        run("", np.zeros(64, np.uint32), block=64, options=options)


def test_arrays_of_objects_and_empty_arrays():
    with pytest.raises(ConfigurationError, match="Python objects"):
        run("", np.zeros(4, object))
    with pytest.raises(KernelFault) as error:
        run("ld.global.b32 %r1, [%a1];", np.zeros(4, np.uint32), np.zeros(0, np.float32), names=("x", "empty"))
    assert "0 bytes past the end of empty (0 bytes)" in error.value.detail


def test_launch_bounds():
    ptx = module("", directives=".maxntid 64, 1, 1")
    launched(ptx, np.zeros(64, np.uint32), block=64)
    with pytest.raises(KernelFault, match="at most 64"):
        launched(ptx, np.zeros(128, np.uint32), block=128)


def test_one_array_twice_and_arrays_that_overlap():
    data = np.arange(64, dtype=np.uint32)
    run("st.global.b32 [%a1], 7; ld.global.b32 %r1, [%a0]; st.global.b32 [%a0+4], %r1;", data, data)
    assert data[:2].tolist() == [7, 7]
    run("st.global.b32 [%a1], 9; ld.global.b32 %r1, [%a0+32]; st.global.b32 [%a0], %r1;", data, data[8:40])
    assert (data[8], data[0]) == (9, 9)
    run("st.global.b32 [%a0], 3; ld.global.b32 %r1, [%a1+80]; st.global.b32 [%a1], %r1;", data[20:], data[:30])
    assert (data[20], data[0]) == (3, 3)
