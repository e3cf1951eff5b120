"""Random programs say what ptxas assembles as the PTX ISA says."""

from __future__ import annotations

import re

import pytest

from wmmadiag.fidelity.compare import emulated
from wmmadiag.fidelity.programs import PROGRAMS, program_case

GUARDED_SET = re.compile(r"@!?%p\d set\.")
SHIFT = re.compile(r"\bsh[lr]\.[bus]64 %\w+, %\w+, (%\w+);")
SAME_TYPE = re.compile(r"\bcvt\.(f16|f32|f64)\.\1 ")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [program_case(number).ptx for number in range(PROGRAMS)]


@pytest.mark.slow
def test_no_guard_stands_before_a_set(texts: list[str]) -> None:
    assert not [number for number, text in enumerate(texts) if GUARDED_SET.search(text)]
    assert any("mov.b32 %r7, %w; }" in text for text in texts)  # the guard copies what it wrote


def test_the_amount_of_a_64_bit_shift_is_an_integers_result(texts: list[str]) -> None:
    amounts = {amount for text in texts for amount in SHIFT.findall(text)}
    assert amounts == {"%w"}


def test_no_conversion_of_a_type_to_itself(texts: list[str]) -> None:
    assert not [number for number, text in enumerate(texts) if SAME_TYPE.search(text)]


def test_what_an_assembler_made_of_a_guarded_set_shows() -> None:
    """Program 74 as ptxas 13 had it: with these operands two outputs came out otherwise on a GPU."""
    case = program_case(74, 7)
    right = "{ .reg .b32 %w; set.gt.u32.f16 %w, %h0, %h1; @!%p2 mov.b32 %r7, %w; }"
    extended = " { .reg .b16 %u; cvt.u16.u32 %u, %r7; cvt.s32.s16 %r7, %u; }"
    assert right in case.ptx
    wrong = case.ptx.replace(right, right + extended)
    ours, theirs = (case.run(emulated(text, "k", "sm_90"))["registers"] for text in (case.ptx, wrong))
    places = list(zip(*(ours != theirs).nonzero(), strict=True))
    found = [(case.rows[row], int(ours[row, lane]), int(theirs[row, lane])) for row, lane in places]
    assert found == [("r0", 0x10, 0x20010), ("r7", 0x8, 0x10008)]
