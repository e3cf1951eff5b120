"""What checks complain of with each change of a program with alternatives."""

from __future__ import annotations

from pathlib import Path

from trial_changes import UNORDERED, product

from wmmadiag.checks.registry import native_names, select
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.subject.card import Card

CHECKS = native_names(one for one in select("default") if one.raw)


def bench_of(folder: Path, stored: str) -> tuple[TrialBench, Card]:
    card = product(folder, ("c[at(row, n, col)] = sum;", stored))
    return TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=1), card


def put_in(card: Card, before: str, text: str) -> Change:
    at = card.source.read_bytes().index(before.encode())
    return Change("put_in", (TextEdit(str(card.source), at, at, text),), "insertion", "", "")


def test_a_barrier_takes_complaints_away_and_what_is_idle_takes_none(tmp_path: Path) -> None:
    bench, card = bench_of(tmp_path, UNORDERED)
    barrier, idle = (
        put_in(card, "sum += 0.0f * again", "__syncthreads(); "),
        put_in(card, "again[place] =", "sum += 0; "),
    )
    assert bench.complaints_left([barrier, idle], (), CHECKS) == {barrier: 0.5, idle: 1.0}


def test_two_at_once_are_asked_about_where_one_of_them_brings_another_complaint(tmp_path: Path) -> None:
    bench, card = bench_of(tmp_path, UNORDERED)
    first = put_in(card, "sum += 0.0f * staged", "__syncthreads(); ")  # behind it the second warp may run first,
    second = put_in(card, "sum += 0.0f * again", "__syncthreads(); ")  # and read here what nothing has written
    assert bench.complaints_left([first], (), CHECKS) == {first: 1.0}
    assert list(bench.complaints_left((), [(first, second)], CHECKS).values()) == [0.0]


def test_nothing_is_known_where_the_engine_complains_of_nothing(tmp_path: Path) -> None:
    bench, card = bench_of(tmp_path, "c[at(row, n, col)] = sum;")
    assert bench.complaints_left([put_in(card, "c[at(row", "__syncthreads(); ")], (), CHECKS) == {}
