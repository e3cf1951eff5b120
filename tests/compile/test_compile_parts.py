"""The small parts: compiler logs, PTX scan, names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.compile.diagnostics import error_from, errors_in, parse_log, warnings_text
from wmmadiag.compile.names import base_name, demangle, qualified_name
from wmmadiag.compile.ptx_scan import drop_unused_globals, entry_names, file_table, instructions, rename_files
from wmmadiag.place import Place

LOG = """k.cu(3): error: identifier "nope" is undefined
   *p=M(3);
      ^

k.cu(5): warning #177-D: variable "x" was declared but never referenced
      int x;
          ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

dir with (odd) name/h.cuh(7): error: expression must have class type
  t.x();
  ^
          detected during instantiation of "void f(T) [with T=int]" at line 6 of k.cu

2 errors detected in the compilation of "k.cu".
"""
PTX = """.version 8.0
.target sm_80
.address_size 64
	// .globl	_Z1kPf
.global .align 4 .u32 _ZN4cuda3std3__41aE = 1;
.global .align 4 .u32 _ZN4cuda3std3__41bE;
.global .align 4 .u32 mine;
.func  (.param .b32 r) helper(.param .b32 a)
{
	ret;
}
.visible .entry _Z1kPf(
	.param .u64 _Z1kPf_param_0
)
.maxntid 128, 1, 1
{
	.reg .b32 	%r<3>;
	.loc	1 10 3
	ld.global.u32 %r1, [_ZN4cuda3std3__41bE];
	.loc	2 20 5, function_name $L__info_string0, inlined_at 1 10 3
	{ .reg .b32 t; mov.b32 t, %r1; }
	.loc	3 30 7, function_name $L__info_string1, inlined_at 2 20 5
	@!%p1 wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%r2], %r3;
$L__BB0_1:
	@%p1 bra $L__BB0_1;
	ret;
}
	.file	1 "/w/k.cu"
	.file	2 "/w/caf\\303\\251.cuh"
	.file	3 "/usr/mma.hpp"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90
	}
"""


def test_log_is_split_into_messages() -> None:
    found = parse_log(LOG)
    assert [(d.kind, d.place.file, d.place.line, d.place.column) for d in found] == [
        ("error", "k.cu", 3, 5),
        ("warning", "k.cu", 5, 9),
        ("error", "dir with (odd) name/h.cuh", 7, 1),
    ]
    assert len(errors_in(LOG)) == 2
    assert "detected during" in found[2].lines[-1]


def test_error_text_keeps_the_log() -> None:
    error = error_from(errors_in(LOG), LOG, Place("k.cu", 9))
    assert str(error).startswith('k.cu:3:5: identifier "nope" is undefined (and 1 more)')
    assert "*p=M(3);" in error.detail
    assert "never referenced" not in error.detail


def test_warnings_lose_the_boilerplate() -> None:
    assert "Remark" not in warnings_text(LOG)
    assert "errors detected" not in warnings_text(LOG)
    assert warnings_text("\0\n") == ""


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_log_is_readable(text: str) -> None:
    warnings_text(text)
    error_from(errors_in(text), text, Place("k.cu", 9))


def test_entries_and_files() -> None:
    assert entry_names(PTX) == ["_Z1kPf"]
    assert file_table(PTX) == {1: "/w/k.cu", 2: "/w/café.cuh", 3: "/usr/mma.hpp"}


def test_instructions_have_places_and_chains() -> None:
    found = {item.opcode: item for item in instructions(PTX) if item.function == "_Z1kPf"}
    place = found["wmma.load.a.sync.aligned.row.m16n16k16.f16"].place
    assert place is not None
    assert [str(frame) for frame in place.frames()] == ["/usr/mma.hpp:30:7", "/w/café.cuh:20:5", "/w/k.cu:10:3"]
    assert found["bra"].text == "@%p1 bra $L__BB0_1;"
    assert PTX.split("\n")[found["bra"].line - 1].strip() == found["bra"].text


def test_files_are_renamed() -> None:
    renamed = rename_files(PTX, {"/w/k.cu": "src/k.cu", "/w/café.cuh": 'a"b\\c.cuh'})
    assert file_table(renamed) == {1: "src/k.cu", 2: 'a"b\\c.cuh', 3: "/usr/mma.hpp"}


def test_unused_library_globals_go() -> None:
    lines = drop_unused_globals(PTX).split("\n")
    gone = set(PTX.split("\n")) - set(lines)
    assert gone == {".global .align 4 .u32 _ZN4cuda3std3__41aE = 1;"}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*PTX.split("\n"), "{", "}", ".loc 1", ".entry", '.file 1 "']), max_size=40))
def test_any_ptx_is_scannable(lines: list[str]) -> None:
    text = "\n".join(lines)
    list(instructions(drop_unused_globals(text)))
    entry_names(text)


@pytest.mark.parametrize(
    ("mangled", "full", "qualified"),
    [
        ("_Z1kILi3EEvPK6__halfS2_Pf", "k<3>", "k"),
        ("_ZN2ns4attnILi64E6__halfEEvPT0_", "ns::attn<64, __half>", "ns::attn"),
        ("_ZN1a42_GLOBAL__N__00000000_4_x_cu_62849d98_295771zEv", "a::z", "a::z"),
        ("_Z1fIL1E2EEvv", "f<(E)2>", "f"),
        ("plain", "plain", "plain"),
        ("_Z", "_Z", "_Z"),
        ("_Zgarbage", "_Zgarbage", "_Zgarbage"),
    ],
)
def test_names(mangled: str, full: str, qualified: str) -> None:
    assert demangle(mangled) == full
    assert qualified_name(mangled) == qualified
    assert base_name(mangled) == qualified.split("::")[-1]
