"""Changes tried in several processes: the same answers, whoever tries what, however long it takes, whoever dies."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from trial_changes import integer_changes, product

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.trials import parts, team
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.setting import Setting
from wmmadiag.diagnose.trials.team import Part
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.processes.apart import Copy
from wmmadiag.subject.card import Card

pytestmark = pytest.mark.subprocess


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Card:
    monkeypatch.setattr(parts, "BATCH", 16)  # several parts
    return product(tmp_path, ("i * n + col", "i * k + col"))


def bench_of(card: Card, threads: int) -> TrialBench:
    return TrialBench(Setting(card, card.variants[0], card.cases[0]), threads=threads)


def many(bench: TrialBench) -> list[Change]:
    every = [one for seed in range(16) for one in integer_changes(bench.texts, seed, 24)]
    return list(dict.fromkeys(every))


def test_answers_do_not_depend_on_who_tries_what_or_when(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, shared = bench_of(card, 1), bench_of(card, 2)
    tried = many(alone)
    expected = alone.try_batch(tried)
    assert len({one.verdict for one in expected}) > 1
    assert shared.try_batch(tried) == expected
    whole = TrialBench.try_part
    asked = Copy.ask

    def late(self: TrialBench, part: Part) -> list[Outcome]:
        time.sleep(random.random() / 4)
        return whole(self, part)

    def later(self: Copy, part: object) -> object:
        time.sleep(random.random() / 4)
        return asked(self, part)

    monkeypatch.setattr(TrialBench, "try_part", late)
    monkeypatch.setattr(Copy, "ask", later)
    assert bench_of(card, 2).try_batch(tried) == expected
    assert bench_of(card, 4).try_batch(tried) == expected


@pytest.mark.slow
def test_what_a_child_leaves_undone_is_done_here(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(card, 2)
    tried = many(bench)
    expected = bench_of(card, 1).try_batch(tried)
    asked = Copy.ask
    ended: list[Part] = []

    def dies(self: Copy, part: object) -> object:
        if isinstance(part, Part):  # not what a compiler's copy is asked
            self.begin()
            os.kill(self._process, signal.SIGKILL)
            ended.append(part)
        return asked(self, part)

    whole = TrialBench.try_part

    def waits(self: TrialBench, part: Part) -> list[Outcome]:
        while not ended:
            time.sleep(0.01)
        return whole(self, part)

    monkeypatch.setattr(Copy, "ask", dies)
    monkeypatch.setattr(TrialBench, "try_part", waits)
    assert bench.try_batch(tried) == expected


@pytest.mark.slow
def test_without_a_child_this_process_does_all(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(card, 2)
    tried = many(bench)
    expected = bench_of(card, 1).try_batch(tried)

    def refused() -> int:
        raise BlockingIOError("no more processes")

    team.stop()
    monkeypatch.setattr(os, "fork", refused)
    assert bench.try_batch(tried) == expected
