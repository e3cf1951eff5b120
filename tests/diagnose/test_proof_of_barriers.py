"""Barriers and waits that mend: which of them is the answer, and how often each is met."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.confirm import Confirmed, _done
from wmmadiag.diagnose.meeting import function_at
from wmmadiag.diagnose.proof import (
    also_in,
    moves_what_is_put_in,
    waits_apart,
)
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.place import Place


def test_a_barrier_moved_is_no_other_answer_than_one_put_in() -> None:
    text = b"__syncthreads();\nfill();\n__syncwarp();\nread();\n"
    sources = {"k.cu": parse(text, "k.cu")}

    def change(*edits: tuple[bytes, str], kind: str = "statement", role: str = "barrier") -> Change:
        made = tuple(TextEdit("k.cu", at := text.index(old), at + (0 if new else len(old)), new) for old, new in edits)
        return Change("test", made, kind, role, "")  # type: ignore[arg-type]

    put_in = change((b"__syncwarp", "__syncthreads();\n"), kind="insertion")
    moved = change((b"__syncthreads();", ""), (b"read", "__syncthreads();\n"))
    assert moves_what_is_put_in(sources, moved, put_in)
    others = [
        change((b"__syncwarp();", ""), (b"read", "__syncwarp();\n")),  # another one
        change((b"fill();", ""), (b"read", "fill();\n"), role="statement"),
        change((b"__syncthreads();", "")),
        change((b"fill();", ""), (b"read", "__syncthreads();\n")),
    ]
    assert not any(moves_what_is_put_in(sources, one, put_in) for one in others)
    assert not moves_what_is_put_in(sources, moved, moved)


def test_a_barrier_in_a_function_waits_as_often_as_it_is_called() -> None:
    text = b"""__device__ void once() { int a; }
__device__ void twice() { int c; }
__device__ void inner() { int b; }
__device__ void often() { inner(); }
__global__ void k() { once(); twice(); twice(); for (int i = 0; i < 2; ++i) { often(); while (i < 1) inner(); } }
"""
    sources = {"k.cu": parse(text, "k.cu")}
    places = ("int a", "int b", "int c", "once();")
    found = {name: _done(sources, "k.cu", text.index(name.encode()), 4) for name in places}
    assert found == {"int a": 1, "int b": 16 + 16 * 16, "int c": 2, "once();": 1}


def test_a_barrier_in_a_lambda_waits_as_often_as_that_is_called() -> None:
    text = b"""__global__ void k(int n) {
    auto put = [&](int where) { for (int j = 0; j < 4; ++j) { int a; } int b; };
    put(0);
    for (int i = 0; i < n; ++i) { put(i); int c; }
    [] { int d; }();
}
"""
    sources = {"k.cu": parse(text, "k.cu")}
    found = {
        name: _done(sources, "k.cu", text.index(name.encode()), 4) for name in ("int a", "int b", "int c", "int d")
    }
    assert found == {"int a": 16 * 17, "int b": 17, "int c": 16, "int d": 1}
    assert function_at(sources, "k.cu", text.index(b"int b")) == "put"
    assert function_at(sources, "k.cu", text.index(b"int d")) == "k"


def test_a_wait_in_what_is_called_for_one_of_two_accesses_is_perhaps_the_callers() -> None:
    text = (
        b"__device__ void put(float* s) { *s = 1; }\n__global__ void k(float* s) {\n    put(s);\n    s[1] = s[0];\n}\n"
    )
    sources = {"k.cu": parse(text, "k.cu")}
    caller = Place("k.cu", 3, 1, "k(float*)")
    race = Finding(
        "races",
        "read-write",
        Level.ERROR,
        "",
        Place("k.cu", 1, 1, "put(float*)", caller),
        Place("k.cu", 4, 1, "k(float*)"),
    )
    first: Any = SimpleNamespace(findings=[race])

    def before(piece: bytes) -> Change:
        at = text.index(piece)
        return Change("made", (TextEdit("k.cu", at, at, "__syncthreads();"),), "insertion", "barrier", "")

    assert waits_apart(sources, first, before(b"*s = 1")) == "k"
    assert waits_apart(sources, first, before(b"put(s);")) == ""


BARRIERS = b"""__device__ void first(float* s) { s[1] = 1; }
__global__ void k(float* s) {
    first(s);
    s[2] = s[1];
    s[3] = s[2];
}
"""


@pytest.mark.parametrize(
    ("places", "where"),
    [([b"s[2] =", b"s[3] ="], ""), ([b"s[2] =", b"s[1] = 1"], "first"), ([b"s[1] = 1", b"s[2] ="], "k")],
)
def test_order_that_another_function_makes_as_well_is_perhaps_its_own(places: list[bytes], where: str) -> None:
    sources = {"k.cu": parse(BARRIERS, "k.cu")}
    made = [TextEdit("k.cu", at, at, "__syncthreads();") for at in map(BARRIERS.index, places)]
    best, other = (Change("barrier_more", (one,), "insertion", "barrier", "") for one in made)
    tried = [Tried(Ranked(one, ("k.cu", 1), 0.0), Outcome(one, "right", 1)) for one in (best, other)]
    assert also_in(sources, Confirmed(tried[0], {}, (), 0.0, (tried[1],))) == where
