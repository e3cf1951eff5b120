"""What docs/releasing.md asks to be equal is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import wmmadiag

ROOT = Path(__file__).parents[2]
NAMED = {
    "wmmadiag/__init__.py": r'^__version__ = "(.+)"$',
    "pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
}


def test_one_version_everywhere():
    found = {name: re.findall(pattern, (ROOT / name).read_text(), re.MULTILINE) for name, pattern in NAMED.items()}
    found["editors/vscode/package.json"] = [json.loads((ROOT / "editors/vscode/package.json").read_text())["version"]]
    assert found == {name: [wmmadiag.__version__] for name in found}
    step = next(line for line in (ROOT / "docs/releasing.md").read_text().splitlines() if "the package:" in line)
    assert [name for name in found if name in step] == list(found)  # and a person is told of the same files


def test_one_address_everywhere():
    listed = re.findall(r'^(?i:documentation) = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert listed == [wmmadiag.__documentation__] * bool(wmmadiag.__documentation__)
