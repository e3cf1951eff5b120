"""Changes in macros and in what they are given: each program of them compiles, and messages name the changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.compile.nvrtc import ENDED, NvrtcResult
from wmmadiag.compile.options import CompileOptions
from wmmadiag.csource.edits import applied
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.operators.registry import changes
from wmmadiag.diagnose.trials import programs
from wmmadiag.diagnose.trials.prepared import Prepared, prepare
from wmmadiag.diagnose.trials.programs import Programs
from wmmadiag.diagnose.trials.schemata import directives, render

SOURCE = """#define COMMIT() asm volatile("cp.async.commit_group;\\n" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;\\n" :: "n"(n) : "memory")
#define ADDED(to, one, other) asm volatile("add.u32 %0, %1, %2;\\n" : "=r"(to) : "r"(one), "r"(other))

template <class T> __device__ void put(T* to, const T* from) { *to = *from; }

extern "C" __global__ void k(unsigned* out, const unsigned* a, int n) {
    unsigned sum = n, other = n, parts[2][2];
    parts[0][1] = n;
    COMMIT();
    WAIT(1 + 0);
    ADDED(sum,
          a[threadIdx.x],
          parts[0][n % 2]);
    put(
        out + threadIdx.x,
        a + sum + other);
}
"""


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    path = tmp_path / "k.cu"
    path.write_text(SOURCE, "utf-8")
    return prepare(path, CompileOptions(arch="sm_90"), ["k"])


def change(prepared: Prepared, old: str, new: str, *, after: str = "{") -> Change:
    text = prepared.texts[prepared.root]
    at = text.index(old.encode(), text.index(after.encode()))
    return Change("test", (TextEdit(prepared.root, at, at + len(old), new),), "expression", "value", f"{new} for {old}")


def test_a_statement_that_is_all_of_a_macro_ends_where_the_macro_does(prepared: Prepared) -> None:
    text = prepared.texts[prepared.root]
    ends = {end for _, end in directives(text)}
    listed = [one for one in changes(prepared.sources, "k") if one.edits[0].start < text.index(b"template")]
    whole = [one for one in listed if one.kind == "statement" and not one.edits[0].text]
    assert {one.edits[0].end for one in whole} == ends
    made = applied(text, render(prepared.texts, whole).edits[prepared.root])
    assert made.count(b"\n#define") == 2  # each begins a line
    batch = Programs(prepared).batch(whole)
    assert not batch.singles and not batch.refused


def test_what_a_macro_gives_to_assembly_as_output_or_immediate_is_no_choice(prepared: Prepared) -> None:
    text = prepared.texts[prepared.root]

    def kinds(old: str) -> set[str]:
        at = text.index(old.encode(), text.index(b"COMMIT();"))
        edits = (at, at + len(old))
        return {
            one.kind for one in changes(prepared.sources, "k")
            if len(one.edits) == 1 and (one.edits[0].start, one.edits[0].end) == edits and one.edits[0].text
        }  # fmt: skip

    assert kinds("1 + 0") <= {"static"} and kinds("sum") == {"static"}
    assert "expression" in kinds("a[threadIdx.x]") and "expression" in kinds("n % 2")


def test_an_alternative_in_a_macros_argument_is_named_by_its_number(prepared: Prepared) -> None:
    good = [change(prepared, "n % 2", "(n + 1) % 2"), change(prepared, "threadIdx.x", "blockIdx.x", after="ADDED(sum")]
    bad = change(prepared, "parts[0]", "parts", after="a[threadIdx.x]")
    held = Programs(prepared)
    held.plain()
    before = held.compilations
    batch = held.batch([*good, bad])
    assert [list(one.changes.values()) for one in batch.programs] == [sorted(good, key=lambda one: one.edits[0].start)]
    assert [one for one, _ in batch.refused] + batch.singles == [bad] and held.compilations == before + 2


def test_a_call_that_nothing_matches_names_what_it_is_given(prepared: Prepared) -> None:
    good = [change(prepared, "n % 2", str(one)) for one in range(9)]
    bad = change(prepared, "out + threadIdx.x", "a", after="put(\n")
    held = Programs(prepared)
    held.plain()
    before = held.compilations
    batch = held.batch([*good, bad])
    assert batch.singles == [bad] and [len(one.changes) for one in batch.programs] == [9]
    assert held.compilations == before + 2


def test_what_the_compiler_dies_of_in_haste_is_compiled_without(
    prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    compiled = programs.run_nvrtc

    def run(text, name, options, **named):
        asked.append(programs._FAST in options)
        if asked[-1]:
            return NvrtcResult(False, "", status=f"{ENDED} with signal SIGSEGV")
        return compiled(text, name, options, **named)

    monkeypatch.setattr(programs, "run_nvrtc", run)
    assert Programs(prepared).plain().kernels
    assert asked == [True, False]
