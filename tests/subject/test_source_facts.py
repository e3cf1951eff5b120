"""Constants that launch expressions refer to, found in the text of a source."""

from __future__ import annotations

import pytest

from wmmadiag.subject.drafts.source_facts import constants


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("constexpr int BM = 64;", {"BM": "64"}, id="one"),
        pytest.param("constexpr int Br = 16, Bc = 32, d = 64;", {"Br": "16", "Bc": "32", "d": "64"}, id="several"),
        pytest.param("static const unsigned int N = f(1, 2), M = N * 2;", {"N": "f(1, 2)", "M": "N * 2"}, id="calls"),
        pytest.param("#define TILE 16 // rows\n#define W (TILE * 2)", {"TILE": "16", "W": "(TILE * 2)"}, id="macros"),
        pytest.param("enum { A = 1, B = A + 1 };", {"A": "1", "B": "A + 1"}, id="enum"),
        pytest.param("const int X = 1; void f() { const int X = 2; }", {}, id="two-values"),
    ],
)
def test_constants(text: str, expected: dict[str, str]) -> None:
    assert constants(text) == expected
