"""Findings as text: grouped by cause, folded when many, never wider than a terminal."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.results.finding_lines import FULL, SHORT, finding_lines
from wmmadiag.results.model import ReportedFinding

ONE = ReportedFinding(
    "races", "read-write", "error", "this line reads s, line 7 writes; no barrier orders them", "k.cu:9:5", "k.cu:7:5",
    3, ("first seen at s[5]: block (0, 0, 0), warp 1, lane 2, and warp 0, lane 3",), "put __syncthreads() between",
)  # fmt: skip


def test_one_in_full():
    text = "\n".join(finding_lines([ONE]))
    for part in ("error [races]: k.cu:9:5", "(3 times)", "and k.cu:7:5", "s[5]", "next: put __syncthreads()"):
        assert part in text
    assert all(len(line) <= 80 for line in text.split("\n"))


def test_many_are_folded_unless_verbose():
    many = [replace(ONE, place=f"k.cu:{n}:1") for n in range(20)]
    text = "\n".join(finding_lines(many))
    assert text.count("error [races]") == SHORT and text.count("next:") == FULL
    assert f"({20 - SHORT} more error findings of races" in text
    assert "\n".join(finding_lines(many, verbose=True)).count("next:") == 20


def test_advice_is_one_line_and_stands_where_it_was_given():
    text = "\n".join(finding_lines([ONE, replace(ONE, level="advice", check="banks")]))
    assert text.index("error [races]") < text.index("advice [banks]")
    assert text.count("next:") == 1
