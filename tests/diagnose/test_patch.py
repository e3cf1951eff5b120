"""Diffs of changes: `git apply` takes them, from wherever the diagnosis was asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from wmmadiag.diagnose.patch import unified

OLD, NEW = b"a\nb\nc\n", b"a\nB\nc\n"


@pytest.mark.parametrize("asked_in", [".", "kernels", "elsewhere"])
@pytest.mark.parametrize("ending", [b"", b"last line without an end"])
def test_a_diff_applies_from_the_repositorys_root(tmp_path, monkeypatch, asked_in, ending):
    file = tmp_path / "kernels" / "deep" / "k.cu"
    file.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    file.write_bytes(OLD + ending)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path / asked_in)
    path = os.path.relpath(file)
    diff = unified({path: OLD + ending}, {path: NEW + ending})
    assert diff.startswith("--- a/kernels/deep/k.cu\n")
    done = subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "") and file.read_bytes() == NEW + ending


def test_outside_of_a_repository_the_current_folder_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/k.cu").write_bytes(OLD)
    assert "+++ b/sub/k.cu" in unified({"sub/k.cu": OLD}, {"sub/k.cu": NEW})
    assert unified({"sub/k.cu": OLD}, {"sub/k.cu": OLD}) == ""
