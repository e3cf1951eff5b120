"""GitHub's own rules, as Microsoft's SARIF Multitool (npm, MIT) has them, complain of no log.

`npm install @microsoft/sarif-multitool-linux`, and WMMADIAG_SARIF_MULTITOOL names its program; or it lies in
node_modules/ of the repository.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from example_runs import all_right, full, hostile

import wmmadiag
from wmmadiag.recording.recorder import rules
from wmmadiag.report import sarif

BESIDE = Path(__file__).parents[2] / "node_modules/@microsoft/sarif-multitool-linux/Sarif.Multitool"
TOOL = Path(os.environ.get("WMMADIAG_SARIF_MULTITOOL") or BESIDE)
pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(
        not TOOL.is_file(), reason="no SARIF Multitool: npm install it, or name it in WMMADIAG_SARIF_MULTITOOL"
    ),
]
KNOWN = {("SARIF2005", "warning")}
"""That the tool has no address, which it has not (docs/releasing.md), nor a version, in a run that holds none."""


def complaints(text, folder):
    """(rule, level) of what is said of a log."""
    (folder / "log.sarif").write_text(text, "utf-8")
    words = [
        TOOL,
        "validate",
        "log.sarif",
        "--rule-kind",
        "Sarif;Gh",
        "--output",
        "out.sarif",
        "--log",
        "ForceOverwrite",
    ]
    environment = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True, timeout=120)
    (made,) = json.loads((folder / "out.sarif").read_text("utf-8"))["runs"]
    return {(one["ruleId"], one.get("level", "warning")) for one in made.get("results", ())}


@pytest.mark.parametrize("run", [replace(full(), rules=rules()), hostile(), all_right()], ids=["full", "odd", "right"])
def test_nothing_is_said_of_a_log(tmp_path, run):
    assert complaints(sarif.render(run), tmp_path) <= KNOWN


def test_once_there_is_an_address_nothing_at_all_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(wmmadiag, "__documentation__", "https://example.org/wmmadiag")
    assert complaints(sarif.render(replace(full(), rules=rules())), tmp_path) == set()


def test_what_code_scanning_does_not_take_is_told(tmp_path):
    made = json.loads(sarif.render(full()))
    made["runs"][0]["results"][0]["locations"] = []
    assert {rule for rule, level in complaints(json.dumps(made), tmp_path) if level == "error"} >= {"GH1015"}
