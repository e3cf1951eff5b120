"""A cache of its own for these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(session_cache, monkeypatch):
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(session_cache))
