"""The documentation's commands run and print what pages show; every command line in it is one that there is."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import causes_page
import pytest
import transcripts

from wmmadiag.cli.arguments import Parser
from wmmadiag.cli.dispatch import COMMANDS
from wmmadiag.cli.main import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SESSIONS = ("README.md", "docs/tutorial.md", "docs/debugger-tour.md")
NOT_RUN = {
    "docs/first-hour.md",  # needs an installed wheel: .ci/run
    "docs/debugger.md",  # the session of the tour, shortened
    "docs/programs.md",  # tests/programs run this one
    "docs/ptx.md",  # of a file that the reader has
}


def execute(words: list[str]) -> str:
    if words[0] != "wmmadiag":
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        main(words[1:])
    return printed.getvalue()


@pytest.mark.parametrize("page", SESSIONS)
@pytest.mark.slow
def test_a_page_s_session_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    if page == "docs/tutorial.md":
        shutil.copy(ROOT / "examples/tutorial/gemm.cu", tmp_path)
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.chdir(ROOT)
    transcripts.run(ROOT / page, execute)


def test_the_page_of_causes_says_what_operators_say():
    assert (ROOT / "docs/causes.md").read_text("utf-8") == causes_page.page(), "run python scripts/pages"


def test_every_page_with_a_session_is_run():
    with_sessions = {str(page.relative_to(ROOT)) for page in PAGES if transcripts.steps(page)}
    assert with_sessions == {*SESSIONS, *(one for one in NOT_RUN if (ROOT / one).exists())}


def test_a_session_that_prints_something_else_is_told():
    assert transcripts.matches(["a", "…", "c … e"], "a\nb\nb\nc d e\n")
    assert not transcripts.matches(["a", "…", "c"], "a\nb\nd\n")
    assert not transcripts.matches(["a"], "a\nb\n")


def command_lines():
    """Lines of code blocks that call wmmadiag, but those with placeholders."""
    for page in PAGES:
        for first, lines in transcripts.blocks(page):
            for number, line in enumerate(lines, first):
                text = re.sub(r"^(\$|- run:|run:) ", "", line.strip()).split("  #")[0]
                if text.startswith("wmmadiag ") and "…" not in text and not text.startswith("wmmadiag check,"):
                    yield pytest.param(text, id=f"{page.name}:{number}")


@pytest.mark.parametrize("text", list(command_lines()))
def test_a_command_line_of_the_documentation_is_one_that_there_is(text):
    words = shlex.split(text)[1:]
    if words[0] in ("--version", "--help") or "--help" in words:
        return
    assert words[0] in COMMANDS
    module = import_module(f"wmmadiag.cli.{words[0]}")
    parser = Parser(prog="wmmadiag", description=None)
    module.add_arguments(parser)
    parser.parse_all(words[1 : words.index("--") if "--" in words else len(words)])


def test_the_readme_is_a_screen_and_a_half():
    """Lines of 110 letters besides its picture: with 52 it was 1,360 pixels of a page 900 wide, a screen being 900."""
    text = (ROOT / "README.md").read_text("utf-8")
    lines = sum(1 + len(line) // 110 for line in text.splitlines())
    assert lines <= 55 and text.count("<img") == 1
    assert text.index("never seen") < text.index("<img")  # what was measured on unseen code is said first


def sums(rows, *columns):
    """The first number of each cell, added up."""
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [sum(int(re.match(r"\d+", row[column])[0]) for row in cells) for column in columns]


def test_the_first_page_sums_what_was_measured():
    page = (ROOT / "docs/measured.md").read_text("utf-8")
    sets = re.findall(r"^\| `blind(?:[234]\d|1[2-9])` \| \d+ \| \d+ \| .*$", page, re.MULTILINE)
    reads = page.split("| first run |")[1].split("\n\n")[0].splitlines()[2:]
    kernels, bugs, causes, false = sums(sets, 1, 2, 3, 4)
    last_bugs, last_causes, last_false = sums(sets[:3], 2, 3, 4)
    missed, last_missed = bugs - causes - false, last_bugs - last_causes - last_false
    sources, right, asked, wrong, undone = sums(reads, 1, 2, 3, 4, 5)
    last, last_right, last_asked, last_wrong, last_undone = sums(reads[:1], 1, 2, 3, 4, 5)
    asked, last_asked = asked + undone, last_asked + last_undone
    text = (ROOT / "README.md").read_text("utf-8")
    assert f"of {bugs:,} bugs in {kernels} kernels written for it (of the last {last_bugs})" in text
    assert f"| {causes:,} ({last_causes}) | {missed} ({last_missed}) | {false} ({last_false}) called proven |" in text
    assert f"on {sources} right sources (on the last {last})" in text
    assert f"| {right} ({last_right}) | {asked} ({last_asked}) | {wrong} ({last_wrong}) |" in text


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_readme_s_demo_runs(tmp_path):
    """In an environment that is there already: what would install into it does nothing."""
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    words = {
        "python": f'[ "$1 $2" = "-m pip" ] || exec "{sys.executable}" "$@"',
        "wmmadiag": f'exec "{sys.executable}" -m wmmadiag "$@"',
    }
    for name, line in words.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "WMMADIAG_VENV": str(tmp_path / "venv")}
    done = subprocess.run([ROOT / "scripts/demo"], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "proven" in done.stdout and "ok: all" in done.stdout
    assert "scripts/demo" in (ROOT / "README.md").read_text("utf-8")


def test_every_page_is_in_the_site_s_navigation():
    named = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(page.name for page in PAGES if page.parent.name == "docs")


def test_the_site_is_built_so_that_warnings_count():
    """MkDocs counts those that it logs: told to be quiet it logs none, and `--strict` ends nothing."""
    assert re.search(r"mkdocs build --strict(?! *--quiet)", (ROOT / "scripts/site").read_text("utf-8"))
