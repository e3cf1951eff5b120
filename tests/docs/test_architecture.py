"""The map of the code names what is there, in the order that imports are held to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_the_rooms_stand_as_imports_are_held_to() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = [re.split(r" \| ", layer) for layer in contracts[0]["layers"]]
    table = PAGE.split("## The order of the rooms")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| (`.+) \|$", table, re.MULTILINE)
    shown = [re.findall(r"`(\w+)`", layer) for row in rows for layer in row.split(";")]
    assert shown == layers


def test_every_file_that_it_names_is_there() -> None:
    names = set(re.findall(r"`([a-z_/]+/(?:[a-z_]+\.(?:py|cpp))?)`", PAGE))
    assert len(names) > 20
    assert [name for name in names if not (ROOT / "wmmadiag" / name).exists()] == []


@pytest.mark.parametrize("name", ["grid.cpp", "block.cpp", "warp.cpp", "tensor_core.cpp"])
def test_the_engine_has_its_files(name: str) -> None:
    assert f"`{name}`" in PAGE
    assert (ROOT / "wmmadiag" / "emulator" / "native" / name).exists()
