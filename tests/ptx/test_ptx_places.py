"""Every instruction knows its file, line, and the calls that were inlined to get there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from wmmadiag.compile.names import full_name, short_name
from wmmadiag.errors import PtxSyntaxError
from wmmadiag.place import Place
from wmmadiag.ptx import dump, parse
from wmmadiag.ptx.ir import PtxFunction

CHAINS = {  # lines, innermost first
    (3, 6, 11, 15),
    (3, 8, 11, 15),
    (3, 6, 12, 15),
    (3, 8, 12, 15),
    (3, 6, 11, 16),
    (3, 8, 12, 16),
    (3, 6, 16),
    (3, 6, 19),
    (3, 8, 19),
}


def lines_of(place: Place) -> tuple[int, ...]:
    return tuple(frame.line for frame in place.frames())


@pytest.mark.parametrize("arch", ["80", "120"])
def test_nested_inlining(kernel_ptx: Callable[..., str], arch: str) -> None:
    function = parse(kernel_ptx("nested", arch, "-lineinfo")).functions["nested"]
    found = {lines_of(item.place) for item in function.instructions if item.op == "fma.f32"}
    assert found >= CHAINS
    for item in function.instructions:
        frames = list(item.place.frames())
        assert Path(frames[-1].file).name == "nested.cu"
        assert frames[-1].function == "nested"
    deepest = next(item.place for item in function.instructions if lines_of(item.place) == (3, 6, 11, 15))
    names = [frame.function for frame in deepest.frames()]
    assert names == ["inner(float)", "middle(float)", "outer(float)", "nested"]


def test_wmma_is_reported_at_the_users_line(kernel_ptx: Callable[..., str]) -> None:
    function = parse(kernel_ptx("wmma_all", "90", "-lineinfo")).functions["f16"]
    first = next(item for item in function.instructions if item.op == "wmma.mma")
    frames = list(first.place.frames())
    assert Path(frames[0].file).name == "mma.hpp"
    assert "mma_sync" in frames[0].function
    assert [Path(frame.file).name for frame in frames[1:]] == ["wmma_all.cu", "wmma_all.cu"]
    source = Path(frames[1].file).read_text().splitlines()
    assert "mma_sync" in source[frames[1].line - 1]
    assert "multiply<16, 16, 16, half, half" in source[frames[2].line - 1]


def located(body: str) -> PtxFunction:
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        f".visible .entry k() {{\n.reg .b32 r<9>;\n{body}\nret;\n}}\n"
        '.file 1 "a.cu"\n.file 2 "b.cuh", 1234, 56\n'
        ".section .debug_str\n{\n$name0:\n.b8 95,90,49,102,118,0\n$name1:\n.b8 112\n.b8 108,97,105,110,0\n}\n"
    )
    return parse(text, name="x.ptx").functions["k"]


MOVE = "mov.b32 r0, r1;"


def test_chain_follows_the_latest_position() -> None:
    function = located(
        f".loc 1 10 3\n{MOVE}\n.loc 2 5 1, function_name $name0, inlined_at 1 10 3\n{MOVE}\n"
        f".loc 2 7 2, function_name $name1, inlined_at 2 5 1\n{MOVE}\n"
        f".loc 1 20 3\n.loc 2 5 1, function_name $name0, inlined_at 1 20 3\n"
        f".loc 2 7 2, function_name $name1, inlined_at 2 5 1\n{MOVE}\n.loc 1 0 4\n{MOVE}"
    )
    places = [item.place for item in function.instructions]
    assert [lines_of(place) for place in places[:5]] == [(10,), (5, 10), (7, 5, 10), (7, 5, 20), (0,)]
    assert [frame.function for frame in places[2].frames()] == ["plain", "f()", "k"]
    assert [frame.file for frame in places[2].frames()] == ["b.cuh", "b.cuh", "a.cu"]
    assert places[0] == Place("a.cu", 10, 3, "k")


def test_name_by_offset_and_unknown_names() -> None:
    function = located(
        f".loc 1 1 1\n.loc 2 5 1, function_name .debug_str+6, inlined_at 1 1 1\n{MOVE}\n"
        f".loc 2 6 1, function_name $nope, inlined_at 9 9 9\n{MOVE}"
    )
    first, second = (item.place for item in function.instructions[:2])
    assert first.function == "plain"
    assert second.function == ""
    assert str(second.inlined_at) == "<file 9>:9:9"


def test_damaged_names_do_no_harm() -> None:
    text = (
        ".version 9.0\n.target sm_90\n.visible .entry k() {\n.loc 1 1 1, function_name $n, inlined_at 1 2 3\nret;\n}\n"
        ".section .debug_str\n{\n$n:\n.b8 102 0f00 1" + "9" * 9999 + ", 0\n}\n"
    )
    assert parse(text).functions["k"].instructions[0].place.function.startswith("f")


def test_a_position_inlined_at_itself_stays_finite() -> None:
    body = ".loc 1 5 1\n" + f".loc 1 5 1, function_name $name0, inlined_at 1 5 1\n{MOVE}\n" * 500
    assert max(len(list(item.place.frames())) for item in located(body).instructions) <= 110


def test_without_line_information_the_place_is_the_ptx() -> None:
    function = located(MOVE)
    assert function.instructions[0].place == Place("x.ptx", 6)
    assert function.instructions[0].ptx_line == 6


def test_errors_carry_the_users_line_and_the_ptx_line() -> None:
    text = '.version 9.0\n.target sm_90\n.visible .entry k() {\n.loc 1 10 3\n\n  mov.b32 r0, 1;\n}\n.file 1 "a.cu"\n'
    with pytest.raises(PtxSyntaxError, match=re.escape("a.cu:10:3: undefined")) as caught:
        parse(text)
    assert "(PTX line 6)" in caught.value.message
    with pytest.raises(PtxSyntaxError, match=re.escape("x.ptx:6:11: undefined")) as caught:
        parse(text, name="x.ptx")
    assert caught.value.detail == "this PTX was made from a.cu:10:3"


FILES = [
    ('.file 1 "a b.py"', "a b.py"),
    ('.file\t1\t"/src" "k.py"', "/src/k.py"),
    ('.file 1 "/src" "/abs/k.py"', "/abs/k.py"),
    ('.file 1 "a.cu", 1234, 0x56', "a.cu"),
    (".file 1 /tmp/k.py", "/tmp/k.py"),
    ('.file 1 "k.py"\r', "k.py"),
    ('.file 1 "k.py" // a note', "k.py"),
    (r'.file 1 "caf\303\251 \"x\".py"', 'café "x".py'),
    ('.file "unnumbered.cu"\n.file 1 "k.py"', "k.py"),
]


@pytest.mark.parametrize(("directive", "file"), FILES, ids=[row[0] for row in FILES])
def test_files(directive: str, file: str) -> None:
    text = f".version 9.0\n.target sm_90\n.visible .entry k() {{\n.loc 1 10 3\nret;\n}}\n{directive}\n"
    assert parse(text).functions["k"].instructions[0].place == Place(file, 10, 3, "k")


def test_sections_of_any_shape_are_left_out() -> None:
    text = (
        ".version 9.0\n.target sm_90\n.visible .entry k() { ret; }\n"
        ".section\t.debug_macinfo\t{\t}\n.section .debug_info\n{ // } in a comment is none\n.b32 .debug_abbrev // x\n"
        ".b64 $L__func_begin0\n}\n\t.section .debug_loc { }\n.visible .entry two() {\nbananas;\n}\n"
    )
    module = parse(text, name="x.ptx")
    assert module.entries == ("k", "two")
    assert module.functions["two"].instructions[0].place == Place("x.ptx", 12)


BAD_LOCS = [".loc 1 2", ".loc 1 2 3, function_name $name0, at 1 2 3", ".loc 1 2 3, function_name $name0, inlined_at 1"]


@pytest.mark.parametrize("text", BAD_LOCS)
def test_malformed_loc(text: str) -> None:
    with pytest.raises(PtxSyntaxError):
        located(f"{text}\n{MOVE}")


DEMANGLED = [
    ("_Z1kPfi", "k(float*, int)"),
    ("_ZN2ns5innerILi3EEEff", "float ns::inner<3>(float)"),
    ("plain_name", "plain_name"),
    ("_Znonsense", "_Znonsense"),
    ("", ""),
]


@pytest.mark.parametrize(("mangled", "readable"), DEMANGLED, ids=[row[0] or "empty" for row in DEMANGLED])
def test_demangle(mangled: str, readable: str) -> None:
    assert full_name(mangled) == readable


SHORT = [
    ("void ns::f<3, float>(int, float (*)(int))", "ns::f"),
    ("k(float*)", "k"),
    ("plain", "plain"),
    ("bool operator<(A, B)", "bool operator<(A, B)"),
    ("", ""),
]


@pytest.mark.parametrize(("readable", "short"), SHORT, ids=[row[1] or "empty" for row in SHORT])
def test_short_name(readable: str, short: str) -> None:
    assert short_name(readable) == short


def test_listing_interleaves_source_lines(kernel_ptx: Callable[..., str]) -> None:
    text = dump(parse(kernel_ptx("nested", "80", "-lineinfo")), entry="nested")
    assert ".entry nested" in text
    order = [
        text.index("// nested.cu:15  p[0] = outer(p[0]);"),
        text.index("// nested.cu:11 in outer  return middle(x) +"),
        text.index("// nested.cu:6 in middle  float r = inner(x);"),
        text.index("// nested.cu:3 in inner  return x * x + 1;"),
        text.index("fma.rn.f32"),
    ]
    assert order == sorted(order)


def test_listing_takes_sources_and_names_what_is_refused() -> None:
    module = parse(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.func f() { .reg .b32 r<3>;\n"
        ".loc 1 2 1\n@!p foo.bar r1, {r2};\n}\n".replace("@!p ", "")
        + '.file 1 "gone.cu"\n'
    )
    text = dump(module, sources={"gone.cu": "first\n  second line\n"})
    assert "// gone.cu:2  second line" in text
    assert "foo.bar r1, { r2 }" in text
    assert "not emulated: foo.bar: unknown instruction 'foo'" in text
    with pytest.raises(KeyError):
        dump(module, entry="nothing")
