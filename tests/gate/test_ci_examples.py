"""The commands in the CI examples run as they are written there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from small_kernels import write_right, write_wrong

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kernels(here):
    Path("kernels").mkdir()
    write_right(Path("kernels"))
    return Path("kernels")


@pytest.mark.slow
def test_github_actions(kernels, run):
    text = (ROOT / "examples" / "github-actions.yml").read_text()
    command = re.search(r"run: >-\n((?: {10}.*\n)+)", text)
    words = shlex.split(command[1])
    assert words[:3] == ["wmmadiag", "check", "kernels/"]
    code, _, err = run(*words[1:])
    assert code == 0, err
    named = set(re.findall(r"\b\w+\.(?:json|html|md|sarif|xml)\b", text))
    assert named == {path.name for path in Path().iterdir() if path.is_file()}
    write_wrong(kernels)
    code, out, _ = run(*words[1:])
    assert code == 1 and "::error file=kernels/wrong.cu" in out
    assert 0 < Path("comment.md").stat().st_size < 65536  # GitHub's limit for a comment


def test_pre_commit(kernels, run):
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    entry = re.search(r"entry: wmmadiag (.*)", text)[1]
    assert 'args: ["."]' in text
    code, out, err = run(*shlex.split(entry), ".")
    assert (code, out, err) == (0, "", "")
    write_wrong(kernels)
    assert run(*shlex.split(entry), ".")[0] == 1
    files = re.search(r"files: (\S+)", text)[1]
    assert all(re.search(files, name) for name in ("a/b.cu", "x.cuh", "k.toml"))
    assert not re.search(files, "notes.md")


def test_every_option_in_the_documentation_is_there():
    from wmmadiag import pytest_plugin
    from wmmadiag.cli import check
    from wmmadiag.cli.arguments import Parser

    parser = Parser(prog="check", description=None)
    check.add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    known |= {f"--wmmadiag-{name}" for name, *_ in pytest_plugin.OPTIONS}
    told = set(re.findall(r"(?<!-)--[a-z][a-z-]+", (ROOT / "docs" / "ci.md").read_text()))
    assert told <= known and len(told) > 15
