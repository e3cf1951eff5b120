"""A journal survives whatever ends its writer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmmadiag.campaign.journal import Journal, read_journal
from wmmadiag.errors import ConfigurationError


def written(path, count):
    with Journal(path) as journal:
        for number in range(count):
            journal.append({"number": number})


@pytest.mark.parametrize("lost", [1, 5, 20])
def test_a_torn_line_is_cut_off(tmp_path, lost):
    path = tmp_path / "j"
    written(path, 3)
    path.write_bytes(path.read_bytes()[:-lost])
    with Journal(path) as journal:
        assert [one["number"] for one in journal.records()] == [0, 1]
        journal.append({"number": "new"})
        assert journal.damaged == []
    assert [record for _, record in read_journal(path)][-1] == {"number": "new"}


def test_a_damaged_line_costs_itself(tmp_path):
    path = tmp_path / "j"
    written(path, 3)
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":7'))
    with Journal(path) as journal:
        assert [one["number"] for one in journal.records()] == [0, 2]
        assert journal.damaged == [2]


def test_one_writer(tmp_path):
    with (
        Journal(tmp_path / "j"),
        pytest.raises(ConfigurationError, match="another campaign is writing"),
        Journal(tmp_path / "j"),
    ):
        pass


def test_it_is_reduced_and_goes_on(tmp_path):
    path = tmp_path / "j"
    written(path, 5)
    path.chmod(0o640)
    path.write_bytes(path.read_bytes().replace(b'"number":1', b'"number":7'))
    with Journal(path) as journal:
        assert journal.reduce(lambda one: one["number"] in (1, 2, 4)) == (2, 3)
        journal.append({"number": "new"})
        with pytest.raises(ConfigurationError, match="another campaign is writing"), Journal(path):
            pass
    assert [record["number"] for _, record in read_journal(path)] == [2, 4, "new"]
    assert path.stat().st_mode & 0o777 == 0o640 and list(tmp_path.iterdir()) == [path]


def test_a_journal_that_cannot_be_reduced_is_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "j"
    written(path, 3)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with Journal(path) as journal:
        with monkeypatch.context() as patched, pytest.raises(ConfigurationError, match="it is as it was"):
            patched.setattr("wmmadiag.campaign.journal.os.fsync", full)
            journal.reduce(lambda _: True)
        journal.append({"number": 3})
    assert path.read_bytes().startswith(before) and list(tmp_path.iterdir()) == [path]


VALUES = st.text() | st.integers(-(2**60), 2**60)


@given(st.lists(st.dictionaries(st.text(), VALUES), max_size=8), st.binary(max_size=40))
@pytest.mark.slow
def test_what_is_written_is_read(tmp_path_factory, records, garbage):
    path = tmp_path_factory.mktemp("j") / "j"
    with Journal(path) as journal:
        for record in records:
            journal.append(record)
    with path.open("ab") as file:
        file.write(garbage)
    found = [record for _, record in read_journal(path) if record is not None]
    assert found[: len(records)] == json.loads(json.dumps(records))
