"""Accesses that met without order: which lines name them, and whether pointers overlap instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.meeting import function_at, homes, ordered_by, sides, through_two_pointers, waiting
from wmmadiag.place import Place

SOURCE = b"""__device__ void put(float* to, float v) { to[threadIdx.x] = v; }
__device__ float step(float (*tile)[8], float v) {
    put(tile[0], v);
    float w = tile[0][7 - threadIdx.x];
    return w;
}
__global__ void k(float* out) {
    extern __shared__ char raw[];
    __shared__ float t[2][8];
    float* a = reinterpret_cast<float*>(raw);
    float* b = reinterpret_cast<float*>(raw + 16);
    float* part = a + 4;
    out[0] = step(t, 1.0f);
    out[1] = a[threadIdx.x];
    b[threadIdx.x] = 1.0f;
    part[threadIdx.x] = 2.0f;
}
"""


def at(line: int, function: str = "k(float*)", inside: Place | None = None) -> Place:
    return Place("k.cu", line, 1, function, inside)


def race(place: Place, other: Place | None) -> Finding:
    return Finding("races", "read-write", Level.ERROR, "", place, other)


STEP = at(13)
READ = at(4, "step(float (*)[8], float)", STEP)
WRITE = at(1, "put(float*, float)", at(3, "step(float (*)[8], float)", STEP))


def test_accesses_are_named_where_both_are_made_or_called_for() -> None:
    read, write = sides(race(READ, WRITE))
    assert (read.line, write.line) == (4, 3)
    assert homes([race(READ, WRITE)]) == {"step"}
    assert function_at({"k.cu": parse(SOURCE, "k.cu")}, "k.cu", SOURCE.index(b"float w")) == "step"
    assert [one.line for one in sides(race(READ, None))] == [4, 4]


def test_the_access_that_has_to_wait_is_told_from_the_one_before_the_change() -> None:
    assert waiting([race(at(15), at(16))], ("k.cu", 15), "k") == Place("k.cu", 16)
    # Of a loop that begins above, and what comes behind the loop.
    assert waiting([race(at(14), at(16)), race(at(14), at(13))], ("k.cu", 15), "k") == Place("k.cu", 13)
    # In `put`, which line 14 calls: line 14 is over before line 15 waits.
    assert waiting([race(at(14), at(15))], ("k.cu", 1), "put") == Place("k.cu", 15)
    assert waiting([], ("k.cu", 1), "put") is None
    helper = Place("k.cu", 9, 5, inlined_at=Place("k.cu", 40, 9))
    assert waiting([race(Place("k.cu", 31), helper)], ("k.cu", 32), "k") == Place("k.cu", 40)
    assert waiting([race(Place("k.cu", 31), helper)], ("k.cu", 40), "k") == Place("k.cu", 31)  # the other one of both
    assert waiting([race(helper, Place("k.cu", 31))], ("k.cu", 35), "k") == Place("k.cu", 40)


def test_what_a_changed_run_still_has_is_not_put_in_order() -> None:
    unset = Finding("uninitialised", "output", Level.ERROR, "", at(14), at(15))
    first: Any = SimpleNamespace(findings=[unset, race(READ, WRITE)])
    kept: Any = SimpleNamespace(findings=[race(READ, WRITE)])
    mended: Any = SimpleNamespace(findings=[])
    assert ordered_by(first, [mended]) == [race(READ, WRITE)]
    assert ordered_by(first, [mended, kept]) == []


def test_pointers_into_one_memory_may_overlap() -> None:
    sources = {"k.cu": parse(SOURCE, "k.cu")}
    assert through_two_pointers([race(at(14), at(15))], sources)  # a and b, both of raw
    assert not through_two_pointers([race(at(14), at(16))], sources)  # part is a part of a
    assert not through_two_pointers([race(READ, WRITE)], sources)  # one array
    assert not through_two_pointers([race(at(14), None)], sources)
