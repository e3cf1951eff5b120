"""The same option is the same in every command; a shell can complete all of them; imports are light."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections import defaultdict
from importlib import import_module

import pytest
from small_kernels import write_right, write_wrong

from wmmadiag.cli import console
from wmmadiag.cli.arguments import Parser
from wmmadiag.cli.dispatch import COMMANDS
from wmmadiag.cli.main import main

DIFFERS = {
    "--against": "each command compares with something of its own",
    "--arch": "check takes several; probe asks several at once, shapes takes none for all",
    "--backend": "bench takes what there is; the others name one",
    "--case": "some look into one case, others run several",
    "--variant": "likewise",
    "--effort": "a campaign may leave the diagnosis out, and runs many kernels",
    "--budget-seconds": "an explanation always has one: whoever asks for it waits",
    "--std": "host code of a program needs one",
}
"""Options that are not alike in all commands, and why."""


TOLD_DIFFERENTLY = {
    "--json": "each command has an answer of its own",
    "--markdown": "likewise",
    "--html": "the page of a campaign has a search besides",
    "--computes": "init asks names and a run, and drafts references",
}
"""Further options whose help is not the same everywhere, and why."""


def options(*, with_help=False):
    found = defaultdict(set)
    for command in COMMANDS:
        parser = Parser(prog="wmmadiag", description=None)
        import_module(f"wmmadiag.cli.{command}").add_arguments(parser)
        for action in parser._actions:
            default = None if action.default in ("", (), []) else repr(action.default)
            default = None if default in ("None", "False") else default
            shape = (action.metavar, default, action.nargs, tuple(action.choices or ()), type(action).__name__)
            for name in action.option_strings:
                said = action.help if with_help and name != "--help" else ""
                found[name].add((*shape, tuple(action.option_strings), said))
    return found


def test_the_same_option_has_the_same_meaning_and_default_in_every_command():
    unlike = {name for name, shapes in options().items() if len(shapes) > 1}
    assert unlike == set(DIFFERS)


def test_the_same_option_is_told_in_the_same_words_in_every_command():
    unlike = {name for name, shapes in options(with_help=True).items() if len(shapes) > 1}
    assert unlike == set(DIFFERS) | set(TOLD_DIFFERENTLY)


def test_every_option_has_a_help():
    assert [
        name
        for name, shapes in options(with_help=True).items()
        if name != "--help" and not all(each[-1] for each in shapes)
    ] == []


JUDGES = {"check", "run", "diagnose", "explain", "report", "compare", "campaign", "replay", "probe"}
"""Commands that say whether something is right."""
TELLS = JUDGES | {"fragment", "shapes", "bench", "doctor", "examples"}
"""Commands whose answer is data."""


def names_of(command):
    parser = Parser(prog="wmmadiag", description=None)
    import_module(f"wmmadiag.cli.{command}").add_arguments(parser)
    return {name for action in parser._actions for name in action.option_strings}


def test_every_command_that_judges_is_quiet_or_verbose_and_every_answer_is_json():
    having = {command: names_of(command) for command in COMMANDS}
    for name, commands in (("--quiet", JUDGES), ("--verbose", JUDGES), ("--json", TELLS)):
        assert {command for command, names in having.items() if name in names} == commands, name


@pytest.fixture
def cards(tmp_path, monkeypatch):
    """A folder with right.toml, wrong.toml and their runs."""
    monkeypatch.chdir(tmp_path)
    write_right(tmp_path)
    write_wrong(tmp_path)
    for name in ("right", "wrong"):
        main(["check", f"{name}.toml", "--json", f"{name}.json", "--bundle", f"{name}.bundle", "--case", "one"])
        (tmp_path / f"{name}_plan.toml").write_text(f'[[subjects]]\npaths = ["{name}.toml"]\n')
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["check", "{}.toml"], ["diagnose", "{}.toml", "--effort", "quick"], ["report", "{}.json"],
        ["replay", "{}.bundle"], ["compare", "right.json", "{}.json"],
        ["campaign", "{}_plan.toml", "--here", "--effort", "none"], ["explain", "{}.toml", "d[0,0]"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_quiet_says_what_is_wrong_and_nothing_of_what_is_right(cards, capsys, words):
    def ran(name, *more):
        capsys.readouterr()
        code = main([*(word.format(name) for word in words), *more])
        return code, capsys.readouterr().out

    code, told = ran("right", "--quiet")
    assert code == 0 and told.replace("1 checks: 1 ok\n", "").replace("2 checks: 2 ok\n", "") == ""
    code, told = ran("wrong", "--quiet")
    assert code == 1 and told


ANSWERS = (
    ["check", "wrong.toml"], ["diagnose", "wrong.toml", "--effort", "quick"], ["explain", "wrong.toml", "d[0,0]"],
    ["report", "wrong.json"], ["compare", "right.json", "wrong.json"], ["replay", "wrong.bundle"], ["probe", "--list"],
    ["campaign", "wrong_plan.toml", "--here", "--effort", "none"], ["fragment", "m16n16k16", "f16", "a"], ["shapes"],
    ["bench", "right.toml", "--backend", "emulator"], ["doctor"], ["examples"],
)  # fmt: skip


@pytest.mark.slow
def test_json_goes_to_standard_output_alone_and_says_its_version(cards, capsys):
    assert {words[0] for words in ANSWERS} == TELLS - {"run"}  # a whole program: tests/cli/test_cli_run.py
    for words in ANSWERS:
        capsys.readouterr()
        main([*words, "--json", "-"])
        assert json.loads(capsys.readouterr().out)["format_version"] >= 1, words
    with pytest.raises(json.JSONDecodeError):
        main(["compare", "right.json", "wrong.json"])
        json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("quiet", [False, True])
def test_what_takes_long_is_told_on_a_terminal(monkeypatch, quiet):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(console, "FIRST", 0.05)
    shown = console.Console()
    shown.quiet = quiet
    with shown.doing("short"):
        pass
    assert screen.getvalue() == ""
    with shown.doing("reading k.cu"):
        time.sleep(0.5)
    assert ("reading k.cu, 0 s" in screen.getvalue()) == (not quiet)
    assert quiet or screen.getvalue().endswith("\x1b[K")  # and taken away


def test_what_a_shell_gets_names_every_command_and_option(capsys):
    assert main(["completion", "bash"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)
    assert all(name in text for name in options() if name.startswith("--"))
    script = text + "\nCOMP_WORDS=(wmmadiag che); COMP_CWORD=1; _shtab_wmmadiag; echo ${COMPREPLY[@]}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["check"], done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["chekc"], "did you mean 'check'"),
        (["check", "--jsno", "x"], "'--json'"),
        (["diagnose", "x.toml", "--effort", "quik"], "unknown --effort 'quik'\nnext: did you mean 'quick'?"),
        (["completion", "fihs"], "known here: bash, zsh, tcsh"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(words, hint, capsys):
    assert main(words) == 2 and hint in capsys.readouterr().err


@pytest.mark.subprocess
@pytest.mark.parametrize("code", ["import wmmadiag", "from wmmadiag.cli.main import main; main(['--help'])"])
def test_nothing_heavy_is_imported_before_it_is_used(code):
    heavy = (
        "numpy",
        "cuda",
        "jinja2",
        "msgspec",
        "tree_sitter",
        "prompt_toolkit",
        "pcpp",
        "ml_dtypes",
        "wmmadiag.emulator",
    )
    check = f"import sys; {code}; print([n for n in {heavy} if n in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


LACKING = """
import importlib.abc, sys

class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Lacking())
from wmmadiag.cli.main import main
sys.exit(main({words!r}))
"""
SEVERAL = '[[subjects]]\npaths = ["right.toml"]\n[axes]\nseeds = [0, 1]\nschedules = [0, 1]\n'


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("names", "words", "said"),
    [
        (["dask", "distributed"], ["campaign", "right_plan.toml", "--effort", "none"], "wmmadiag[cluster]"),
        (["allpairspy"], ["campaign", "several.toml", "--here", "--effort", "none"], "wmmadiag[cluster]"),
        (["shtab"], ["completion", "bash"], "wmmadiag[completion]"),
        (["jinja2"], ["report", "right.json", "--html", "page.html"], "jinja2 is not installed"),
    ],
    ids=lambda one: one[0],
)
def test_a_package_that_is_not_there_is_named_with_what_installs_it(cards, names, words, said):
    (cards / "several.toml").write_text(SEVERAL)
    done = subprocess.run(
        [sys.executable, "-c", LACKING.format(names=names, words=words)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2 and said in done.stderr and "pip install" in done.stderr, done.stderr


@pytest.mark.subprocess
def test_a_campaign_of_one_axis_on_this_machine_needs_no_extra(cards):
    words = ["campaign", "right_plan.toml", "--here", "--effort", "none"]
    script = LACKING.format(names=["allpairspy", "dask", "distributed"], words=words)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
