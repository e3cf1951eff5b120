"""What a change adds at a use, added at the declaration: which texts come of it."""

from __future__ import annotations

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, Kind, TextEdit, applied
from wmmadiag.diagnose.where_made import where_made

TEXT = b"""void other(float s) { float s2 = s; int n = 3; }
void k(float* out, int n, float s) {
    const int both = n + 1;
    int first = n > 2 ? n : 2;
    out[both + first] = (float)both / s;
    first = 0;
}
"""


def texts(old: bytes, new: str, kind: Kind = "expression") -> list[str]:
    at = TEXT.rindex(old)
    change = Change("test", (TextEdit("k.cu", at, at + len(old), new),), kind, "value", "more")
    made = where_made({"k.cu": parse(TEXT, "k.cu")}, change)
    lines = TEXT.decode().splitlines()
    return [
        line.strip()
        for one in made
        for line, before in zip(applied({"k.cu": TEXT}, [one])["k.cu"].decode().splitlines(), lines, strict=True)
        if line != before
    ]


def test_what_is_added_to_a_value_is_added_where_it_is_made() -> None:
    assert texts(b"(float)both", "(float)(both - n)") == ["const int both = n + 1 - n;"]
    assert texts(b"both + first", "both + first + n") == [
        "const int both = n + 1 + n;",
        "int first = (n > 2 ? n : 2) + n;",
    ]
    assert texts(b"both", "both * n") == ["const int both = (n + 1) * n;"]


def test_what_is_replaced_or_has_no_declaration_is_left() -> None:
    assert texts(b"both + first", "both + n") == []
    assert texts(b"s", "s * 2.0f") == []
    assert texts(b"n + 1", "n + 1 - s") == []  # another function's n
    assert texts(b"both", "both * n", "static") == []


INVERSE = b"""void k(float* out, float s) {
    const float keep = 1.f - s;
    const float one_over = 1.0f / s;
    const float given = s;
    out[0] = out[1] * keep;
    out[2] = out[3] / one_over;
    out[4] = out[5] * given;
}
"""


def inverse(old: bytes, new: str) -> list[str]:
    at = INVERSE.index(old)
    change = Change("test", (TextEdit("k.cu", at, at + len(old), new),), "expression", "value", "more")
    return [one.edits[0].text for one in where_made({"k.cu": parse(INVERSE, "k.cu")}, change)]


def test_a_division_for_a_product_is_the_inverse_of_what_is_made() -> None:
    assert inverse(b"out[1] * keep", "out[1] / keep") == ["1.0f / (1.f - s)"]
    assert inverse(b"out[3] / one_over", "out[3] * one_over") == ["s"]
    assert inverse(b"out[5] * given", "out[5] / given") == ["1.0f / s"]
    assert inverse(b"* given", "/ given") == ["1.0f / s"]
    assert inverse(b"out[1] * keep", "out[1] / s") == []  # another name besides
    assert inverse(b"out[1] * keep", "out[1] - keep") == []
