"""The options of the pytest plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

OPTIONS = (
    ("arch", "append", "SM", "target, such as sm_80; may be repeated"),
    ("backend", "store", "NAME", "emulator (default), gpu or both"),
    ("checks", "store", "NAMES", "what to look for besides wrong numbers: all, default, none, or races,async,…"),
    ("reports", "store", "FOLDER", "where failing tests write their reports (default: in pytest's cache folder)"),
    ("diagnose", "store", "YES", "say why a case fails (default: yes)"),
)


def option(config: pytest.Config, name: str) -> Any:
    """An option's value: of the command line, else of the configuration file, else None."""
    given = config.getoption(f"wmmadiag_{name}", default=None)
    return given if given else config.getini(f"wmmadiag_{name}") or None


def reports_folder(config: pytest.Config) -> Path | None:
    """Where reports go; None where nobody said and pytest's cache is switched off."""
    chosen = option(config, "reports")
    if chosen:
        folder = config.invocation_params.dir / str(chosen)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    cache = getattr(config, "cache", None)
    return None if cache is None else Path(cache.mkdir("wmmadiag"))
