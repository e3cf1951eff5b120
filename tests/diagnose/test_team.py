"""Changes tried in several processes: the same answers, whoever tries what, however long it takes, whoever dies."""

from __future__ import annotations

import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from trial_changes import integer_changes, product

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.listing import Listing
from wmmadiag.diagnose.ranking import Prior
from wmmadiag.diagnose.trials import parts, team
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.diagnose.trials.team import Part, Setting
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.processes.child import Child
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
    asked = team._Member.ask

    def late(self: TrialBench, part: Part) -> list[Outcome]:
        time.sleep(random.random() / 4)
        return whole(self, part)

    def later(self: team._Member, part: Part) -> list[Outcome] | None:
        time.sleep(random.random() / 4)
        return asked(self, part)

    monkeypatch.setattr(TrialBench, "try_part", late)
    monkeypatch.setattr(team._Member, "ask", later)
    assert bench_of(card, 2).try_batch(tried) == expected
    assert bench_of(card, 4).try_batch(tried) == expected


@pytest.mark.slow
def test_what_a_child_leaves_undone_is_done_here(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(card, 2)
    tried = many(bench)
    expected = bench_of(card, 1).try_batch(tried)
    asked = team._Member.ask
    ended: list[Part] = []

    def dies(self: team._Member, part: Part) -> list[Outcome] | None:
        process = self.child._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        ended.append(part)
        return asked(self, part)

    whole = TrialBench.try_part

    def waits(self: TrialBench, part: Part) -> list[Outcome]:
        while not ended:
            time.sleep(0.01)
        return whole(self, part)

    monkeypatch.setattr(team._Member, "ask", dies)
    monkeypatch.setattr(TrialBench, "try_part", waits)
    assert bench.try_batch(tried) == expected


def test_a_bench_that_a_child_cannot_make_is_no_loss(card: Card) -> None:
    bench = bench_of(card, 2)
    tried = many(bench)
    expected = bench_of(card, 1).try_batch(tried)
    card.source.unlink()  # the child, which reads it now, finds nothing
    assert bench.try_batch(tried) == expected


@pytest.mark.slow
def test_without_a_child_this_process_does_all(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(card, 2)
    tried = many(bench)
    expected = bench_of(card, 1).try_batch(tried)

    def refused(self: Child) -> Connection:
        raise BlockingIOError("no more processes")

    team.stop()
    monkeypatch.setattr(team, "_MEMBERS", [])
    monkeypatch.setattr(Child, "connection", refused)
    assert bench.try_batch(tried) == expected


def listing_of(card: Card) -> Listing:
    return Listing(((str(card.source), card.source.read_bytes()),), (card.entry,))


def asked(listing: Listing, monkeypatch: pytest.MonkeyPatch) -> list[Listing]:
    """Have a child list it; what this process lists itself from then on."""
    team.start(2)
    team.list_ahead(listing, 2)
    made, here = Listing.made, list[Listing]()

    def listed(self: Listing) -> list[Prior]:
        here.append(self)
        return made(self)

    monkeypatch.setattr(Listing, "made", listed)
    return here


def test_a_child_lists_the_same_changes(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = listing_of(card)
    expected = listing.made()
    here = asked(listing, monkeypatch)
    bench = bench_of(card, 2)  # the child makes one behind the list
    assert team.listed(listing) == expected and not here
    tried = many(bench)
    assert bench.try_batch(tried) == bench_of(card, 1).try_batch(tried)


def test_a_list_that_nobody_takes_is_in_nobodys_way(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(listing_of(card), monkeypatch)
    bench = bench_of(card, 2)
    tried = many(bench)
    assert bench.try_batch(tried) == bench_of(card, 1).try_batch(tried)


def test_another_list_than_was_asked_for_is_made_here(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = listing_of(card)
    other = Listing(tuple((file, text + b"// more") for file, text in listing.texts), listing.entries)
    here = asked(listing, monkeypatch)
    assert team.listed(other) and here == [other]


def test_what_a_dying_child_does_not_list_is_listed_here(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = listing_of(card)
    expected = listing.made()
    here = asked(listing, monkeypatch)
    process = team._MEMBERS[0].child._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert team.listed(listing) == expected and here == [listing]


def test_what_cannot_be_listed_is_said_here(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Listing(listing_of(card).texts, ("nobody",))
    here = asked(missing, monkeypatch)
    with pytest.raises(ValueError, match="nobody"):
        team.listed(missing)
    assert here == [missing]


def test_a_diagnosis_takes_the_list_that_it_asked_for(
    card: Card, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = card.source.read_text()
    (tmp_path / "half.h").write_text("#pragma once\n#define TWO 2\n")
    card.source.write_text('#include "half.h"\n' + text)
    here: list[object] = []
    made = Listing.made
    monkeypatch.setattr(Listing, "made", lambda self, **more: here.append(more) or made(self, **more))
    assert diagnose_card(card, threads=2).causes
    assert all("known" in more for more in here)
