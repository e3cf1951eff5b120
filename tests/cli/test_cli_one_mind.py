"""The same option is the same in every command; a shell can complete all of them; imports are light."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from importlib import import_module

import pytest

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
    "--seconds": "of a launch, of one explanation, of one probe",
    "--std": "host code of a program needs one",
}
"""Options that are not alike in all commands, and why."""


def options():
    found = defaultdict(set)
    for command in COMMANDS:
        parser = Parser(prog="wmmadiag", description=None)
        import_module(f"wmmadiag.cli.{command}").add_arguments(parser)
        for action in parser._actions:
            default = None if action.default in ("", (), []) else repr(action.default)
            default = None if default in ("None", "False") else default
            shape = (action.metavar, default, action.nargs, tuple(action.choices or ()), type(action).__name__)
            for name in action.option_strings:
                found[name].add((*shape, tuple(action.option_strings)))
    return found


def test_the_same_option_has_the_same_meaning_and_default_in_every_command():
    unlike = {name for name, shapes in options().items() if len(shapes) > 1}
    assert unlike == set(DIFFERS)


def test_what_a_shell_gets_names_every_command_and_option(capsys):
    assert main(["completion", "bash"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in COMMANDS)
    assert all(name in text for name in options() if name.startswith("--"))
    script = text + "\nCOMP_WORDS=(wmmadiag che); COMP_CWORD=1; _shtab_wmmadiag; echo ${COMPREPLY[@]}\n"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["check"], done.stderr


@pytest.mark.parametrize(
    ("words", "hint"), [(["chekc"], "did you mean 'check'"), (["check", "--jsno", "x"], "'--json'")]
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
