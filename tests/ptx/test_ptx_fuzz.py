"""Malformed PTX gives an error for the user, never another exception, and in bounded time."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ptx_text import module

from wmmadiag.compile.driver import entries_of
from wmmadiag.compile.ptx_scan import emulated_target
from wmmadiag.errors import PtxSyntaxError, UnsupportedError
from wmmadiag.ptx import dump, parse
from wmmadiag.ptx.lexer import tokenize
from wmmadiag.ptx.listing import instruction_text

BOUNDED = settings(
    max_examples=150,
    deadline=timedelta(seconds=3),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
TOKENS = st.sampled_from(
    [
        *"{}()[]<>,;:@!|=+-*/%&^~?_.\\\0é",
        *("<<", ">>", "/*", "//", '"x"', "L:", "$L__BB0_1", "%r1", "%rd99", "%tid.x", "WARP_SZ", "generic("),
        *("0f00000000", "0d0", "1.5", "0xFFFFFFFFFFFFFFFFF", "08", "-1"),
        *(
            ".reg",
            ".b32",
            ".pred",
            ".param",
            ".loc",
            ".section",
            ".file",
            ".v4",
            ".align",
            ".global",
            ".func",
            ".entry",
        ),
        *(".branchtargets", ".callprototype", "call", "bra", "brx.idx", "ret", "mov.b32", "add.cc.u32"),
        *("wgmma.fence", "mma.sync"),
    ]
)


def accepted_or_refused(text: str) -> None:
    try:
        dump(parse(text, name="fuzz.ptx"))
    except (PtxSyntaxError, UnsupportedError) as error:
        assert error.message
        assert error.place is not None


@st.composite
def mutations(draw: st.DrawFn, text: str) -> str:
    """The text with a few spans deleted, repeated, truncated or replaced by tokens."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        what = draw(st.sampled_from(["delete", "repeat", "truncate", "replace", "insert"]))
        if what == "delete":
            text = text[:start] + text[end:]
        elif what == "repeat":
            text = text[:end] + text[start:end] + text[end:]
        elif what == "truncate":
            text = text[:start]
        else:
            token = " ".join(draw(st.lists(TOKENS, min_size=1, max_size=5)))
            text = text[:start] + f" {token} " + text[end if what == "replace" else start :]
    return text


@pytest.mark.parametrize(("name", "arch", "option"), [("nested", "90", "-lineinfo"), ("inline_asm", "80", "-G")])
def test_mutated_compiler_output(kernel_ptx: Callable[..., str], name: str, arch: str, option: str) -> None:
    text = kernel_ptx(name, arch, option)
    # Debug sections are skipped whole; the rest is where mistakes matter.
    body = re.sub(r"\.section\s+\.debug_(?!str)[^}]*\}", "", text)

    @BOUNDED
    @given(mutations(body))
    def run(mutated: str) -> None:
        accepted_or_refused(mutated)

    run()


@pytest.mark.parametrize("name", ["triton_softmax", "warp_affine", "assembled"])
def test_mutated_output_of_other_compilers(name: str) -> None:
    text = (Path(__file__).parent / "dialects" / f"{name}.ptx").read_text()

    @BOUNDED
    @given(mutations(text))
    def run(mutated: str) -> None:
        accepted_or_refused(mutated)

    run()


@BOUNDED
@given(st.lists(TOKENS, max_size=60), st.booleans())
def test_random_tokens(tokens: list[str], inside: bool) -> None:
    text = " ".join(tokens)
    accepted_or_refused(module(text) if inside else f".version 9.0\n.target sm_90\n{text}")


@BOUNDED
@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    accepted_or_refused(text)
    accepted_or_refused(module(text))


PATHOLOGICAL = [
    ("many comments", "/*" * 20000),
    ("many brackets", module("mov.b32 r0, " + "(" * 20000)),
    ("many minuses", module("mov.b32 r0, " + "-" * 20000 + "1;")),
    ("many questions", module("mov.b32 r0, " + "1 ? 1 : " * 20000 + "1;")),
    ("many braces", module("{" * 20000)),
    ("many closing braces", module("}" * 20000)),
    ("nested initialiser", module("", before=".global .u8 x" + "[1]" * 5000 + " = " + "{" * 5000)),
    ("huge range", module(".reg .b32 %z<1000000000>; mov.b32 r0, %z999999999;")),
    ("long number", module("mov.b32 r0, " + "9" * 100000 + ";")),
    ("long hexadecimal", module("mov.b32 r0, 0x" + "f" * 100000 + ";")),
    ("long name", module("mov.b32 r0, " + "x1" * 50000 + ";")),
    ("many modifiers", module("add" + ".s32" * 20000 + " r0, r1, r2;")),
    ("huge initialiser", module("", before=".global .u8 x[1000000000000] = {1};")),
    ("huge dimensions", module("", before=".global .u8 x" + "[1000000]" * 9 + ";")),
    ("shift", module("mov.b32 r0, 1 << 1000000000000;")),
    # Texts on which a pattern that looks ahead from each place would take quadratic time.
    ("many lines", ".version 8.0\n.target sm_80\n" + "\n" * 2_000_000 + "x"),
    ("many sections", module("") + ".section x {" * 200_000),
    ("many open sections", module("") + ".section x\n" * 200_000),
    ("many entries", ".version 8.0\n.target sm_80\n" + ".visible .entry a(" * 100_000),
    ("many linkages", ".version 8.0\n.target sm_80\n" + ".visible " * 200_000),
    ("many functions", ".version 8.0\n.target sm_80\n" + ".func (" * 200_000),
    ("many quotes", module("") + '\\"' * 500_000),
    ("many files", module("") + '.file 1 "a' * 200_000),
    ("many locations", module(".loc 1 2 " * 200_000)),
    ("many strings", module("") + ".section .debug_str {" + "L: .b8 65\n" * 20_000 + "}"),
    ("many calls", module("", before="".join(f".func f{n}() {{ call f{n - 1 if n else 0}; }}\n" for n in range(3000)))),
    ("a long name", module("mov.b32 r0, x" + "1" * 500_000 + ";")),
]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", [row[1] for row in PATHOLOGICAL], ids=[row[0] for row in PATHOLOGICAL])
def test_pathological(text: str) -> None:
    accepted_or_refused(text)
    entries_of(text, {})
    emulated_target(text)


def test_printed_instructions_parse_to_themselves(kernel_ptx: Callable[..., str]) -> None:
    """Round trip: what `instruction_text` prints is the same instruction, wherever names are not renamed apart."""
    function = parse(kernel_ptx("wmma_all", "90", "-lineinfo")).functions["f16"]
    declarations = "\n".join(f".reg .{item.type} {item.name};" for item in function.registers)
    parameters = ", ".join(f".param .{item.type} {item.name}" for item in function.parameters)
    body = "\n".join(f"{instruction_text(item)};" for item in function.instructions)
    text = f".version 9.0\n.target sm_90\n.visible .entry f16({parameters}) {{\n{declarations}\n{body}\n}}\n"
    again = parse(text).functions["f16"]
    keys = [(item.op, dict(item.attributes), item.operands, item.specs, item.guard) for item in function.instructions]
    assert [(i.op, dict(i.attributes), i.operands, i.specs, i.guard) for i in again.instructions] == keys


@BOUNDED
@given(
    st.lists(
        st.sampled_from(["add.s32", "%r1", "%tid.x", ".reg", "L:", "0f3F800000", "17", "1.5", "<<", "{", '"s"']),
        min_size=1,
    )
)
def test_tokens_survive_any_spacing(tokens: list[str]) -> None:
    expected = [*tokens, ""]
    for space in (" ", "\n", "\t// note\n", " /* a\n b */ "):
        found = tokenize(space.join(tokens))
        assert list(found.text) == expected
    lines = tokenize("\n".join(tokens)).line
    assert list(lines[:-1]) == list(range(1, len(tokens) + 1))
