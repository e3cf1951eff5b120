"""Modules, variables, initial values, functions, scopes and calls."""

from __future__ import annotations

import re
import struct

import pytest
from ptx_text import GLOBALS, kernel, module

from wmmadiag.errors import PtxSyntaxError, UnsupportedError
from wmmadiag.ptx import parse, parse_each
from wmmadiag.ptx.ir import (
    Address,
    Immediate,
    Initializer,
    Label,
    PtxFunction,
    PtxParameter,
    PtxVariable,
    Register,
    Space,
    SymbolAddress,
    Vector,
)


def variable(declaration: str) -> PtxVariable:
    """The variable `x` of a module."""
    return parse(module("", before=GLOBALS + declaration)).variables["x"]


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


VARIABLES = [
    (".global .u32 x;", (Space.GLOBAL, 4, 4, ()), None),
    (".global .align 16 .b8 x[3][5];", (Space.GLOBAL, 16, 15, (3, 5)), None),
    (".const .v4 .f32 x[2];", (Space.CONST, 16, 32, (2,)), None),
    (".extern .shared .align 16 .b8 x[];", (Space.SHARED, 16, 0, (-1,)), None),
    (".extern .global .u64 x;", (Space.GLOBAL, 8, 8, ()), None),
    (".visible .global .attribute(.managed) .align 4 .u32 x = 7;", (Space.GLOBAL, 4, 4, ()), Initializer(b"\7\0\0\0")),
    (".global .s16 x[] = {-1, 2, 0x10};", (Space.GLOBAL, 2, 6, (3,)), Initializer(b"\xff\xff\2\0\x10\0")),
    (".global .u8 x[2][3] = {{1}, {2, 3}};", (Space.GLOBAL, 1, 6, (2, 3)), Initializer(bytes([1, 0, 0, 2, 3, 0]))),
    (".global .f32 x[3] = {0f3F800000, 2.5, -1};", (Space.GLOBAL, 4, 12, (3,)), Initializer(floats(1, 2.5, -1))),
    (".global .f64 x = 1e3;", (Space.GLOBAL, 8, 8, ()), Initializer(struct.pack("<d", 1000.0))),
    (".global .b32 x = 0f40000000;", (Space.GLOBAL, 4, 4, ()), Initializer(floats(2.0))),
    (".const .u32 x = (1 << 4) | 3 ? 5 + 2 * 3 : 0;", (Space.CONST, 4, 4, ()), Initializer(b"\x0b\0\0\0")),
    (
        ".global .u64 x[3] = {gmem, generic(gmem)+8, 0};",
        (Space.GLOBAL, 8, 24, (3,)),
        Initializer(bytes(24), ((0, 8, 0, SymbolAddress("gmem", 0), False), (8, 8, 0, SymbolAddress("gmem", 8), True))),
    ),
    (
        ".global .b8 x[4] = {0xFF(gmem), 0xFF00(gmem+4), 7, 0xFF000000(generic(gmem))};",
        (Space.GLOBAL, 1, 4, (4,)),
        Initializer(
            bytes([0, 0, 7, 0]),
            (
                (0, 1, 0, SymbolAddress("gmem", 0), False),
                (1, 1, 8, SymbolAddress("gmem", 4), False),
                (3, 1, 24, SymbolAddress("gmem", 0), True),
            ),
        ),
    ),
    (".weak .const .align 8 .b16 x[2] = {0x3C00, 1};", (Space.CONST, 8, 4, (2,)), Initializer(b"\x00\x3c\1\0")),
]


@pytest.mark.parametrize(("text", "layout", "initializer"), VARIABLES, ids=[row[0] for row in VARIABLES])
def test_variables(text: str, layout: tuple[object, ...], initializer: Initializer | None) -> None:
    found = variable(text)
    assert (found.space, found.align, found.size, found.shape) == layout
    assert found.initializer == initializer
    assert found.extern == (".extern" in text)


BAD_MODULES = [
    ("nothing at all", "", "expected '.version'"),
    ("no target", ".version 8.0\n", "expected '.target'"),
    ("odd version", ".version eight\n.target sm_80\n", "expected a version"),
    ("odd target", ".version 8.0\n.target x86\n", "unknown target"),
    ("stray token", module("", before="banana"), "unexpected 'banana'"),
    ("twice", module("", before=".global .u32 x; .global .u32 x;"), "declared twice"),
    ("too many values", module("", before=".global .u8 x[1] = {1, 2};"), "more initial values"),
    ("unknown symbol", module("", before=".global .u64 x = y;"), "undefined symbol 'y'"),
    ("shared value", module("", before=".shared .u32 x = 1;"), "cannot have an initial value"),
    ("odd alignment", module("", before=".global .align 3 .u32 x;"), "not a power of two"),
    ("huge", module("", before=".global .u32 x[0x7fffffffffff];"), "out of range"),
    ("division", module("", before=".global .u32 x = 1 / 0;"), "divides by zero"),
    ("unknown type", module("", before=".global .u33 x;"), "unexpected '.u33'"),
    ("second module", module("") + module(""), "a second module begins here"),
    ("unclosed section", module("") + ".section .debug_info {\n.b8 1\n", "a .section is not closed"),
    ("unclosed body", module("")[:-3], "a '}' is missing"),
    ("unclosed comment", module("") + "/* ...", "a comment is not closed"),
    ("strange character", module("add.s32 r0, r1, `;"), "unexpected character '`'"),
    ("label twice", module("L: L: ret;"), "label 'L' is defined twice"),
    ("register twice", module(".reg .b32 x; .reg .b32 x;"), "'x' is declared twice"),
    ("branch to a list", module("bra T; T: .branchtargets END;"), "'T' is not a label"),
    ("index into a label", module("brx.idx r0, END;"), "'END' is not a .branchtargets list"),
    ("unknown directive", module(".banana 3;"), "unexpected directive '.banana'"),
    ("unknown limit", module("").replace("{", ".maxbananas 3 {", 1), "unknown directive '.maxbananas'"),
    ("unbalanced", module("frobnicate };"), "found '}'"),
    ("undefined function", module("call foo;"), "undefined function 'foo'"),
    ("kernel called", module("call k, (arg);"), "a kernel cannot be called"),
    ("inner name", module("{ .reg .b32 t; } mov.b32 r0, t;"), "'t'"),
    ("deep expression", module(f"mov.b32 r0, {'(' * 500}1;"), "nested too deeply"),
    ("deep scopes", module("{" * 500 + "}" * 500), "nested too deeply"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in BAD_MODULES], ids=[row[0] for row in BAD_MODULES])
def test_malformed_modules(text: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=re.escape(message)) as caught:
        parse(text, name="bad.ptx")
    assert str(caught.value).startswith("bad.ptx:")


OPAQUE = [
    ".global .texref x;",
    ".tex .u64 x;",
    ".global .surfref x[4];",
    ".global .samplerref x = { filter_mode = nearest, addr_mode_0 = wrap };",
]


@pytest.mark.parametrize("text", OPAQUE)
def test_textures_may_be_declared(text: str) -> None:
    assert parse(module("", before=text)).variables["x"].space is Space.GLOBAL


def test_a_texture_that_is_read_is_refused_there() -> None:
    found = kernel("tex.2d.v4.f32.f32 {f0, f1, f2, f3}, [x, {f4, f5}];", before=".global .texref x;" + GLOBALS)
    assert "textures" in found.instructions[0].attributes["reason"]


def test_aliases() -> None:
    before = ".func real() { trap; }\n.func other();\n.alias other, real;\n"
    functions = parse(module("call other;", before=before)).functions
    assert functions["other"].instructions == functions["real"].instructions
    assert not functions["other"].declared_only
    with pytest.raises(PtxSyntaxError, match=r"bad\.ptx:4:\d+: undefined function 'nothing'"):
        parse(module("", before=".alias other, nothing;"), name="bad.ptx")


TWO = (
    ".version 8.0\n.target sm_80\n.func deep() { ret; }\n.func used() { call deep; ret; }\n"
    ".func unused() { bananas everywhere; }\n.visible .entry one() { call used; ret; }\n"
    ".visible .entry two() { mov.b32 nonsense, 1; }\n"
)


def test_only_what_a_kernel_reaches_is_read() -> None:
    functions = parse(TWO, name="two.ptx", entry="one").functions
    assert {name for name, one in functions.items() if not one.declared_only} == {"one", "used", "deep"}
    assert parse(TWO, entry="one").entries == ("one", "two")
    right = TWO.replace("mov.b32 nonsense, 1;", "ret;")
    both = parse(right, entry=("one", "two", "none")).functions
    assert {name for name, one in both.items() if not one.declared_only} == {"one", "used", "deep", "two"}
    for entry in ("two", ""):
        with pytest.raises(PtxSyntaxError, match=r"two\.ptx:7:33: undefined register, variable or label 'nonsense'"):
            parse(TWO, name="two.ptx", entry=entry)


def test_a_kernel_that_cannot_be_read_spoils_no_other() -> None:
    found, refused = parse_each(TWO, name="two.ptx", entries=("two", "one"))
    assert {name for name, one in found.functions.items() if not one.declared_only} == {"one", "used", "deep"}
    assert list(refused) == ["two"] and "undefined register, variable or label 'nonsense'" in refused["two"].message
    with pytest.raises(PtxSyntaxError):
        parse_each(TWO.replace("mov.b32 nonsense, 1;", "} }"), name="two.ptx", entries=("one",))


def test_32_bit_addresses_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="32-bit addresses"):
        parse(module("").replace(".address_size 64", ".address_size 32"))


def test_parameters_have_offsets_and_limits_are_read() -> None:
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b,\n"
        ".param .align 8 .b8 c[12], .param .f32 d)\n"
        ".maxntid 128, 2\n.minnctapersm 2\n.noreturn\n{ ret; }\n"
    )
    found = parse(text).functions["k"]
    assert found.parameters == (
        PtxParameter("a", "u8", 1, 1, 0),
        PtxParameter("b", "u64", 8, 8, 8),
        PtxParameter("c", "b8", 12, 8, 16),
        PtxParameter("d", "f32", 4, 4, 28),
    )
    assert found.limits == {"maxntid": (128, 2, 1), "minnctapersm": (2,), "noreturn": ()}
    assert parse(text).entries == ("k",)


def registers_of(function: PtxFunction) -> list[str]:
    return [register.name for register in function.registers]


def test_scopes_rename_registers_and_labels_apart() -> None:
    found = kernel(
        "{ .reg .b32 t; mov.b32 t, 1; L: bra L; }\n"
        "{ .reg .f32 t; mov.f32 t, 0f00000000; { .reg .pred t; mov.pred t, 0; } L: bra L; bra END; }\n"
    )
    names = [item.operands[0] for item in found.instructions if item.op.startswith("mov")]
    assert names == [Register("t", "b32"), Register("t@2", "f32"), Register("t@3", "pred")]
    targets = [item.operands[0] for item in found.instructions if item.op == "bra"]
    assert targets == [Label("L"), Label("L@2"), Label("END")]
    assert found.labels == {"L": 1, "L@2": 4, "END": 6}
    assert len(set(registers_of(found))) == len(registers_of(found))


def test_inner_registers_hide_outer_ones() -> None:
    found = kernel("{ .reg .f32 r1; mov.f32 r1, f2; } mov.b32 r1, r2;")
    assert [item.operands[0] for item in found.instructions[:2]] == [Register("r1", "f32"), Register("r1@2", "b32")]


def test_ranges() -> None:
    found = kernel(".reg .b32 %x<12>, %y1<3>; mov.b32 %x11, %y12; mov.b32 %x0, %y10;")
    assert {"%x11", "%x0", "%y12", "%y10"} <= set(registers_of(found))
    for bad in ("%x12", "%x01", "%x", "%y13"):
        with pytest.raises(PtxSyntaxError, match="undefined"):
            kernel(f".reg .b32 %x<12>, %y1<3>; mov.b32 r0, {bad};")


def test_vector_registers() -> None:
    found = kernel(".reg .v4 .f32 v; ld.global.v4.f32 v, [d0]; mov.f32 f0, v.y; mov.f32 f1, v.b;")
    elements = tuple(Register(f"v.{axis}", "f32") for axis in "xyzw")
    assert found.instructions[0].operand("d") == Vector(elements)
    assert [item.operand("a") for item in found.instructions[1:3]] == [elements[1], elements[2]]


IMMEDIATES = [
    ("255", Immediate(255, "int")),
    ("0xFFFFFFFFFFFFFFFF", Immediate(2**64 - 1, "int")),
    ("0x10U", Immediate(16, "int")),
    ("017", Immediate(15, "int")),
    ("0b101", Immediate(5, "int")),
    ("-9223372036854775808", Immediate(-(2**63), "int")),
    ("~0", Immediate(-1, "int")),
    ("!3", Immediate(0, "int")),
    ("(2 + 3) * 4 - 7 % 4", Immediate(17, "int")),
    ("1 << 3 | 1", Immediate(9, "int")),
    ("-7 / 2", Immediate(-3, "int")),
    ("3 < 4 && 4 >= 5", Immediate(0, "int")),
    ("(.u64)-1", Immediate(2**64 - 1, "int")),
    ("WARP_SZ", Immediate(32, "int")),
    ("WARP_SZ - 1", Immediate(31, "int")),
    ("0d3FF0000000000000", Immediate(0x3FF0000000000000, "f64")),
    ("-0d3FF0000000000000", Immediate(0xBFF0000000000000, "f64")),
    ("1.5", Immediate(0x3FF8000000000000, "f64")),
    ("2e-1", Immediate(struct.unpack("<Q", struct.pack("<d", 0.2))[0], "f64")),
]


@pytest.mark.parametrize(("text", "expected"), IMMEDIATES, ids=[row[0] for row in IMMEDIATES])
def test_immediates(text: str, expected: Immediate) -> None:
    assert kernel(f"mov.b64 d0, {text};").instructions[0].operand("a") == expected


def test_f32_immediates() -> None:
    assert kernel("mov.f32 f0, 0F3f800000;").instructions[0].operand("a") == Immediate(0x3F800000, "f32")
    assert kernel("mov.b32 r0, -0f3f800000;").instructions[0].operand("a") == Immediate(0xBF800000, "f32")


ADDRESSES = [
    ("[d1]", Address(Register("d1", "b64"))),
    ("[r1+4]", Address(Register("r1", "b32"), 4)),
    ("[d1 + -8]", Address(Register("d1", "b64"), -8)),
    ("[d1-8]", Address(Register("d1", "b64"), -8)),
    ("[d1+4*3]", Address(Register("d1", "b64"), 12)),
    ("[smem]", Address("smem")),
    ("[smem+16]", Address("smem", 16)),
    ("[64]", Address(None, 64)),
    ("[0x10+4]", Address(None, 20)),
]


@pytest.mark.parametrize(("text", "expected"), ADDRESSES, ids=[row[0] for row in ADDRESSES])
def test_addresses(text: str, expected: Address) -> None:
    assert kernel(f"ld.shared.u32 r0, {text};").instructions[0].operand("addr") == expected


FUNCTIONS = """
.func (.param .b32 result) add_one(.param .b32 x, .param .align 4 .b8 s[12]);
.func (.reg .u32 out) by_register(.reg .u32 in) { add.u32 out, in, 1; ret; }
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.func nothing() .noreturn { trap; }
"""


def test_calls() -> None:
    found = kernel(
        "{ .reg .b32 temp; .param .b32 param0; st.param.b32 [param0+0], r1; .param .align 4 .b8 param1[12];\n"
        ".param .b32 retval0; call.uni (retval0), add_one, (param0, param1); ld.param.b32 r2, [retval0+0]; }\n"
        "{ .param .b32 param0; call (r3), by_register, (5); call nothing; }",
        before=GLOBALS + FUNCTIONS,
    )
    calls = [item for item in found.instructions if item.op == "call"]
    assert [item.operands for item in calls] == [
        (
            Vector((SymbolAddress("retval0"),)),
            SymbolAddress("add_one"),
            Vector((SymbolAddress("param0"), SymbolAddress("param1"))),
        ),
        (Vector((Register("r3", "b32"),)), SymbolAddress("by_register"), Vector((Immediate(5, "int"),))),
        (Vector(()), SymbolAddress("nothing"), Vector(())),
    ]
    assert [item.name for item in found.variables] == ["param0", "param1", "retval0", "param0@2"]
    assert found.instructions[0].operand("addr") == Address("param0")


def test_function_declarations() -> None:
    functions = parse(module("", before=GLOBALS + FUNCTIONS)).functions
    assert functions["vprintf"].declared_only
    assert not functions["by_register"].declared_only
    assert functions["by_register"].parameters == (Register("in", "u32"),)
    assert functions["add_one"].returns == (PtxParameter("result", "b32", 4, 4, 0),)


BAD_CALLS = [
    ("call add_one, (r1, r2);", "'add_one' has 1 results, the call 0"),
    ("call (r0), by_register, (r1, r2);", "'by_register' has 1 arguments, the call 2"),
    ("call (r0), by_register, (smem);", "is not a .param variable"),
    ("call (r0), by_register, ([r1]);", "a call takes registers"),
]


@pytest.mark.parametrize(("statement", "message"), BAD_CALLS, ids=[row[1] for row in BAD_CALLS])
def test_bad_calls(statement: str, message: str) -> None:
    with pytest.raises(PtxSyntaxError, match=re.escape(message)):
        kernel(statement, before=GLOBALS + FUNCTIONS)


def test_branch_tables() -> None:
    found = kernel("brx.idx.uni r0, TABLE; TABLE: .branchtargets A, B, A;\nA: trap; B: exit;")
    assert found.branch_targets == {"TABLE": ("A", "B", "A")}
    assert found.labels == {"A": 1, "B": 2, "END": 3}
    assert found.instructions[0].operand("targets") == Label("TABLE")


def test_shared_variables_of_a_function_are_its_own() -> None:
    found = kernel(".shared .align 2 .b8 tile[64]; .local .b32 depot[4]; st.shared.u16 [tile+2], h0;")
    assert [(item.name, item.space, item.size) for item in found.variables] == [
        ("tile", Space.SHARED, 64),
        ("depot", Space.LOCAL, 16),
    ]


def test_split_opcodes_and_comments() -> None:
    found = kernel("add // here\n .s32 /* and\n there */ r0, r1, r2; ; {}")
    assert found.instructions[0].text == "add.s32"
    assert found.instructions[0].op == "add.s32"


def test_guards() -> None:
    plain, negated = kernel("@p0 exit; @!p1 exit;").instructions[:2]
    assert plain.guard is not None
    assert negated.guard is not None
    assert (plain.guard.register.name, plain.guard.negated) == ("p0", False)
    assert (negated.guard.register.name, negated.guard.negated) == ("p1", True)
