"""Every kernel of `corpus/`: planted ones are flagged at a marked line, right ones are left alone."""

from __future__ import annotations

import check_corpus
import pytest

SAMPLES = tuple(check_corpus.samples())


def test_there_are_enough_of_both():
    planted = [one for one in SAMPLES if one.planted]
    assert len(planted) >= 60 and len(SAMPLES) - len(planted) >= 40
    assert len({one.name for one in SAMPLES}) == len(SAMPLES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: f"{one.file}-{one.name}")
@pytest.mark.corpus
def test_sample(sample):
    found = check_corpus.findings(sample)
    if sample.planted:
        assert check_corpus.names_a_marked_line(sample, found), found
    else:
        assert found == ()
    assert "4294967295" not in str(found)
