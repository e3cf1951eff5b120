"""Loads and stores of every width and space, and every access that must fault, with lane and nearest allocation."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import kernel, module, result, run

from wmmadiag.emulator import Budget, EmulatorOptions, load
from wmmadiag.errors import ConfigurationError, KernelFault, UnsupportedError, WmmadiagError
from wmmadiag.launch import Launch

LANE = np.arange(32, dtype=np.uint32)
STORE = "st.global.b32 [%to], %r1;"
DATA = np.random.default_rng(5).integers(0, 256, 2048, dtype=np.uint8)


def launched(ptx: str, *arguments, block: int = 32, shared: int = 0, names=(), **options) -> None:
    load(ptx, "k", options=EmulatorOptions(threads=1, **options)).launch(
        Launch((1, 1, 1), (block, 1, 1), list(arguments), shared, names)
    )


WIDTHS = {
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
}
REGISTERS = {1: "h", 2: "h", 4: "r", 8: "rd"}
PER_SPACE = {
    "global": ("", "%a1"),
    "shared": (".shared .align 16 .b8 m[2048];", "m"),
    "local": (".local .align 16 .b8 m[64];", "m"),
}


def register_of(type_name: str) -> str:
    return {"f32": "f", "f64": "fd"}.get(type_name, REGISTERS[WIDTHS[type_name]])


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("space", PER_SPACE)
@pytest.mark.parametrize(
    ("type_name", "count"),
    [(name, count) for name, width in WIDTHS.items() for count in (1, 2, 4) if width * count <= 16],
)
def test_copy_through_every_space(type_name, count, space, generic):
    """global → space → global with one type and vector width; each lane its own bytes."""
    size = WIDTHS[type_name] * count
    declaration, base = PER_SPACE[space]
    vec = f".v{count}" if count > 1 else ""
    letter = register_of(type_name)
    names = ", ".join(f"%{letter}{i + 20}" for i in range(count))
    operand = f"{{{names}}}" if count > 1 else names
    out = np.zeros(32 * size, np.uint8)
    source = DATA[: 32 * size].copy()
    middle = np.zeros(32 * size, np.uint8)
    offset = f"mul.wide.u32 %rd1, %lane, {size};" if space != "local" else "mov.u64 %rd1, 16;"
    to_generic = "" if not generic or space == "global" else f"cvta.{space}.u64 %rd2, %rd2;"
    s = "" if generic else f".{space}"
    run(
        f"""{declaration} mul.wide.u32 %rd9, %lane, {size}; add.u64 %rd3, %a2, %rd9; add.u64 %rd4, %a0, %rd9;
        mov.u64 %rd2, {base}; {to_generic} {offset} add.u64 %rd2, %rd2, %rd1;
        ld.global{vec}.{type_name} {operand}, [%rd3]; st{s}{vec}.{type_name} [%rd2], {operand};
        ld{s}{vec}.{type_name} {operand}, [%rd2]; st.global{vec}.{type_name} [%rd4], {operand};""",
        out,
        middle,
        source,
    )
    assert (out == source).all()
    if space == "global":
        assert (middle == source).all()


@pytest.mark.parametrize(
    ("type_name", "register", "numpy_type"),
    [
        ("u8", "r", np.uint8),
        ("s8", "r", np.int8),
        ("s8", "h", np.int8),
        ("u16", "r", np.uint16),
        ("s16", "r", np.int16),
        ("s8", "rd", np.int8),
        ("s32", "rd", np.int32),
        ("u32", "rd", np.uint32),
        ("u8", "rd", np.uint8),
    ],
)
def test_extension_into_wider_registers(type_name, register, numpy_type):
    source = np.array([0, 1, 127, 128, 200, 255, 2**15, 2**16 - 1, 2**31, 2**32 - 1] * 4, np.uint64)[:32].astype(
        numpy_type
    )
    width = {"h": 16, "r": 32, "rd": 64}[register]
    out = np.zeros(32, np.uint64)
    run(
        f"mul.wide.u32 %rd1, %lane, {source.itemsize}; add.u64 %rd1, %rd1, %a1; ld.global.{type_name}"
        f" %{register}20, [%rd1]; mul.wide.u32 %rd2, %lane, 8; add.u64 %rd2, %rd2, %a0; st.global.b{width} [%rd2],"
        f" %{register}20;",
        out,
        source,
    )
    expected = source.astype(np.int64).view(np.uint64) & np.uint64((1 << width) - 1)
    assert out.tolist() == expected.tolist()


def test_stores_cut_registers_that_are_wider():
    out = np.zeros(40, np.uint8)
    run(
        "setp.eq.u32 %p1, %lane, 3; mov.u32 %r1, 0x12345678; @%p1 st.global.u8 [%a0], %r1; @%p1 st.global.u16"
        " [%a0+2], %r1;",
        out,
        preset=True,
    )
    assert out[:5].tolist() == [0x78, 0, 0x78, 0x56, 0]


def test_b128():
    source, out = DATA[:512].copy(), np.zeros(512, np.uint8)
    run(
        "mul.wide.u32 %rd1, %lane, 16; add.u64 %rd2, %a1, %rd1; add.u64 %rd3, %a0, %rd1; ld.global.b128 %q1,"
        " [%rd2]; st.global.b128 [%rd3], %q1;",
        out,
        source,
    )
    assert (out == source).all()


def test_vector_load_with_a_sink_and_an_address_it_overwrites():
    out, source = np.zeros(32, np.uint32), np.arange(64, dtype=np.uint64)
    run(
        "mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %a1, %rd1; ld.global.v2.b64 {_, %rd1}, [%rd1]; cvt.u32.u64"
        " %r1, %rd1;" + STORE,
        out,
        source,
    )
    assert out.tolist() == [2 * lane + 1 for lane in range(32)]


@pytest.mark.parametrize("modifier", ["volatile", "relaxed.gpu", "acquire.sys", "weak"])
def test_qualified_loads(modifier):
    assert (
        result(
            f"st.global.b32 [%to], %lane; ld.{modifier}.global.b32 %r1, [%to]; add.u32 %r1, %r1, 1;" + STORE
        ).tolist()
        == (LANE + 1).tolist()
    )


def test_stores_by_several_lanes_to_one_place_leave_the_last_lane():
    out = np.zeros(32, np.uint32)
    run("st.global.b32 [%a0], %lane;", out)
    assert out[0] == 31


# Spaces and windows


def test_generic_lanes_in_three_spaces_at_once():
    """Lane 0 reads a module variable, lane 1 shared memory, lane 2 local memory, the others an argument."""
    out = result(
        """.shared .align 4 .b32 s; .local .align 4 .b32 l; st.shared.b32 [s], 11; st.local.b32 [l], 12;
        mov.u64 %rd1, g; cvta.global.u64 %rd1, %rd1; mov.u64 %rd2, s; cvta.shared.u64 %rd2, %rd2;
        mov.u64 %rd3, l; cvta.local.u64 %rd3, %rd3; st.global.b32 [%to], 13; mov.u64 %rd4, %to;
        setp.eq.u32 %p1, %lane, 0; selp.b64 %rd4, %rd1, %rd4, %p1;
        setp.eq.u32 %p1, %lane, 1; selp.b64 %rd4, %rd2, %rd4, %p1; setp.eq.u32 %p1, %lane, 2;
        selp.b64 %rd4, %rd3, %rd4, %p1; ld.b32 %r1, [%rd4]; st.b32 [%rd4], 5;"""
        + STORE,
        globals=".global .align 4 .b32 g = 10;",
    )
    assert out.tolist() == [10, 11, 12] + [13] * 29


def test_isspacep_and_cvta_there_and_back():
    out = result(
        """.shared .align 4 .b32 s; .local .align 4 .b32 l; mov.u64 %rd1, s; cvta.shared.u64 %rd2, %rd1;
        cvta.to.shared.u64 %rd3, %rd2; mov.u64 %rd4, l; cvta.local.u64 %rd5, %rd4; cvta.to.local.u64 %rd6, %rd5;
        isspacep.shared %p1, %rd2; isspacep.shared %p2, %rd5; isspacep.shared %p3, %a0;
        isspacep.local %p4, %rd5; isspacep.local %p5, %a0; isspacep.global %p6, %a0; isspacep.global %p7, %rd2;
        isspacep.global %p8, %rd5;
        setp.eq.u64 %p9, %rd1, %rd3; setp.eq.u64 %p10, %rd4, %rd6; mov.u32 %r1, 0;"""
        + "".join(f"@%p{i} or.b32 %r1, %r1, {1 << i};" for i in range(1, 11))
        + STORE
    )
    assert set(out.tolist()) == {1 << 1 | 1 << 4 | 1 << 6 | 1 << 9 | 1 << 10}


@pytest.mark.parametrize("space", ["const", "param"])
def test_windows_that_are_not_told_apart_are_refused(space):
    with pytest.raises(UnsupportedError, match="isspacep"):
        kernel(f"isspacep.{space} %p1, %a0;")


def test_local_memory_belongs_to_a_lane():
    body = """.local .align 4 .b32 l[4]; mov.u64 %rd1, l; and.b32 %r2, %tid, 3; mad.wide.u32 %rd1, %r2, 4, %rd1;
    add.u32 %r3, %tid, 7; st.local.b32 [%rd1], %r3; bar.sync 0; ld.local.b32 %r1, [%rd1];"""
    assert result(body + STORE, block=96, grid=2).tolist() == [t + 7 for t in range(96)] * 2


def test_shared_and_local_memory_start_poisoned_in_each_block():
    body = (
        ".shared .align 4 .b32 s[32]; .local .align 4 .b32 l; ld.shared.b32 %r1, [s]; ld.local.b32 %r2, [l];"
        " bar.sync 0; st.shared.b32 [s], 1; st.local.b32 [l], 1; sub.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r2;"
    )
    out = result(body + STORE, grid=3)
    assert len(set(out.tolist())) == 1 and np.isnan(out.view(np.float32)).all()
    assert np.isnan(out.view(np.float16)).all()


def test_static_and_dynamic_shared_memory_do_not_overlap():
    body = """.shared .align 16 .b8 a[100]; .shared .align 4 .b32 b[8]; mov.u64 %rd1, a; mov.u64 %rd2, b;
    mov.u64 %rd3, dyn; setp.eq.u32 %p1, %lane, 0; cvt.u32.u64 %r1, %rd1;
    @%p1 st.shared.b32 [%rd1+96], 1; @%p1 st.shared.b32 [%rd2], 2;
    @%p1 st.shared.b32 [%rd3], 3; @%p1 st.shared.b32 [dyn+60], 6; ld.shared.b32 %r2, [%rd1+96];
    ld.shared.b32 %r3, [%rd2]; ld.shared.b32 %r4, [%rd3]; ld.shared.b32 %r5, [dyn+60];
    mad.lo.u32 %r1, %r2, 10, %r3; mad.lo.u32 %r1, %r1, 10, %r4; mad.lo.u32 %r1, %r1, 10, %r5;"""
    assert set(result(body + STORE, globals=".extern .shared .align 16 .b8 dyn[];", shared=64).tolist()) == {1236}


def test_shared_variables_of_other_kernels_take_no_room():
    other = ".shared .align 4 .b8 theirs[230000];\n.visible .entry other() { st.shared.b32 [theirs], 1; ret; }\n"
    assert set(
        result(
            ".shared .align 4 .b8 ours[40000]; st.shared.b32 [ours+39996], 4; ld.shared.b32 %r1, [ours+39996];" + STORE,
            globals=other,
        ).tolist()
    ) == {4}


# Module variables


def test_initialisers():
    variables = """.global .align 4 .u32 a[4] = {1, 2, 3}; .const .align 4 .f32 c[2] = {0f3F800000, 2.5};
    .global .align 8 .u64 p = a; .global .align 8 .u64 q[2] = {generic(a)+8, c};
    .global .align 1 .b8 text[4] = {72, 105, 33, 0};
    .global .align 4 .b32 zero; .global .align 2 .b16 h = 0xBEEF;"""
    body = """ld.global.u32 %r1, [a+8]; ld.const.b32 %r2, [c+4]; ld.global.u64 %rd1, [p];
    ld.global.u32 %r3, [%rd1+4]; ld.global.u64 %rd2, [q]; ld.u32 %r4, [%rd2];
    ld.global.u8 %r5, [text+2]; ld.global.b32 %r6, [zero];
    ld.global.b16 %h1, [h]; cvt.u32.u16 %r7, %h1; ld.global.u32 %r8, [a+12];
    """ + "".join(f"st.global.b32 [%a0+{4 * (i - 1)}], %r{i};" for i in range(1, 9))
    out = np.zeros(32, np.uint32)
    run(body, out, globals=variables)
    assert out[:8].tolist() == [3, int(np.float32(2.5).view(np.uint32)), 2, 3, 33, 0, 0xBEEF, 0]


def test_module_variables_start_anew_at_each_launch():
    k = kernel("atom.global.add.u32 %r1, [g], 1;" + STORE, "p", globals=".global .align 4 .u32 g = 5;")
    for _ in range(2):
        out = np.zeros(32, np.uint32)
        k.launch(Launch((1, 1, 1), (32, 1, 1), [out]))
        assert out.tolist() == list(range(5, 37))


# Parameters


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


# Faults


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
    letter = REGISTERS[WIDTHS[type_name]]
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
