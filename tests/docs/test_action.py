"""`action.yml` and the workflow to copy: what they name exists, and their check runs as a runner would run it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_kernels import write_right, write_wrong

yaml = pytest.importorskip("yaml", reason="no PyYAML: pip install --group dev")
ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOW = yaml.safe_load((ROOT / "examples/github-actions.yml").read_text("utf-8"))


def steps(of):
    return [one for one in of if "wmmadiag check" in one.get("run", "")]


def test_every_input_that_is_used_is_one_and_the_other_way_round():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.(\w+)", text)) == set(ACTION["inputs"])
    assert all(one["description"] for one in ACTION["inputs"].values())


def test_every_step_says_its_shell():
    assert all("shell" in one for one in ACTION["runs"]["steps"] if "run" in one)


@pytest.mark.subprocess
@pytest.mark.parametrize(("subject", "code"), [("right.toml", 0), (".", 1)])
@pytest.mark.slow
def test_the_action_s_check_runs(tmp_path, subject, code):
    write_right(tmp_path)
    write_wrong(tmp_path)
    (step,) = steps(ACTION["runs"]["steps"])
    made, done = ran(step["run"], tmp_path, SUBJECTS=subject, ARGUMENTS="--case one")
    assert done.returncode == code, done.stderr
    assert ("::error" in done.stdout) == (code == 1)
    uploaded = next(one["with"]["path"].split() for one in ACTION["runs"]["steps"] if "upload" in one.get("uses", ""))
    assert {*uploaded, "wmmadiag.md"} <= made and ACTION["outputs"]["json"]["value"] in made


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("repository", "expected"),
    [("lab/tools", "https://git.example/lab/tools/blob/v3/docs/index.md"), ("", None)],
)
def test_rules_lead_to_the_pages_of_where_the_action_came_from(tmp_path, monkeypatch, repository, expected):
    monkeypatch.delenv("WMMADIAG_DOCUMENTATION", raising=False)
    write_wrong(tmp_path)
    (step,) = steps(ACTION["runs"]["steps"])
    assert step["env"]["REPOSITORY"] == "${{ github.action_repository }}"  # which a workflow's own action has not
    variables = {"SUBJECTS": "wrong.toml", "ARGUMENTS": "--case one", "REPOSITORY": repository, "REF": "v3"}
    _, done = ran(step["run"], tmp_path, GITHUB_SERVER_URL="https://git.example", **variables)
    assert done.returncode == 1, done.stderr
    driver = json.loads((tmp_path / "wmmadiag.sarif").read_text("utf-8"))["runs"][0]["tool"]["driver"]
    assert driver.get("informationUri") == expected
    assert (ROOT / "docs/index.md").is_file()


@pytest.mark.subprocess
def test_the_workflow_s_check_runs(tmp_path):
    (tmp_path / "kernels").mkdir()
    write_right(tmp_path / "kernels")
    (step,) = steps(WORKFLOW["jobs"]["check"]["steps"])
    made, done = ran(step["run"], tmp_path)
    assert done.returncode == 0, done.stderr
    for other in WORKFLOW["jobs"]["check"]["steps"]:
        named = other.get("with", {}).get("sarif_file") or other.get("with", {}).get("path") or ""
        assert set(named.split()) <= made or "cache" in named


def ran(script, folder, **variables):
    programs = folder / "bin"
    programs.mkdir()
    (programs / "wmmadiag").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wmmadiag "$@"\n')
    (programs / "wmmadiag").chmod(0o755)
    environment = {**os.environ, **variables, "PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_ACTIONS": "true"}
    words = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    return {one.name for one in folder.iterdir()}, done
