"""What `examples/cluster/` and `examples/ci/` say, run with processes in place of nodes; some of them are killed."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import yaml

from wmmadiag.campaign.journal import read_journal

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]
EXAMPLES = Path(__file__).parents[2] / "examples"
PLAN = """
[[subjects]]
paths = ["right.toml", "wrong.toml"]
sizes = { M = [16, 32], N = [16, 32], K = [16, 32] }
[axes]
arch = ["sm_80"]
seeds = SEEDS
[cover]
how = "full"
[run]
checks = "none"
slice = 4
"""
CASES = 160  # of ten seeds
FEW = 48  # of three
WMMADIAG = [sys.executable, "-m", "wmmadiag", "campaign", "nightly.toml"]


@pytest.fixture
def folder(kernels):
    (kernels / "nightly.toml").write_text(PLAN.replace("SEEDS", "10"))
    return kernels


@pytest.fixture
def few(kernels):
    """Where nothing is killed on the way."""
    (kernels / "nightly.toml").write_text(PLAN.replace("SEEDS", "3"))
    return kernels


@pytest.fixture
def started():
    """Starts processes that end with the test."""
    running: list[subprocess.Popen] = []

    def start(words, **options):
        options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        running.append(subprocess.Popen(words, text=True, start_new_session=True, **options))
        return running[-1]

    yield start
    for one in running:
        every = psutil.Process(one.pid).children(recursive=True) if one.poll() is None else []
        for process in (*every, one):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        one.wait()
        for pipe in filter(None, (one.stdout, one.stderr)):
            pipe.close()


def campaign(started, folder, address, *words):
    return started(
        [*WMMADIAG, "--effort", "none", "--scheduler", address, *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def judged(folder, name="nightly.journal"):
    cases = [record["case"] for _, record in read_journal(folder / name) if record is not None and "case" in record]
    assert set(Counter(one["key"] for one in cases).values()) <= {1}
    return {one["key"]: one["status"] for one in cases}


def reached(folder, lines, process):
    path = folder / "nightly.journal"
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < lines):
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()


def undisturbed(folder):
    done = subprocess.run(
        [*WMMADIAG, "--effort", "none", "--here", "--journal", "quiet"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return judged(folder, "quiet")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def pods():
    """The arguments of worker, scheduler and campaign in `kubernetes.yaml`."""
    cluster, job = yaml.safe_load_all((EXAMPLES / "cluster" / "kubernetes.yaml").read_text("utf-8"))

    def arguments(spec):
        return spec["containers"][0]["args"]

    return (
        arguments(cluster["spec"]["worker"]["spec"]),
        arguments(cluster["spec"]["scheduler"]["spec"]),
        arguments(job["spec"]["template"]["spec"]),
    )


def test_kubernetes_with_pods_that_die(folder, started):
    worker, scheduler, job = pods()
    assert job[:2] == ["wmmadiag", "campaign"] and "--resume" in job
    assert job[job.index("--scheduler") + 1] == "tcp://wmmadiag-scheduler:8786"
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    environment = {**os.environ, "DASK_SCHEDULER_ADDRESS": address}

    def pod(number):
        words = [word.replace("$(DASK_WORKER_NAME)", f"worker-{number}") for word in worker]
        return started([*words, "--no-dashboard"], env=environment)

    def head():
        return started([*scheduler, "--host", "127.0.0.1", "--port", str(port), "--dashboard-address", "127.0.0.1:0"])

    wanted = undisturbed(folder)
    assert len(wanted) == CASES
    first, workers = head(), [pod(0)]
    running = campaign(started, folder, address, "--resume")
    reached(folder, 16, running)
    workers += [pod(1), pod(2)]  # they come later
    for number, lines in enumerate((32, 48), 3):
        reached(folder, lines, running)
        doomed = workers.pop(random.Random(lines).randrange(len(workers)))
        os.killpg(doomed.pid, signal.SIGKILL)
        workers.append(pod(number))
    reached(folder, 64, running)
    first.kill()
    first.wait()
    _, said = running.communicate(timeout=100)
    assert running.returncode == 3, said
    assert f"the Dask scheduler at {address} is gone" in said and "go on with --resume" in said
    assert "Traceback" not in said
    assert 64 <= len(judged(folder)) < CASES

    head()
    workers += [pod(9)]
    again = campaign(started, folder, address, "--resume")
    told, said = again.communicate(timeout=200)
    assert again.returncode == 1 and f"{CASES} cases" in told, said
    assert judged(folder) == wanted


def test_slurm(few, started, tmp_path):
    """With programs of Slurm's that start a job's script, or end it, here."""
    pytest.importorskip("dask_jobqueue")
    slurm = tmp_path / "bin"
    slurm.mkdir()
    programs = {
        # The script is gone once it is handed in.
        "sbatch": f"cp $1 {tmp_path}/job.sh; setsid bash {tmp_path}/job.sh >{tmp_path}/job 2>&1 </dev/null &\n"
        "echo Submitted batch job $!",
        "scancel": "kill -- -$1",
    }
    for name, text in programs.items():
        (slurm / name).write_text(f"#!/bin/bash\n{text}\n")
        (slurm / name).chmod(stat.S_IRWXU)
    text = (EXAMPLES / "cluster" / "slurm.py").read_text("utf-8")
    cache = tmp_path / "cache"
    assert "processes=16" in text and "/shared/wmmadiag-cache" in text
    (tmp_path / "slurm.py").write_text(text.replace("=16", "=2").replace("/shared/wmmadiag-cache", str(cache)))
    environment = {**os.environ, "PATH": f"{slurm}:{os.environ['PATH']}", "USER": "nobody"}
    cluster = started([sys.executable, "slurm.py", "1"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE)
    command = cluster.stdout.readline()
    address = re.search(r"--scheduler (tcp://\S+)", command)
    assert address is not None, command
    done = campaign(started, few, address[1])
    told, said = done.communicate(timeout=200)
    assert done.returncode == 1 and f"{FEW} cases" in told, said
    assert any(path.is_file() for path in cache.rglob("*"))
    os.kill(cluster.pid, signal.SIGINT)
    assert cluster.wait(timeout=60) == 0


def test_nights_in_github_actions(few):
    """The second night runs only what has changed, and says what no longer fails; a failing night keeps its journal."""
    workflow = yaml.safe_load((EXAMPLES / "ci" / "campaign.yml").read_text("utf-8"))
    steps = workflow["jobs"]["campaign"]["steps"]
    (saved,) = [one for one in steps if str(one.get("uses", "")).startswith("actions/cache/save")]
    assert saved["if"] == "always()" and "campaign.journal" in saved["with"]["path"]
    commands = {one["name"]: one["run"] for one in steps if "run" in one and "name" in one}

    def night(step):
        text = commands[step].replace("${{ matrix.arch }}", "sm_90")
        assert "${{" not in text
        environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(few / "summary.md")}
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", text], cwd=few, env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip

    first = night("campaign")
    assert first.returncode == 1 and f"{FEW} cases" in first.stdout, first.stderr
    assert '["sm_90"]' in (few / "campaign.toml").read_text()
    before = judged(few, "campaign.journal")
    assert night("summary").returncode == 0 and "wrong.toml" in (few / "summary.md").read_text()
    assert list((few / "bundles").iterdir())

    skewed = few / "skewed.cu"
    skewed.write_text(skewed.read_text().replace("sum, 16,", "sum, N,"))
    second = night("campaign")
    assert second.returncode == 0, second.stderr
    assert re.search(r"0 fail that did not, \d+ no longer fail", second.stdout)
    assert "no longer fail" in (few / "campaign.md").read_text()
    after = judged(few, "campaign.journal")
    assert len(before) == len(after) == FEW and len(before.keys() & after.keys()) == FEW / 2
    assert all(before[key] == "passed" for key in before.keys() & after.keys())
    assert (few / "trend.jsonl").read_text().count("\n") == 2
