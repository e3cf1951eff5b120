"""pytest in pytest: folders of their own, the plugin loaded by name."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import pytest

import wmmadiag
from wmmadiag import api, checks, report

# pytester forgets what is imported inside, which then takes seconds again; the engine can be loaded only once.
_LOADED = [
    importlib.import_module(module.name)
    for package in (wmmadiag, report)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    if module.name not in ("wmmadiag.pytest_plugin", "wmmadiag.__main__", "wmmadiag.testing")
]
for name in (
    "diagnose.engine",
    "emulator.native._core",
    "subject.check",
    "subject.card_files.read",
    "report.html",
    "gpu",
):
    _LOADED.append(importlib.import_module(f"wmmadiag.{name}"))
checks.all_checks()
_LOADED.append(api)


@pytest.fixture(autouse=True)
def own_cache(session_cache, monkeypatch):
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(session_cache))
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)


@pytest.fixture
def pytester(pytester, monkeypatch):
    """In this process: starting one takes longer than the tests do."""
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    for name in ("wmmadiag.pytest_plugin", "wmmadiag.testing.cards"):  # pytest warns of plugins it did not import
        monkeypatch.delitem(sys.modules, name, raising=False)
    # Other plugins would be imported anew in every run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p wmmadiag.pytest_plugin")
    return pytester
