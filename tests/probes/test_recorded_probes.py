"""The emulator answers every platform probe as the recorded GPUs did; with a GPU, so does the GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wmmadiag.gpu.devices import available
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import all_probes, ask

VECTORS = Path(__file__).parents[1] / "vectors"
RECORDED = sorted(VECTORS.glob("probes_sm_*.json"))
KINDS = {"out-of-bounds", "misaligned", "trap", "launch-failed", "wrong-space"}
"""Deaths of a launch: a GPU does not tell all of them apart (`wmmadiag.gpu.meanings`)."""


def differences(recorded: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Measurements that are not the same, by name."""
    keys = sorted({*recorded, *ours})
    dead = {key for key in keys if str(recorded.get(key)) in KINDS and str(ours.get(key)) in KINDS}
    return [key for key in keys if recorded.get(key) != ours.get(key) and key not in dead]


@pytest.mark.parametrize("file", RECORDED, ids=lambda path: path.stem)
def test_the_emulator_answers_as_the_gpu_did(file: Path) -> None:
    recorded = json.loads(file.read_text("utf-8"))
    assert set(recorded["answers"]) == set(all_probes()), "record again: python tests/vectors/record.py --only probes"
    for name, answer in recorded["answers"].items():
        ours = ask(all_probes()[name], Platform(recorded["arch"])).as_data()
        data = json.loads(json.dumps(ours["data"]))
        assert differences(answer["data"], data) == [] and answer["verdict"] == ours["verdict"], name


def test_a_difference_is_seen() -> None:
    assert differences({"a": 1, "b": "misaligned"}, {"a": 1, "b": "launch-failed"}) == []
    assert differences({"a": 1, "b": "misaligned"}, {"a": 2, "b": [0, 16]}) == ["a", "b"]
    assert differences({"a": 1}, {}) == ["a"]


@pytest.mark.subprocess
@pytest.mark.slow
def test_what_is_recorded_is_all_that_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "probes.json"
    command = [sys.executable, str(VECTORS / "record_probes.py"), str(file), "--backend", "emulator"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    test_the_emulator_answers_as_the_gpu_did(file)


@pytest.mark.gpu
@pytest.mark.skipif(bool(available()), reason=f"no GPU: {available()}")
@pytest.mark.parametrize("name", all_probes())
def test_a_gpu_answers_as_documented(name: str) -> None:
    from wmmadiag.gpu import device

    answer = ask(all_probes()[name], Platform(device().arch, "gpu")).answer
    assert answer.verdict == "right", answer
