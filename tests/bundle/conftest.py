"""A cache of its own, a working folder, and the command line called in this process."""

from __future__ import annotations

import pytest

from wmmadiag.cli.main import main


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(session_cache, monkeypatch):
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(session_cache))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Exit code, standard output and standard error of a command."""

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call
