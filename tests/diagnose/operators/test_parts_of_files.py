"""Which parts of files may be changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.places import program

FILE = "k.cu"
WHOLE = program({FILE: b"__global__ void k(float* x, int n) { x[n + 1] = x[n] * 2; }"}, "k")
SPANS = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda one: (FILE, one[0], one[0] + one[1]))


@given(st.lists(SPANS, max_size=6), st.integers(0, 60), st.integers(0, 10))
def test_what_touches_a_part_may_be_changed(ranges: list[tuple[str, int, int]], start: int, length: int) -> None:
    held = WHOLE.only(tuple(ranges))
    end = start + length
    touches = any(first <= end and start <= last for _, first, last in ranges)
    assert held.may_change([TextEdit(FILE, start, end, "")]) == touches
    assert not held.may_change([TextEdit("other.cuh", start, end, "")])
    inside = [one for one in WHOLE.all_expressions() if any(a < one.end and one.start < b for _, a, b in ranges)]
    assert held.expressions == inside
    assert WHOLE.expressions == WHOLE.all_expressions()  # what is asked of a part alters nothing of the whole
