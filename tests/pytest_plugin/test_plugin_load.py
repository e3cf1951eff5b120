"""What the plugin costs a suite that does not use it: nothing heavy is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEAVY = (
    "numpy",
    "cuda",
    "ml_dtypes",
    "msgspec",
    "jinja2",
    "wmmadiag.api",
    "wmmadiag.testing.cards",
    "wmmadiag.testing.close",
    "wmmadiag.subject",
)


@pytest.mark.subprocess
def test_nothing_is_loaded_that_nobody_uses(tmp_path):
    (tmp_path / "test_own.py").write_text("def test_own(): pass\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    program = (
        "import sys, pytest\n"
        f"code = pytest.main([{str(tmp_path)!r}, '-q', '-p', 'wmmadiag.pytest_plugin', '-p', 'no:xdist'])\n"
        f"loaded = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert 'wmmadiag.pytest_plugin' in sys.modules and not loaded, loaded\n"
        "sys.exit(code)"
    )
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_installation_has_it():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"wmmadiag": "wmmadiag.pytest_plugin"}
