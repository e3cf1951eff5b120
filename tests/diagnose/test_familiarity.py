"""How familiar the text around a change is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.familiarity import Familiarity

SOURCE = """__global__ void k(float* a, float* b, int lda, int ldb, int r, int c) {
    a[r * lda + c] = 0; // b[r * lda + c]
    a[r * lda + 1] = 1;
    b[r * ldb + 1] = 1;
    b[r * lda + c] = 0;
}
"""


def of(old: str, new: str) -> tuple[int, int]:
    start = SOURCE.index(old) + len(old) - len(old.lstrip())
    known = Familiarity({"k.cu": parse(SOURCE, "k.cu")})
    return known.of(TextEdit("k.cu", start, start + len(old.strip()), new))


def test_what_stands_elsewhere_is_familiar_and_what_does_not_is_not() -> None:
    assert of("ldb", "lda") == (0, 4)  # `r * ldb` is nowhere else, `r * lda` is
    assert of("a[r * lda + c", "a[r * ldb + c") == (4, 2)  # `ldb + c` is nowhere


def test_what_a_change_takes_away_does_not_make_itself_familiar() -> None:
    assert of("ldb", "ldz") == (0, 0)


def test_comments_are_no_code() -> None:
    assert Familiarity({"k.cu": parse("// a b c d\nint x;", "k.cu")}).of(TextEdit("k.cu", 0, 0, "a b c d"))[1] == 0


@given(st.integers(0, len(SOURCE.encode())), st.text(alphabet="abr*+[]01 ", max_size=12))
def test_familiarity_is_in_quarters(at: int, text: str) -> None:
    gone, come = Familiarity({"k.cu": parse(SOURCE, "k.cu")}).of(TextEdit("k.cu", at, at, text))
    assert 0 <= gone <= 4 and 0 <= come <= 4


def words(old: str, new: str) -> list[str]:
    start = SOURCE.index(old)
    known = Familiarity({"k.cu": parse(SOURCE, "k.cu")})
    return list(known.words(TextEdit("k.cu", start, start + len(old), new)))


def test_a_name_is_told_by_its_parts_and_where_it_stands() -> None:
    assert words("ldb +", "lda +") == [
        "shape:known to known", "token:name to name", "name here:False", "name uses:3", "name parts:0 of 2",
        "name again:2",
    ]  # fmt: skip
    assert "name here:True" in words("b[r * ldb", "b[ldb * ldb")


def test_a_number_and_a_sign_are_told_by_what_becomes_of_them() -> None:
    more = ["shape:known to known", "token:number to number", "number:one more"]
    assert words("1] = 1;\n    b", "2] = 1;\n    b") == more
    assert words("* ldb", "/ ldb") == ["shape:known to new", "token:* to /"]


def counting(*edits: tuple[str, str]) -> list[str]:
    text = "f(a[0], a[1], a[2]); g(b[0], b[2], b[1]); h(1, 2);"
    known = Familiarity({"k.cu": parse(text, "k.cu")})
    places = [(text.index(old), old, new) for old, new in edits]
    return list(known.counting([TextEdit("k.cu", at, at + len(old), new) for at, old, new in places]))


def test_numbers_that_count_up_are_told() -> None:
    assert counting(("a[1], a[2]", "a[2], a[1]")) == ["counting:less"]
    assert counting(("b[2]", "b[1]"), ("b[1]", "b[2]")) == ["counting:further"]
    assert counting(("a[0]", "c[0]")) == []
    assert counting(("a[2]", "a[3]"), ("h(1", "h(0")) == []  # of two statements
