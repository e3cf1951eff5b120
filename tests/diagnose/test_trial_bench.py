"""Changes tried on a case: what each does to the wrong elements, whatever else is in the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trial_changes import change, edit, product

from wmmadiag.compile.nvrtc import NvrtcResult, run_nvrtc
from wmmadiag.diagnose.changes import Change, TextEdit, Texts
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Tried, helpful_at_once
from wmmadiag.diagnose.trials import programs
from wmmadiag.diagnose.trials.outcomes import LaunchChange, Outcome
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.subject.card import Card


def bench_of(card: Card, threads: int = 0) -> TrialBench:
    return TrialBench(Setting(card, card.variants[0], card.cases[0]), threads)


def words(outcomes: list[Outcome]) -> list[str]:
    return [one.verdict for one in outcomes]


def test_the_change_that_mends_is_right_among_many_that_do_not(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + col")))
    texts = bench.texts
    tried = [
        change(edit(texts, "i * k + col", new)) for new in ("i * m + col", "i * n + col", "i + col", "i * k + row")
    ]
    tried.append(change(edit(texts, "i * k", "i * n")))
    found = bench.try_batch(tried)
    assert words(found) == ["same", "right", "same", "same", "right"]
    assert [one.wrong_after for one in found] == [None, 0, None, None, 0]
    assert bench.wrong_before
    assert bench.compilations <= 2  # as it is, and one for all of them


def test_better_is_some_mended_and_none_broken(tmp_path: Path) -> None:
    # Two faults: one column of each tile is not stored, and a row of the grid's second row of tiles is.
    card = product(
        tmp_path, ("c[at(row, n, col)] = sum;", "if (threadIdx.x < 7 && row != 9) c[at(row, n, col)] = sum;")
    )
    bench = bench_of(card)
    texts = bench.texts
    tried = [
        change(edit(texts, "threadIdx.x < 7", "threadIdx.x < 8")),
        change(edit(texts, "row != 9", "row != 99")),
        change(edit(texts, "row != 9", "row != 10")),
        change(edit(texts, "threadIdx.x < 7 && row != 9", "true")),
    ]
    found = bench.try_batch(tried, looks=0)
    assert words(found) == ["better", "better", "worse", "right"]
    columns, row = 16 * 3, 24 - 3
    assert bench.wrong_before == columns + row
    assert [one.wrong_after for one in found] == [24, columns, columns + row, 0]
    assert (found[0].mended, found[0].broken) == (columns - 3, 0)
    kept = bench.keeping(tried[0])
    assert kept.wrong_before == 24
    assert words(kept.try_batch([change(edit(kept.texts, "row != 9", "row != 99"))])) == ["right"]


def test_what_dies_or_never_ends_is_a_cheap_no(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + col")))
    texts = bench.texts
    found = bench.try_batch(
        [
            change(edit(texts, "row * k + i", "row * k + i + (1 << 28)")),
            change(edit(texts, "++i", "i += 0")),
            change(edit(texts, "__syncthreads();", "if (k > 0) __trap();"), kind="statement"),
        ]
    )
    assert words(found) == ["fault", "budget", "fault"]
    assert [one.reason for one in found] == ["out-of-bounds", "", "trap"]
    assert all(0 < one.work < 200_000 for one in found)


def test_a_kernel_that_dies_may_get_better_by_ending(tmp_path: Path) -> None:
    card = product(tmp_path, ("c[at(", "if (k != 9) __trap();\n    c[at("), ("i * n", "i * (k == 9 ? m : n)"))
    bench = bench_of(card)
    texts = bench.texts
    assert bench.wrong_before is None
    ended = edit(texts, "k != 9", "k != 8")
    tried = [change(ended), change(ended, edit(texts, "k == 9", "k == 8")), change(edit(texts, "k != 9", "k != 10"))]
    assert words(bench.try_batch(tried)) == ["right", "better", "fault"]


def test_fewer_accesses_outside_are_better_where_the_kernel_dies_of_them(tmp_path: Path) -> None:
    """Two arrays are read behind their ends in the last rounds of a loop: what is read there is nought, and counted."""
    card = product(tmp_path, ("i < k; ++i", "i < k + 2; ++i"))
    texts = bench_of(card).texts
    first, second = (edit(texts, old, f"(i < k ? {old} : 0.0f)") for old in ("a[row * k + i]", "b[i * n + col]"))
    bench = bench_of(card)
    assert bench.strays_before > 0
    found = bench.try_batch([change(first), change(second), change(first, second)], looks=0)
    assert words(found) == ["better", "better", "right"]
    assert found[0].astray > 0 and found[1].astray > 0 and found[2].astray == 1.0
    assert helpful_at_once([Tried(Ranked(one.change, ("product.cu", 1), 0.0), one) for one in found])
    kept = bench.keeping(change(first))
    assert 0 < kept.strays_before < bench.strays_before


def test_what_hardly_spoils_anything_is_followed_at_once() -> None:
    """Elements that another mistake makes wrong may be right by chance: those below nought behind a ReLU."""
    made = change(TextEdit("k.cu", 0, 0, ";"))

    def followed(mended: int, broken: int) -> bool:
        outcome = Outcome(made, "worse", 1000, 1000 - mended + broken, mended, broken, 1000 - mended + broken)
        return bool(helpful_at_once([Tried(Ranked(made, ("k.cu", 1), 0.0), outcome)]))

    assert followed(740, 18) and not followed(740, 190) and not followed(100, 2)


def test_statements_are_removed_replaced_moved_and_inserted(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("float sum = 0.0f;", "float sum;\n    sum = 1.0f;")))
    texts = bench.texts
    moved = change(
        edit(texts, "c[at(row, n, col)] = sum;", ""), edit(texts, "^float sum;", "c[0] = 0.0f;"), kind="statement"
    )
    found = bench.try_batch(
        [
            change(edit(texts, "sum = 1.0f;", "sum = 0.0f;"), kind="statement"),
            change(edit(texts, "sum = 1.0f;", "{ sum = 2.0f; }"), kind="statement"),
            change(edit(texts, "sum = 1.0f;$", "sum -= 1.0f; // as text"), kind="insertion"),
            moved,
        ],
        looks=0,
    )
    assert words(found) == ["right", "same", "right", "same"]
    assert found[3].wrong_after == bench.wrong_before


def test_an_exchange_is_one_change_of_two_places(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("at(row, n, col)", "at(row, col, n)")))
    texts = bench.texts
    first = edit(texts, "row, col, n", "")
    exchange = change(
        TextEdit(first.file, first.start + 5, first.start + 8, "n"),
        TextEdit(first.file, first.start + 10, first.start + 11, "col"),
    )
    assert words(bench.try_batch([exchange])) == ["right"]


def test_what_the_compiler_refuses_is_told_apart_from_its_neighbours(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + col")))
    texts = bench.texts
    names = ["no_such_name", "n", "part", "sum", "a"]
    found = bench.try_batch([change(edit(texts, "i * k", f"i * {name}")) for name in names])
    assert words(found) == ["refused", "right", "refused", "refused", "refused"]
    assert "no_such_name" in found[0].reason


def test_a_name_that_is_unknown_in_many_places_takes_few_compilations(tmp_path: Path) -> None:
    """The compiler says it once; what hangs on it downstream is no reason to refuse."""
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + col")))
    texts = bench.texts
    places = ["blockIdx.y * TILE", "blockIdx.x * TILE", "row * k", "i * k"]
    tried = [change(edit(texts, old, f"({old} / no_such_name)")) for old in places]
    tried += [change(edit(texts, "i * k", "i * n")), change(edit(texts, "row * k + i", "(row * k + i + 1)"))]
    bench.settle()
    before = bench.compilations
    found = bench.try_batch(tried)
    assert words(found) == ["refused"] * 4 + ["right", "same"]
    assert all("no_such_name" in one.reason for one in found[:4])
    assert bench.compilations - before <= 3


def test_what_is_no_change_of_the_text_is_refused_alone(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + col")))
    right = edit(bench.texts, "i * k", "i * n")
    inner = TextEdit(right.file, right.end - 1, right.end, "n")
    found = bench.try_batch(
        [change(TextEdit("other.cu", 0, 1, "x")), change(right, inner), change(right), change(inner, inner), change()]
    )
    assert words(found) == ["refused", "refused", "right", "refused", "refused"]


def test_what_needs_a_constant_is_compiled_alone(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("part[TILE][TILE]", "part[TILE][TILE - 1]")))
    texts = bench.texts
    found = bench.try_batch(
        [
            change(edit(texts, "TILE - 1", "TILE")),
            change(edit(texts, "k + i", "k + 2 * i")),
            change(edit(texts, "TILE - 1", "TILE + 4"), kind="static"),
            change(edit(texts, "float sum", "half sum"), kind="static"),
        ]
    )
    assert words(found)[0] == words(found)[2] == "right"
    assert words(found)[1] != "refused" and words(found)[3] == "refused"


def test_macros_and_headers_of_the_users_are_changed_too(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("(y) * SCALE", "(y) - SCALE"), ("#define SCALE 1", "#define SCALE 0")))
    assert bench.wrong_before == 0
    wrong = bench_of(product(tmp_path, ("(x) + (y)", "(x) - (y)")))
    texts = wrong.texts
    header = next(name for name in texts if name.endswith("tile.h"))
    found = wrong.try_batch(
        [
            change(edit(texts, "(x) - (y) * SCALE", "(x) + (y) * SCALE")),
            change(edit(texts, "(x) - (y) * SCALE", "(x) + undefined_name")),
            change(edit(texts, "row * pitch + col", "row * pitch + row", file=header)),
            change(edit(texts, "#define SCALE 1", "#define SCALE -1"), kind="static"),
        ]
    )
    assert words(found) == ["right", "refused", "same", "right"]


def test_nested_changes_are_each_made_alone(tmp_path: Path) -> None:
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + row")))
    texts = bench.texts
    found = bench.try_batch(
        [
            change(edit(texts, "row", "col", nth=3)),
            change(edit(texts, "i * k + row", "i * n + col")),
            change(edit(texts, "part[threadIdx.y][threadIdx.x] = a[row * k + i] * b[i * k + row];",
                        "part[threadIdx.y][threadIdx.x] = a[row * k + i] * b[i * n + col];"), kind="statement"),
            change(edit(texts, "i * k", "i * n")),
        ]
    )  # fmt: skip
    assert words(found) == ["same", "right", "right", "better"]


def test_another_launch_is_tried_like_a_change(tmp_path: Path) -> None:
    card = product(tmp_path, ('grid = ["N/8", "M/8"]', 'grid = ["N/8", "1"]'))
    bench = bench_of(card)
    shape = card.launch
    own = type(shape)
    launches = [
        LaunchChange(own((*shape.grid[:1], text), shape.block, shape.shared, shape.place), text)
        for text in ("M/8", "2*M/8", "0", "1")
    ]
    found = bench.try_launches(launches)
    assert words(found) == ["right", "fault", "refused", "same"]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_no_answer_depends_on_the_number_of_threads(tmp_path: Path, threads: int) -> None:
    card = product(tmp_path, ("i * n + col", "i * k + col"))
    found = bench_of(card, threads=threads).try_batch(many(bench_of(card)))
    assert found == bench_of(card, threads=3).try_batch(many(bench_of(card)))


def many(bench: TrialBench) -> list[Change]:
    texts = bench.texts
    return [
        change(edit(texts, old, f"({old}) {tail}"))
        for old in ("row * k + i", "i * k + col", "threadIdx.y", "row", "col")
        for tail in ("+ 1", "* 2", "- 1", "/ 2", "% 7", "+ (1 << 27)")
    ]


def test_elements_that_several_blocks_write_are_judged_at_the_end(tmp_path: Path) -> None:
    """Split along k: blocks add their parts in turn."""
    card = product(
        tmp_path,
        ("c[at(row, n, col)] = sum;", "atomicAdd(&c[at(row, n, col)], sum);"),
        ("for (int i = 0; i < k; ++i)", "for (int i = blockIdx.z; i < k; i += 3)"),
        ('grid = ["N/8", "M/8"]', 'grid = ["N/8", "M/8", 2]'),
        ('direction = "out" }', 'direction = "out", initial = "zero" }'),
    )
    bench = bench_of(card)
    assert bench.wrong_before
    texts = bench.texts
    found = bench.try_batch(
        [
            change(edit(texts, "i += 3", "i += 2")),
            change(edit(texts, "blockIdx.z", "0")),
            change(edit(texts, "i += 3", "i += gridDim.z")),
        ]
    )
    assert words(found) == ["right", "worse", "right"] or words(found) == ["right", "same", "right"]
    # The blocks of one part of the product are run together, and the others are not where these are no better.
    assert found[1].wrong_after is None and 0 < found[1].left < bench.wrong_before


@pytest.mark.slow
def test_the_work_that_a_kernel_without_end_needs_is_learnt_from_what_ends(tmp_path: Path) -> None:
    """The kernel loops for ever; one change makes it end soon, one late, others never."""
    bench = bench_of(product(tmp_path, ("++i", "i += 0"), ("int i = 0; i < k;", "int i = 0; i != k;")))
    texts = bench.texts
    assert bench.wrong_before is None and bench.reference.end == "budget"
    news = ("1", "2", "-1", "3", "(i < 0)")
    found = bench.try_batch([change(edit(texts, "0", new, nth=nth_of(texts, "i += 0", "0"))) for new in news])
    assert words(found) == ["right", "better", "fault", "fault", "budget"]
    assert max(one.work for one in found) < 3_000_000


def test_what_ends_late_is_not_taken_for_endless(tmp_path: Path) -> None:
    """A kernel that dies at the end of much work: the right change needs more than the first stages allow."""
    slow = "float sum = 0.0f;\n    for (int n0 = 0; n0 < 40000; ++n0) if (clock() == n0) sum += 1.0f;"
    bench = bench_of(product(tmp_path, ("float sum = 0.0f;", slow), ("c[at(", "if (k < 99) __trap();\n    c[at(")))
    assert bench.wrong_before is None
    found = bench.try_batch([change(edit(bench.texts, "k < 99", f"k < {new}")) for new in ("0", "1", "98")])
    assert words(found)[0] == "right" and found[0].work > 1 << 21
    assert words(found)[2] == "fault"


def nth_of(texts: Texts, around: str, old: str) -> int:
    """Which occurrence of `old` is the one in `around`."""
    text = next(iter(texts.values())).decode()
    return text[: text.index(around) + around.index(old)].count(old)


def test_a_compiler_that_fails_in_haste_compiles_as_for_the_users_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # NVRTC 13.5 ends `__dp4a` with "unsupported operation" where it may take no time.
    def unhurried(text: bytes, name: str, options: list[str], **more: Any) -> NvrtcResult:
        if any(one.startswith("--Ofast-compile") for one in options):
            return NvrtcResult(False, f"{name}(3) Error: unsupported operation", status="NVRTC_ERROR_COMPILATION")
        return run_nvrtc(text, name, options, **more)

    monkeypatch.setattr(programs, "run_nvrtc", unhurried)
    bench = bench_of(product(tmp_path, ("i * n + col", "i * k + col")), threads=1)
    assert words(bench.try_batch([change(edit(bench.texts, "i * k + col", "i * n + col"))])) == ["right"]


def test_what_a_template_of_a_library_refuses_is_who_asked_for_it(tmp_path: Path) -> None:
    """Its message is about the library's own line; without the place behind that the program would be halved."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "only.h").write_text(
        "#pragma once\ntemplate <class T> struct Is { static const bool whole = false; };\n"
        "template <> struct Is<int> { static const bool whole = true; };\n"
        'template <class T> __device__ T only(T x) { static_assert(Is<T>::whole, "no whole number"); return x; }\n',
        "utf-8",
    )
    card = product(
        tmp_path,
        ('#include "tile.h"', '#include "tile.h"\n#include <only.h>'),
        ("i * n + col", "only(i * k) + col"),
        ('source = "product.cu"', 'source = "product.cu"\ninclude_paths = ["library"]'),
    )
    bench = bench_of(card)
    texts = bench.texts
    bad = [change(edit(texts, "only(i * k)", f"only({new} * k)")) for new in ("i * 1.0f", "i * 2.0")]
    good = [change(edit(texts, "i * k", new)) for new in ("i * n", "i + n", "k * n", "i * m", "m * k", "n * n")]
    bench.settle()
    before = bench.compilations
    found = bench.try_batch([*bad, *good])
    assert words(found)[:3] == ["refused", "refused", "right"] and "refused" not in words(found)[3:]
    assert [one.reason for one in found[:2]] == 2 * [found[0].reason] and "no whole number" in found[0].reason
    assert bench.compilations - before <= 3
