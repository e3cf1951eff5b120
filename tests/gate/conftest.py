"""A cache of its own for each test, and the command line called in this process."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from wmmadiag.cli.main import main


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(session_cache, monkeypatch) -> Path:
    """Compilations are shared by all tests here, results by none."""
    shutil.rmtree(session_cache / "results-1", ignore_errors=True)
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(session_cache))
    return session_cache


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Exit code, standard output and standard error of a command."""

    def call(*words: str | Path) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call
