"""Loads and stores of every width and space, and what memory holds when a launch begins."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import kernel, result, run

from wmmadiag.errors import UnsupportedError
from wmmadiag.launch import Launch

LANE = np.arange(32, dtype=np.uint32)
STORE = "st.global.b32 [%to], %r1;"
DATA = np.random.default_rng(5).integers(0, 256, 2048, dtype=np.uint8)
WIDTHS = {f"{kind}{8 * size}": size for size in (1, 2, 4, 8) for kind in "bus"} | {"f32": 4, "f64": 8}
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
