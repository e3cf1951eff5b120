"""A few inputs of every target, and what the fuzzer itself must notice."""

from __future__ import annotations

import os
from pathlib import Path

import fuzz
import pytest
from fuzz_mutations import made
from fuzz_targets import TARGETS

from wmmadiag.processes.child import Child

RUNS = {
    "ptx": 400,
    "gate": 40,
    "card": 300,
    "plan": 100,
    "source": 80,
    "bundle": 60,
    "run": 40,
    "entry": 60,
    "formula": 400,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.slow
def test_no_input_makes_a_mistake(target):
    found = list(fuzz.fuzzed(target, 3, RUNS[target], 1))
    assert [one.mistakes for one in found if one.mistakes] == []
    counts = sum((one.counts for one in found), start=type(found[0].counts)())
    assert counts.total() == RUNS[target]
    right = {"gate": "exit 0"}.get(target, "accepted")
    assert counts[right] >= len(TARGETS[target].seeds()) - (target == "bundle")


def test_an_input_is_made_again_from_its_number():
    seeds = TARGETS["ptx"].seeds()
    assert [made(seeds, 1, number) for number in range(200)] == [made(seeds, 1, number) for number in range(200)]
    assert len({made(seeds, 1, number) for number in range(200)}) > 150
    assert list(seeds) == [made(seeds, 1, number) for number in range(len(seeds))]


TRAPS = """
import os, time
import fuzz_targets
from fuzz_targets import Target, TARGETS, serve as real
def once(data):
    number = int(data)
    if number == 3: raise KeyError("three")
    if number == 9: os.abort()
    if number == 14: time.sleep(600)
    return "accepted"
TARGETS["trap"] = Target("trap", lambda: [str(n).encode() for n in range(16)], once)
def serve(connection):
    real(connection)
"""


@pytest.mark.subprocess
@pytest.mark.slow
def test_exceptions_crashes_and_hangs_are_found_by_number(tmp_path, monkeypatch):
    (tmp_path / "trapped_targets.py").write_text(TRAPS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fuzz, "SECONDS", 2.0)
    child = Child("trapped_targets:serve")
    try:
        found = fuzz.asked(child, "trap", 0, 0, 16)
    finally:
        child.stop()
    assert found.mistakes == {
        3: "KeyError: 'three'", 9: "the process ended: signal SIGABRT", 14: "no end in sight",
    }  # fmt: skip
    assert found.counts == {"accepted": 13}


def test_the_fuzzed_process_runs_the_sanitized_core():
    """Under `scripts/sanitize`: the core that a child has loaded is the instrumented one."""
    if "WMMADIAG_SANITIZED" not in os.environ:
        pytest.skip("this is no sanitizer build: scripts/sanitize makes one and runs this")
    child = Child("fuzz_targets:serve")
    try:
        maps = child.ask("loaded", 120)[1]
    finally:
        child.stop()
    loaded = {line.split()[-1] for line in maps.splitlines() if line.endswith(".so")}
    ours = [path for path in loaded if "wmmadiag/emulator/native" in path]
    assert len(ours) >= 2 and all(b"__asan_report_load" in Path(path).read_bytes() for path in ours), ours
    assert any("libasan" in line for line in maps.splitlines()) and any(
        "libubsan" in line for line in maps.splitlines()
    )
