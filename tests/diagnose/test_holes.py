"""Holes: what fills one at run time does what its text does, whatever else is in the program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from trial_changes import product

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.effort import EFFORTS
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.operators.slots import Blank, alike, places
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Ledger
from wmmadiag.diagnose.sketching import Sketches
from wmmadiag.diagnose.trials.holes import ALONE, AND, OPERATORS, Filled, Filling, Hole, Sketch, render, selector
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.report.terminal_diagnosis import work_line
from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.subject.card import Card
from wmmadiag.subject.card_files.read import load_card


def bench_of(card: Card, threads: int = 1) -> TrialBench:
    return TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=threads)


def places_of(bench: TrialBench, card: Card) -> list[Blank]:
    return list(places(program(bench.texts, card.entry)))


def changed(place: Blank, filling: tuple[int, int, int]) -> Change:
    draft = place.draft(filling)
    return Change("filled", draft.edits, draft.kind, draft.role, draft.note)


def test_a_hole_in_a_hole_keeps_what_stands_there() -> None:
    text = b"int f(int a, int b) { return (a + b) * 2; }"
    outer, inner = text.index(b"(a + b) * 2"), text.index(b"a + b")
    holes = {
        0: ((Hole("k.cu", outer, outer + 11, ("(a + b) * 2", "a", "b")),), [1, 2]),
        1: ((Hole("k.cu", inner, inner + 5, ("a + b", "b")),), [1]),
    }
    made = render({"k.cu": text}, holes)
    [edit] = made.edits["k.cu"]
    assert (edit.start, edit.end) == (outer, outer + 11)
    assert edit.text.count("filled<decltype((") == 2 and edit.text.rstrip(")").endswith("* 2")
    lines = edit.text.split("\n")
    assert {(lines[line - 1][:7], place) for (_, line), place in made.own.items()} == {
        ("case 1:", (0, 1)), ("case 2:", (0, 2)), ("case 1:", (1, 1)),
    }  # fmt: skip
    assert [hole for _, _, _, hole in made.around] == [0, 1]


def test_a_selector_holds_a_hole_an_operator_and_two_slots() -> None:
    assert selector(0, (3, 5, 7)) == 3 | 5 << 5 | 7 << 14 | 1 << 23
    assert selector(510, (31, 511, 511)) < 1 << 32


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("i * n + col", "i * k + col", marks=pytest.mark.slow),
        pytest.param("y * TILE + threadIdx.y", "y * TILE + threadIdx.x", marks=(pytest.mark.slow, pytest.mark.rest)),
        ("i < k", "i < k - 1"),
    ],
)
def test_what_fills_a_hole_does_what_its_text_does(tmp_path: Path, old: str, new: str) -> None:
    card = product(tmp_path, (old, new))
    bench = bench_of(card)
    alone = places_of(bench, card)
    # Those of the mistake, and every third of the others.
    several = [one for at, one in enumerate((*alone, *alike(alone))) if at % 3 == 0 or one.expression.text in new]
    some = [(place, sample(place, tier)) for place in several for tier in place.tiers()]
    assert any(len(place.holes) > 1 for place, _ in some)
    groups = [some[at : at + 24] for at in range(0, len(some), 24)]
    sketches = [Sketch(tuple(one.holes for one, _ in group), tuple(held for _, held in group)) for group in groups]
    answers = bench.try_sketches(sketches)
    told = {
        changed(group[hole][0], filling): outcome.verdict
        for group, answer in zip(groups, answers, strict=True)
        for hole, filling, outcome in answer.told
    }
    tried = bench.try_batch([changed(place, filling) for place, fillings in some for filling in fillings])
    compared = [one for one in tried if one.verdict != "refused"]
    assert len(compared) > 100 and sum(answer.count for answer in answers) > 100 and "right" in told.values()
    for one in compared:
        assert isinstance(one.change, Change)
        assert (told.get(one.change) or one.verdict) == one.verdict and (one.change in told) == one.tells, one


def sample(place: Blank, tier: list[Filling]) -> tuple[Filling, ...]:
    """Some fillings of a tier, without quotients by what may be nought: they are undefined."""
    sizes = {at for at, slot in enumerate(place.slots) if slot.text in ("n", "m", "k", "TILE", "2", "8")}
    divides = {OPERATORS["/"], OPERATORS["%"]}
    some = [one for one in tier if one[0] not in divides or one[2] in sizes]
    alone = [one for one in some if one[0] == ALONE]
    few = some[:: max(1, len(tier) // 4)]
    return tuple(dict.fromkeys((*alone, *few))) if len(place.holes) == 1 else tuple(few)


@pytest.mark.slow
def test_two_processes_fill_as_one_does(tmp_path: Path) -> None:
    card = product(tmp_path, ("i * n + col", "i * k + col"))
    alone, shared = bench_of(card), bench_of(card, threads=2)
    sketches = [Sketch((one.holes,), (tuple(next(iter(one.tiers()))),)) for one in places_of(alone, card)[:12]]
    assert alone.try_sketches(sketches) == shared.try_sketches(sketches)


class _Bench:
    """Takes sketches down; nothing mends."""

    def __init__(self) -> None:
        self.sketches: list[Sketch] = []

    def try_sketches(self, sketches: list[Sketch]) -> list[Filled]:
        self.sketches += sketches
        return [Filled(sum(map(len, one.fillings)), 100, []) for one in sketches]


def test_the_likeliest_places_are_filled_first_and_no_more_than_the_effort_allows(tmp_path: Path) -> None:
    card = product(tmp_path)
    texts = bench_of(card).texts
    held = program(texts, card.entry)
    some = {one.expression.text: one for one in places(held)}
    likely, unlikely = some["row * k + i"], some["i * n + col"]

    def ranked(place: Blank, score: float) -> Ranked:
        return Ranked(changed(place, next(iter(place.tiers()))[0]), ("", 1), score)

    bench, ledger = _Bench(), Ledger(replace(EFFORTS["normal"], filled=60))
    sketches = Sketches(cast(Any, bench), held, {}, [ranked(unlikely, 0.0), ranked(likely, 5.0)])
    assert sketches.tried(ledger, lambda _: None, 0.1) == []
    assert bench.sketches  # it, and what it is a part of
    assert all(hole.start <= likely.holes[0].start < hole.end for one in bench.sketches for [hole] in one.holes)
    sketches.tried(ledger, lambda _: None, 1.0)
    filled = {hole.start for one in bench.sketches for held in one.holes for hole in held}
    assert some["blockIdx.x * TILE + threadIdx.x"].holes[0].start not in filled
    before = ledger.filled
    assert before >= 60 and sketches.tried(ledger, lambda _: None, 1.0) == [] and ledger.filled == before


def test_a_condition_takes_a_comparison_more(tmp_path: Path) -> None:
    card = product(tmp_path)
    place = next(one for one in places_of(bench_of(card), card) if one.expression.text == "i < k")
    filling = (OPERATORS["<"] + AND, 1, 2)
    [edit] = changed(place, filling).edits
    first, second = place.slots[1].text, place.slots[2].text
    assert edit.text == f"{place.slots[0].text} && {first} < {second}"


def test_what_no_operator_makes_is_found_by_filling(tmp_path: Path) -> None:
    # A size for a product of sizes, which only a name has.
    found = diagnosis_of(
        tmp_path, "y[i] = x[i] / float(rounds * int(blockDim.x) * 4);", "x / x.size, 1e-6 * x / x.size"
    )
    [cause] = found.causes
    assert cause.place.endswith("scale.cu:3") and cause.fix is not None and cause.verdict == "likely"
    assert "float(n)" in cause.fix.diff
    assert found.work.filled > 0 and f"{found.work.filled:,} times something else in a place" in work_line(found)


@pytest.mark.slow
def test_what_is_missing_at_two_places_of_one_form_is_filled_in_at_both(tmp_path: Path) -> None:
    found = diagnosis_of(
        tmp_path,
        "{ float low = (x[i] + 1.0f) * 3.0f; float high = (x[i] + 2.0f) * 3.0f;"
        " y[i] = low * high + (n < 0 ? shift : 0.0f); }",  # something reads it
        "9 * (x + 1 - 5) * (x + 2 - 5), 1e-3 * (1 + x * x)",
    )
    [cause] = found.causes
    assert cause.fix is not None and cause.verdict == "likely" and found.work.filled > 0
    assert cause.fix.diff.count("- shift") == 2


def filled_in(body: str, old: str) -> set[str]:
    """What fills a place of a kernel, alone."""
    text = f"__global__ void k(const float* x, float* y, int n, float beta) {{ int l = threadIdx.x; {body} }}"
    found = [one for one in places(program({"k.cu": text.encode()}, "k")) if one.expression.text == old]
    return {slot.text for one in found[:1] for slot in one.slots[1:]}


def test_other_bits_of_a_lanes_number_fill_a_place_that_takes_some_of_it() -> None:
    assert {"l >> 3 & 1", "l & 3", "l >> 2"} <= filled_in("y[l] = x[(l >> 4) * 8 + l];", "l >> 4")
    assert {"l / 8 % 2", "l % 4", "l / 4"} <= filled_in("y[l] = x[l / 16 * 8 + l];", "l / 16")
    assert not {"l / 8 % 2", "l / 4"} & filled_in("y[l] = x[n / 64 * 8 + l];", "n / 64")


def test_what_nothing_reads_multiplies_what_is_assigned_to() -> None:
    assert "beta * y[l]" in filled_in("float s = x[l]; y[l] = s;", "s")
    assert "beta * y[l]" not in filled_in("float s = x[l] * beta; y[l] = s;", "s")


def test_the_same_place_before_a_loop_and_in_it_is_filled_alike() -> None:
    text = """__global__ void k(const float* x, float* y, int n) {
        float r[2]; int a = threadIdx.x, b = n;
        r[0] = fmaxf(x[a], x[b + 1]);
        for (int i = 0; i < n; ++i) { int c = i; y[i] = r[0]; r[0] = fmaxf(x[c], x[b + 1]); }
    }"""
    some = list(places(program({"k.cu": text.encode()}, "k")))
    assert any(
        [one.expression.text, *(other.text for other in one.others)] == ["b + 1", "b + 1"] for one in alike(some)
    )


def diagnosis_of(folder: Path, statement: str, expected: str) -> Diagnosis:
    """The diagnosis of a kernel of one statement that should make an expected value of `x` with a bound."""
    source = folder / "scale.cu"
    source.write_text(
        "__global__ void scale(const float* x, float* y, int n, int rounds, float shift) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n) {statement}\n"
        "}\n"
    )
    (folder / "reference.py").write_text(
        f"def scaled(inputs, symbols):\n    x = inputs['x']\n    return {{'y': ({expected})}}\n"
    )
    card = folder / "scale.toml"
    card.write_text(
        'format = 1\nname = "scale"\nsource = "scale.cu"\nentry = "scale"\ninputs = "positive"\n'
        '[computes]\npython = "reference.py:scaled"\n'
        '[[arguments]]\nrole = "x"\ndtype = "f32"\nshape = ["N"]\ndirection = "in"\n'
        '[[arguments]]\nrole = "y"\ndtype = "f32"\nshape = ["N"]\ndirection = "out"\n'
        '[[arguments]]\nname = "n"\ndtype = "s32"\nvalue = "N"\n'
        '[[arguments]]\nname = "rounds"\ndtype = "s32"\nvalue = "ceil_div(N, 64)"\n'
        '[[arguments]]\nname = "shift"\ndtype = "f32"\nvalue = "5"\n'
        '[launch]\ngrid = "ceil_div(N, 64)"\nblock = 64\n'
        "[[cases]]\nN = 100\n[[cases]]\nN = 250\n"
    )
    return diagnose_card(load_card(card), threads=1)
