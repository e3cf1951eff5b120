"""A full disk, a cache that cannot be used, too little of everything: a clear message, and nothing half written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from command import wmmadiag
from small_kernels import write_right, write_wrong

from wmmadiag.errors import lacking_of

pytestmark = pytest.mark.subprocess
REPORTS = ["--json", "run.json", "--html", "run.html", "--sarif", "run.sarif", "--junit", "run.xml"]


def checked(folder: Path, *words: str, limits: dict[int, int] | None = None, **environment: str):
    """`wmmadiag check right.toml` there, under resource limits."""

    def limit() -> None:
        for kind, value in (limits or {}).items():
            resource.setrlimit(kind, (value, value))

    # Python 3.11 keeps a compiled module of which it could write only a part.
    ours = {"WMMADIAG_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = wmmadiag(
        folder, "check", "right.toml", *words, preexec_fn=limit, timeout=300, env={**os.environ, **ours, **environment}
    )
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr, done.stderr
    return done


@pytest.fixture
def folder(tmp_path):
    write_right(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_files_that_may_not_grow(folder):
    """What `ulimit -f` says is what a full disk says: reports are missing, whole, or as they were."""
    (folder / "run.json").write_text("old")
    done = checked(folder, *REPORTS, limits={resource.RLIMIT_FSIZE: 2048})
    assert done.returncode == 2 and "cannot write run.json: File too large" in done.stderr
    assert (folder / "run.json").read_text() == "old"
    left = {path.name for path in folder.iterdir()} - {"cache", "right.toml", "gemm.cu"}
    assert left == {"run.json"}
    assert not [path for path in (folder / "cache").rglob("*") if path.is_file() and path.stat().st_size == 2048]
    assert checked(folder, "--json", "run.json").returncode == 0  # and the next run begins anew


def test_a_small_disk_that_is_full(folder, tmp_path_factory):
    disk = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nobody here may mount a file system")
    try:
        done = checked(folder, "--json", str(disk / "run.json"), WMMADIAG_CACHE_DIR=str(disk / "cache"))
        assert done.returncode == 2 and "No space left on device" in done.stderr and "ok: all 2 cases" in done.stdout
        assert not list(disk.glob("*.json")) and not list(disk.glob(".run*"))
    finally:
        subprocess.run(["umount", str(disk)], check=False)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_stream_that_takes_nothing(folder, stream):
    with Path("/dev/full").open("w") as full:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: full}
        done = subprocess.run(
            [sys.executable, "-m", "wmmadiag", "check", "right.toml"], cwd=folder, check=False, text=True, **streams
        )
    assert done.returncode == (2 if stream == "stdout" else 0)


@pytest.mark.parametrize("cache", ["/dev/null/cache", "/proc/cache", "right.toml"])
def test_a_cache_that_cannot_be(folder, cache):
    assert checked(folder, WMMADIAG_CACHE_DIR=cache).returncode == 0


# Below 130 MB Python cannot import all of its own modules.
@pytest.mark.parametrize("megabytes", [130, 160, 280, 300, 420])
@pytest.mark.slow
def test_too_little_memory_is_no_verdict(folder, megabytes):
    """Whatever the limit: the kernel is right, or nobody could say; it is never wrong, and never a mistake of ours."""
    done = checked(folder, limits={resource.RLIMIT_AS: megabytes << 20})
    told = done.stdout + done.stderr
    if "cannot allocate memory for thread-local data: ABORT" in told:
        pytest.skip("the C library itself ends a process that gets no memory for a thread")
    assert done.returncode == 0 or (done.returncode in (2, 3) and "next:" in told and "limit" in told), told
    write_wrong(folder)
    (folder / "right.toml").write_text((folder / "wrong.toml").read_text())
    done = checked(folder, limits={resource.RLIMIT_AS: megabytes << 20})
    assert done.returncode in (1, 2, 3)


@pytest.mark.parametrize(("limit", "lacking"), [(1 << 40, "memory"), (resource.RLIM_INFINITY, "")])
def test_an_extension_that_fails_and_says_nothing(monkeypatch, limit, lacking):
    """Under a limit it had no memory; without one it is a bug, as any other failure of the interpreter is."""
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))
    assert lacking_of(SystemError("error return without exception set")) == lacking
    assert not lacking_of(SystemError("unknown opcode"))


@pytest.mark.parametrize("count", [12, 24])
def test_few_file_descriptors(folder, count):
    done = checked(folder, "--jobs", "2", limits={resource.RLIMIT_NOFILE: count})
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0 or (done.returncode in (2, 3) and "open files" in told), told


@pytest.mark.slow
def test_many_processes_share_a_cache(folder):
    """Started at once on an empty one."""
    command = [sys.executable, "-m", "wmmadiag", "check", "right.toml", "-q"]
    environment = {**os.environ, "WMMADIAG_CACHE_DIR": str(folder / "cache")}
    running = [
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    outputs = [one.communicate(timeout=300) for one in running]
    assert [one.returncode for one in running] == [0] * 4, outputs
    assert {err for _, err in outputs} == {b""}
    assert not [path for path in (folder / "cache").rglob("*") if ".tmp" in path.name or path.name.startswith(".")]
