"""Workers and the client are killed during a campaign of 320 cases: it goes on, and judges each case once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest

from wmmadiag.campaign.cluster import answers, cluster
from wmmadiag.campaign.journal import read_journal

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]
PLAN = """
[[subjects]]
paths = ["right.toml", "wrong.toml"]
sizes = { M = [16, 32], N = [16, 32], K = [16, 32] }
[axes]
seeds = 20
[cover]
how = "full"
[run]
checks = "none"
slice = 8
"""


@pytest.fixture
def folder(kernels):
    (kernels / "plan.toml").write_text(PLAN)
    return kernels


def begun(folder, *words, alone=False):
    return subprocess.Popen(
        [sys.executable, "-m", "wmmadiag", "campaign", "plan.toml", "--effort", "none", *words], cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=alone,
    )  # fmt: skip


def judged(path):
    """Statuses by case, and how often each was judged."""
    cases = [record["case"] for _, record in read_journal(path) if record is not None and "case" in record]
    return {one["key"]: one["status"] for one in cases}, Counter(one["key"] for one in cases)


def reached(path, lines, process):
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < lines):
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()


def test_a_campaign_outlives_its_processes(folder):
    undisturbed = begun(folder, "--here", "--journal", "quiet")
    undisturbed.communicate(timeout=250)
    assert undisturbed.returncode == 1
    wanted, _ = judged(folder / "quiet")
    assert len(wanted) == 320

    chosen = random.Random(7)
    running = begun(folder, "--workers", "2", "--journal", "rough")
    for lines in (30, 75):
        reached(folder / "rough", lines, running)
        children = psutil.Process(running.pid).children(recursive=True)
        workers = [one for one in children if "spawn_main" in "".join(one.cmdline())]
        os.kill(chosen.choice(workers).pid, signal.SIGKILL)
    reached(folder / "rough", 140, running)
    children = psutil.Process(running.pid).children(recursive=True)
    running.kill()
    running.communicate()
    half, _ = judged(folder / "rough")
    assert 140 <= len(half) < 320

    resumed = begun(folder, "--workers", "2", "--journal", "rough", "--resume")
    told, _ = resumed.communicate(timeout=250)
    assert resumed.returncode == 1 and "320 cases" in told
    found, times = judged(folder / "rough")
    assert found == wanted
    assert set(times.values()) == {1}
    assert not [one for one in children if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_an_interrupt_at_a_terminal(folder):
    """It reaches all processes; only the campaign itself speaks."""
    running = begun(folder, "--workers", "2", "--journal", "rough", alone=True)
    reached(folder / "rough", 50, running)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate(timeout=100)
    assert running.returncode == 130 and "Traceback" not in said, said
    assert "what was judged is in rough: go on with --resume" in said


def test_work_that_kills_its_worker_is_told_apart():
    with cluster(workers=1) as client:
        (done,) = answers(client, os._exit, [3])
        (fine,) = answers(client, abs, [-3])
    assert done.killed and done.answer is None
    assert fine.answer == 3 and not fine.killed
