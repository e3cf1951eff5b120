"""How familiar the text around a change is."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.familiarity import Familiarity

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from seeded_edits import seeded  # noqa: E402 - not a package

SOURCE = """__global__ void k(float* a, float* b, int lda, int ldb, int r, int c) {
    a[r * lda + c] = 0; // b[r * lda + c]
    a[r * lda + 1] = 1;
    b[r * ldb + 1] = 1;
    b[r * lda + c] = 0;
}
"""
KERNEL = (ROOT / "kernels" / "gemm" / "kernel.cu").read_text("utf-8")


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


@given(st.integers(0, 10_000))
def test_a_random_edit_changes_one_place_down_to_the_kernels_end(seed: int) -> None:
    made = seeded(KERNEL, "gemm_wmma", random.Random(seed))
    if made is None:
        return
    old, new = KERNEL.split("\n"), made.text.split("\n")
    changed = [at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]]
    assert changed[0] + 1 >= made.line and made.text != KERNEL
    head = next(at for at, line in enumerate(old) if re.search(r"\bgemm_wmma\b\s*\(", line))
    end = next(at for at in range(head, len(old)) if old[at].startswith("}"))
    assert changed[0] <= end
    assert made.text == seeded(KERNEL, "gemm_wmma", random.Random(seed)).text  # type: ignore[union-attr]
