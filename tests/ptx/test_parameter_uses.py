"""What the uses of a parameter tell: pointers, types of elements, members of structs."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.ptx import parse
from wmmadiag.ptx.parameter_uses import MemberUse, ParameterUse, parameter_uses

DIALECTS = Path(__file__).parent / "dialects"


def uses(
    body: str, parameters: str = ".param .u64 p, .param .u64 q, .param .u32 n", before: str = ""
) -> dict[str, ParameterUse]:
    text = (
        f".version 8.7\n.target sm_90\n.address_size 64\n{before}\n.visible .entry k({parameters}) {{\n"
        ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<9>; .reg .b64 %d<20>; .reg .b128 %q<3>;\n"
        f".shared .align 16 .b8 tile[1024];\nld.param.b64 %d1, [p]; ld.param.b64 %d2, [q];\n{body}\nret;\n}}\n"
    )
    return {one.parameter.name: one for one in parameter_uses(parse(text), "k")}


def one(body: str, name: str = "p", before: str = "") -> MemberUse:
    (found,) = uses(body, before=before)[name].members
    return found


ELEMENTS = [
    ("named by the load", "ld.global.f32 %f1, [%d1];", "f32"),
    ("used by arithmetic", "ld.global.b32 %r1, [%d1]; add.f32 %r2, %r1, %r1;", "f32"),
    ("unpacked halves", "ld.global.b32 %r1, [%d1]; mov.b32 {%h1, %h2}, %r1; cvt.f32.f16 %f1, %h1;", "f16"),
    ("packed halves", "ld.global.v2.b32 {%r1, %r2}, [%d1]; fma.rn.bf16x2 %r3, %r1, %r2, %r2;", "bf16"),
    ("of a multiplication", "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d1];"
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r1, %r2}, "
     "{%f1, %f2, %f3, %f4};", "bf16"),
    ("through shared memory", "cp.async.cg.shared.global [tile], [%d1], 16; ldmatrix.sync.aligned.m8n8.x2.shared.b16 "
     "{%r1, %r2}, [tile]; add.f16x2 %r3, %r1, %r2;", "f16"),
    ("shuffled", "ld.global.b32 %r1, [%d1]; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; max.f32 %r3, %r2, %r1;", "f32"),
    ("stored", "cvt.rn.f16.f32 %h1, %f1; mov.b32 %r1, {%h1, %h1}; st.global.b32 [%d1], %r1;", "f16"),
    ("put together by shifts", "cvt.rn.f16x2.f32 %r1, %f1, %f1; cvt.u64.u32 %d3, %r1; shl.b64 %d4, %d3, 32;"
     "or.b64 %d5, %d3, %d4; st.global.b64 [%d1], %d5;", "f16"),
    ("an index", "ld.global.u32 %r1, [%d1]; mul.wide.s32 %d3, %r1, 4;", "s32"),
    ("added to", "red.global.add.f32 [%d1], %f1;", "f32"),
    ("moved alone", "ld.global.b32 %r1, [%d1]; st.global.b32 [%d2], %r1;", ""),
    ("taken apart", "ld.global.b32 %r1, [%d1]; and.b32 %r2, %r1, 0x000F000F; or.b32 %r2, %r2, 0x64006400;"
     "sub.f16x2 %r3, %r2, %r2;", ""),
    ("two types", "ld.global.b32 %r1, [%d1]; add.f32 %r2, %r1, %r1; add.f16x2 %r3, %r1, %r1;", ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "element"), [row[1:] for row in ELEMENTS], ids=[row[0] for row in ELEMENTS])
def test_elements(body: str, element: str) -> None:
    found = one(body)
    assert found.pointer
    assert found.element == element


def test_what_elements_may_be_is_said_where_they_are_not_certain() -> None:
    assert one(ELEMENTS[-2][1]).perhaps == ("f16",)
    assert one(ELEMENTS[-1][1]).perhaps == ("f16", "f32")
    assert one(ELEMENTS[-3][1]).perhaps == ()
    assert one(ELEMENTS[-3][1]).widths == (4,)


ADDRESSES = [
    ("as it is", "ld.global.f32 %f1, [%d1];", True),
    ("cvta", "cvta.to.global.u64 %d3, %d1; ld.global.f32 %f1, [%d3+4];", True),
    ("never used", "cvta.to.global.u64 %d3, %d1;", True),
    ("sum", "mul.wide.s32 %d3, %r1, 4; add.s64 %d4, %d1, %d3; ld.f32 %f1, [%d4];", True),
    ("fused", "mad.wide.s32 %d3, %r1, 4, %d1; ld.global.f32 %f1, [%d3];", True),
    ("rounded", "add.s64 %d3, %d1, 15; and.b64 %d3, %d3, -16; ld.global.f32 %f1, [%d3];", True),
    ("chosen", "selp.b64 %d3, %d1, %d2, %p1; ld.global.f32 %f1, [%d2]; ld.global.f32 %f2, [%d1];"
     "st.global.f32 [%d3], %f1;", True),
    ("a factor", "mul.lo.s64 %d3, %d1, 8; add.s64 %d4, %d2, %d3; ld.global.f32 %f1, [%d4];", False),
    ("an index of bytes", "add.s64 %d3, %d2, %d1; cvta.to.global.u64 %d4, %d2; ld.global.u8 %h1, [%d3];", False),
    ("of shared memory", "cvt.u32.u64 %r1, %d1; ld.shared.f32 %f1, [%r1];", False),
    ("compared", "setp.lt.s64 %p1, %d1, 7; ld.global.f32 %f1, [%d2];", False),
]  # fmt: skip


@pytest.mark.parametrize(("body", "pointer"), [row[1:] for row in ADDRESSES], ids=[row[0] for row in ADDRESSES])
def test_pointers(body: str, pointer: bool) -> None:
    assert one(body).pointer == pointer


MODES = [
    ("ld.global.f32 %f1, [%d1];", (True, False, False)),
    ("st.global.f32 [%d1], %f1;", (False, True, False)),
    ("red.global.add.f32 [%d1], %f1;", (False, True, True)),
    ("atom.global.add.f32 %f2, [%d1], %f1;", (True, True, True)),
    ("atom.global.exch.b32 %r2, [%d1], %r1;", (True, True, False)),
    ("cp.async.cg.shared.global [tile], [%d1], 16;", (True, False, False)),
    ("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d1], {%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}, 16;",
     (False, True, False)),
]  # fmt: skip


@pytest.mark.parametrize(("body", "modes"), MODES, ids=[row[0].split()[0] for row in MODES])
def test_what_is_done_through_a_pointer(body: str, modes: tuple[bool, bool, bool]) -> None:
    found = one(body)
    assert (found.read, found.written, found.added) == modes


def test_parameters_that_nothing_reads() -> None:
    found = uses("")
    assert found["n"].members == ()
    assert found["p"].members == (MemberUse(0, 8),)


def test_members_of_a_struct_are_those_that_are_read() -> None:
    body = (
        "ld.param.v2.f32 {%f1, %f2}, [s+8]; mov.b64 %d3, s; mov.b64 %d4, %d3; ld.param.u64 %d5, [%d4+16];"
        "st.global.f16 [%d5], %h1;"
    ).replace("st.global.f16", "cvt.rn.f16.f32 %h1, %f1; st.global.b16")
    found = uses(body, ".param .u64 p, .param .u64 q, .param .align 8 .b8 s[32]")["s"]
    assert found.members == (
        MemberUse(8, 4, element="f32"),
        MemberUse(12, 4, element="f32"),
        MemberUse(16, 8, pointer=True, written=True, written_first=True, element="f16", widths=(2,)),
    )
    assert not found.indexed


def test_a_struct_that_is_indexed() -> None:
    body = "mov.b64 %d3, s; mul.wide.s32 %d5, %r1, 4; add.s64 %d4, %d3, %d5; ld.param.u32 %r2, [%d4];"
    assert uses(body, ".param .u64 p, .param .u64 q, .param .align 8 .b8 s[32]")["s"].indexed


CALLED = """
.func (.param .b32 out) load(.param .b64 at, .param .align 8 .b8 pair[16]) {
  .reg .b64 %d<4>; .reg .f32 %f<3>;
  ld.param.b64 %d1, [at]; ld.param.b64 %d2, [pair+8];
  ld.f32 %f1, [%d1]; st.f32 [%d2], %f1; st.param.f32 [out], %f1; ret;
}
"""


def test_pointers_go_through_calls() -> None:
    body = (
        "{ .param .b64 a; .param .align 8 .b8 b[16]; .param .b32 c; st.param.b64 [a], %d1; st.param.b64 [b+8], %d2;\n"
        "call.uni (c), load, (a, b); ld.param.f32 %f1, [c]; }"
    )
    found = uses(body, before=CALLED)
    assert [(one.read, one.written, one.element) for name in "pq" for one in found[name].members] == [
        (True, False, "f32"),
        (False, True, "f32"),
    ]


REAL = [
    ("triton_matmul", ["f16 r", "f16 r", "f16 w", *["s32"] * 6, "", ""]),
    ("triton_softmax", ["f32 w", "f32 r", "s32", "s32", "s32", "", ""]),
    ("triton_layernorm", ["bf16 r", "bf16 r", "bf16 r", "bf16 w", "s32", "s32", "f32", "", ""]),
    ("clang_filter", ["f32 r", "f32 w", "f32, f32, u32, f32 r"]),
    ("cute_add", ["f32 r", "f32 r", "f32 w", "s32"]),
    ("warp_affine", ["u64, ?", "f32 r, ?, ?, s32, ?", "f32 w, ?, ?, s32, ?", "f32, s32, f32", "f32"]),
]


@pytest.mark.parametrize(("name", "expected"), REAL, ids=[row[0] for row in REAL])
def test_parameters_of_compiled_kernels(name: str, expected: list[str]) -> None:
    module = parse((DIALECTS / f"{name}.ptx").read_text())
    found = [
        ", ".join((one.element or "?") + " r" * (one.pointer and one.read) + " w" * one.written for one in use.members)
        for use in parameter_uses(module, module.entries[0])
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("st.global.f32 [%d1], %f1; ld.global.f32 %f2, [%d1];", True),
        ("ld.global.f32 %f2, [%d1]; st.global.f32 [%d1], %f2;", False),
        ("red.global.add.f32 [%d1], %f1; ld.global.f32 %f2, [%d1];", False),
    ],
)
def test_what_is_written_before_it_is_read(body: str, first: bool) -> None:
    assert one(body).written_first is first
