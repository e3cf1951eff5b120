"""Changes listed in a copy of the process: the same as listed here, and nothing where another question is asked."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from trial_changes import product

from wmmadiag.diagnose.ahead import ListedAhead
from wmmadiag.diagnose.evidence import ChangeListing

pytestmark = pytest.mark.subprocess


@pytest.fixture
def asked(tmp_path: Path) -> ChangeListing:
    card = product(tmp_path, ("i * n + col", "i * k + col"))
    return ChangeListing({str(card.source): card.source.read_bytes()}, card.entry, frozenset())


def test_what_is_listed_ahead_is_what_is_asked_for(asked: ChangeListing) -> None:
    ahead = ListedAhead(asked)
    ahead.begin()
    listed = ahead.taken(replace(asked))
    assert listed == asked.weighed() and len(listed) > 100
    assert ahead.taken(asked) is None, "it is given once"


def test_another_question_is_not_answered(asked: ChangeListing) -> None:
    ahead = ListedAhead(asked)
    ahead.begin()
    assert ahead.taken(replace(asked, compiled=frozenset({("k.cu", 3)}))) is None


def test_without_a_copy_nothing_is_known(asked: ChangeListing, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = ListedAhead(asked)
    assert ahead.taken(asked) is None
    gone = ListedAhead(asked)
    gone.begin()
    gone._copy.stop()
    assert gone.taken(asked) is None

    def refused() -> int:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", refused)
    with pytest.raises(OSError):
        ListedAhead(asked).begin()
