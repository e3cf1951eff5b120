"""A cache of its own for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(session_cache, monkeypatch) -> Path:
    """Compilations are shared by all tests here, results by none."""
    shutil.rmtree(session_cache / "results-1", ignore_errors=True)
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(session_cache))
    return session_cache
