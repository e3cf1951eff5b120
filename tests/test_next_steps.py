"""Every error that a user may see says what to do next; whatever the system refuses of a path is no bug of ours."""

from __future__ import annotations

import ast
import errno
from pathlib import Path

import pytest

from wmmadiag.cli.main import main
from wmmadiag.errors import unreachable_of

PACKAGE = Path(__file__).parent.parent / "wmmadiag"
ERRORS = {
    "WmmadiagError", "ConfigurationError", "SeveralKernelsError", "CompileError", "PtxSyntaxError", "UndecidedError",
    "UnsupportedError", "BudgetError", "KernelFault",
}  # fmt: skip
CAUGHT = {"diagnose/trials/prepared.py", "diagnose/trials/programs.py"}
"""Where errors are about changed sources, which nobody but the diagnosis sees."""


def without_next_step(text: str) -> list[int]:
    """Lines of errors that are made without a hint."""
    made = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
    return [
        one.lineno
        for one in made
        if one.func.id in ERRORS and not any(each.arg in ("hint", None) for each in one.keywords)
    ]


@pytest.mark.slow
def test_every_error_names_a_next_step():
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    lacking = {name: without_next_step(path.read_text("utf-8")) for name, path in files.items()}
    assert {name: lines for name, lines in lacking.items() if lines and name not in CAUGHT} == {}
    assert all(lacking[name] for name in CAUGHT)
    assert without_next_step("raise ConfigurationError('no')\nraise UndecidedError('no', hint='do')") == [1]


@pytest.mark.parametrize(
    "words", [["bench", "{}"], ["check", "k.cu", "-I", "{}"], ["check", "{}.cu"], ["init", "{}.cu"]]
)
def test_a_path_that_the_system_refuses_is_told_with_its_cause(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text("__global__ void k(float* y) { *y = 1; }")
    long = "a" * 300
    assert main([word.format(long) for word in words]) == 2
    told = capsys.readouterr().err
    assert f"{long}" in told and "too long" in told and "\nnext: " in told and "bug" not in told


def test_only_what_the_system_says_of_a_path_is_a_user_s_matter():
    assert unreachable_of(PermissionError(errno.EACCES, "Permission denied", "/x")) == "/x: Permission denied"
    assert unreachable_of(OSError(errno.EACCES, "Permission denied")) == ""
    assert unreachable_of(FileNotFoundError(errno.ENOENT, "No such file", "/x")) == ""
