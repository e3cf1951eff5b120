"""docs/architecture.md, "To add something", to the letter: in a copy of the package, with its pages made anew."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("\n## To add something\n")[1]
BLOCK = re.compile(r"^```(python|diff)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OF_THE_ROOMS = ("checks/test_registry.py", "ops/test_operation_registry.py")
"""Tests of the rooms that look at all that is registered there."""
# An editable installation's finder comes before every folder: without it, the copy is what is imported.
RUN = """import sys
sys.meta_path[:] = [one for one in sys.meta_path if not type(one).__module__.startswith("_editable")]
sys.path.insert(0, sys.argv[1])
import runpy, pytest, wmmadiag
assert wmmadiag.__path__[0].startswith(sys.argv[1]), wmmadiag.__path__
words, sys.argv[1:] = sys.argv[2:], []
runpy.run_path("scripts/pages", run_name="__main__")
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *words]))
"""


def inserted(text: str, difference: str) -> str:
    """A text with a difference's `+` lines put where its other lines, which follow each other in the text, stand."""
    lines = difference.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] == " ")
    assert text.count(before) == 1, f"not once in the file: {before!r}"
    return text.replace(before, "".join(line[1:] for line in lines))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A copy of the package and of what its tests need, with what the page adds; and the page's tests."""
    folder = tmp_path_factory.mktemp("copy")
    import wmmadiag

    for root in (*reversed(list(wmmadiag.__path__)), str(ROOT / "wmmadiag")):  # built files first, where that is apart
        shutil.copytree(root, folder / "wmmadiag", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copytree(ROOT / "tests" / "support", folder / "tests" / "support")
    shutil.copy(ROOT / "tests" / "conftest.py", folder / "tests")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("scripts", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "images"))
    for name in ("kernels", "probes"):
        (folder / name).symlink_to(ROOT / name)
    tests = []
    for kind, name, text in BLOCK.findall(PAGE):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert path.exists() == (kind == "diff"), name
        path.write_text(inserted(path.read_text("utf-8"), text) if kind == "diff" else text, "utf-8")
        tests += [name] if name.startswith("tests/") else []
    for name in OF_THE_ROOMS:
        (folder / "tests" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
    return folder, tests


def test_five_things_are_added_and_each_has_a_test(copy: tuple[Path, list[str]]) -> None:
    assert len(re.findall(r"^### ", PAGE, re.MULTILINE)) == len(copy[1]) == 5


@pytest.mark.subprocess
@pytest.mark.slow
def test_what_the_page_adds_works_and_the_rooms_tests_pass(copy: tuple[Path, list[str]]) -> None:
    folder, tests = copy
    rooms = [f"tests/{name}" for name in OF_THE_ROOMS]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *tests, *rooms],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout)


def test_a_difference_that_fits_nowhere_is_no_difference() -> None:
    assert inserted("a\nb\n", " a\n+c\n") == "a\nc\nb\n"
    with pytest.raises(AssertionError, match="not once"):
        inserted("a\na\n", " a\n+c\n")
