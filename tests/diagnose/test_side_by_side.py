"""The first access that two versions of a kernel do not share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from trial_changes import OF_TWICE

from wmmadiag import emulator
from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.options import CompileOptions
from wmmadiag.diagnose.causes import ended
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.sidebyside import Difference, first_difference, of_two_ends
from wmmadiag.place import Place
from wmmadiag.results.model import Problem
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.binding import bind
from wmmadiag.subject.card_files.read import load_card

KERNELS = Path(__file__).parents[2] / "kernels"
SOURCE = """__global__ void twice(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t] * 2.0f;
}
"""


def difference(tmp_path: Path, old: str, new: str) -> Difference | None:
    return between(tmp_path, SOURCE.replace(old, new), SOURCE)


def between(tmp_path: Path, broken: str, mended: str) -> Difference | None:
    (tmp_path / "k.toml").write_text(OF_TWICE, "utf-8")
    (tmp_path / "k.cu").write_text(SOURCE, "utf-8")
    card = load_card(tmp_path / "k.toml")
    assert broken != mended
    kernels = []
    for text in (broken, mended):
        made = compile_text(text, str(card.source), CompileOptions(arch="sm_90"))
        kernels.append(emulator.load(made.ptx, made.entry("twice").name, arch="sm_90"))
    case, variant = card.cases[0], card.variants[0]
    return first_difference(
        lambda: bind(card, case, variant), kernels[0], kernels[1], {str(card.source): (broken, mended)}, [0]
    )


def test_another_element_is_read(tmp_path: Path) -> None:
    found = difference(tmp_path, "x[t]", "x[t ^ 32]")
    assert found is not None and (found.what, found.place.line, found.space) == ("access", 4, "global")
    assert found.sentence() == "warp 0 of block 0 reads x[1,0..31] where the changed kernel reads x[0,0..31]"


def test_lanes_that_are_exchanged_are_told_by_the_first_of_them(tmp_path: Path) -> None:
    found = difference(tmp_path, "= x[t]", "= x[t ^ 8]")
    assert found is not None and found.what == "access"
    told = "warp 0 of block 0 reads x[0,8] by lane 0 where the changed kernel reads x[0,0] by it"
    assert found.sentence() == told


def test_shared_arrays_that_lie_elsewhere_are_no_difference(tmp_path: Path) -> None:
    store, read = "    s[t] = x[t];\n", "    y[t] = s[63 - t] * 2.0f;\n"
    mended = SOURCE.replace(store, f"    __shared__ float first[64];\n    first[t] = t;\n{store}")
    mended = mended.replace(read, f"{read}    y[t] += first[63 - t];\n")
    found = between(tmp_path, SOURCE, mended)
    assert found is not None and found.what == "executed"  # and not what line 4 stores, wherever that lies


def test_another_element_of_shared_memory_is_written(tmp_path: Path) -> None:
    found = difference(tmp_path, "s[t] = ", "s[63 - t] = ")
    assert found is not None and (found.what, found.place.line, found.store) == ("access", 4, True)
    assert "writes s[32..63] where the changed kernel writes s[0..31]" in found.sentence()


def test_a_read_in_place_of_a_write_is_called_one(tmp_path: Path) -> None:
    found = difference(tmp_path, "s[t] = x[t];", "s[t] = t < 0 ? x[t] : 0.0f;")
    assert found is not None and (found.what, found.place.line, found.store) == ("access", 4, True)
    assert found.sentence() == "warp 0 of block 0 writes s[0..31] where the changed kernel reads x[0,0..31]"


def test_an_access_that_only_one_makes(tmp_path: Path) -> None:
    found = difference(tmp_path, "    y[t] = ", "    if (t < 32) y[t] = ")
    assert found is not None and (found.what, found.place.line) == ("executed", 6)
    assert "warp 1 of block 0 does not" in found.sentence() and "the changed kernel does" in found.sentence()


def test_a_barrier_that_only_one_waits_at(tmp_path: Path) -> None:
    found = difference(tmp_path, "    __syncthreads();\n", "")
    assert found is not None and found.what == "barrier"
    assert "not at all here; in the changed kernel" in found.sentence()


def test_values_alone_are_no_difference(tmp_path: Path) -> None:
    assert difference(tmp_path, "2.0f", "3.0f") is None


@pytest.mark.parametrize("line", ["    int t = threadIdx.x;\n"])
def test_lines_that_moved_are_the_same_lines(tmp_path: Path, line: str) -> None:
    assert difference(tmp_path, line, f"\n\n// moved\n{line}") is None


@pytest.mark.parametrize(
    ("what", "space", "pieces", "two"),
    [("access", "shared", 2, True), ("access", "shared", 1, False), ("access", "global", 2, False),
     ("barrier", "", 2, False)],
)  # fmt: skip
def test_what_several_pieces_move_in_shared_memory_has_another_end(
    what: str, space: str, pieces: int, two: bool
) -> None:
    change = Change("made", (TextEdit("k.cu", 0, 1, "x"),) * pieces, "expression", "index", "")
    assert of_two_ends(change, Difference(what, Place("k.cu", 1), 0, 0, "a", "b", space)) is two
    assert not of_two_ends(change, None)


def test_what_a_run_never_came_to_is_told_by_what_ended_it() -> None:
    far = "block (0, 0, 0)\n196 bytes past the end of z (108 bytes)"
    problem = Problem("out-of-bounds", "read of 4 bytes out of bounds of global memory at 0x7f00", detail=far)

    def told(what: str, before: str, problem: Problem | None = problem, compilation: object = "ptx") -> str:
        run = SimpleNamespace(result=SimpleNamespace(problem=problem), compilation=compilation)
        return ended(cast(CaseRun, run), Difference(what, Place("k.cu", 4), 0, 3, before, "x[0..3]"))

    assert told("executed", "") == "read of 4 bytes out of bounds of global memory, 196 bytes past the end of z"
    assert not told("access", "x[4..7]") and not told("executed", "x[0]")  # the runs differ before that
    assert not told("executed", "", problem=None) and not told("executed", "", compilation=None)


def test_a_run_that_an_access_ends_is_compared_as_far_as_it_came(tmp_path: Path) -> None:
    # What the broken kernel would have done after it, a barrier and a store, is no difference.
    broken = SOURCE.replace("s[t] = x[t];", "s[t] = x[t] + s[t + 4096 * (t > 60)];")
    found = between(tmp_path, broken, SOURCE.replace("s[t] = x[t];", "s[t] = x[t] + s[t ^ 1] * 0.0f;"))
    assert found is not None
    assert (found.what, found.place.line, found.space) == ("access", 4, "shared"), found
    ahead = SOURCE.replace("s[t] = x[t];", "if (t > 60) y[t + 999999] = 1.0f;\n    s[t] = x[t];")
    other = between(tmp_path, ahead, SOURCE.replace("s[t] = x[t];", "\n    s[t] = x[t];"))
    assert other is None or (other.what == "executed" and other.after == ""), other
