"""What holds for all tests: hypothesis finds mistakes, not busy machines; Ctrl-C is what it is on a terminal.

What one test has compiled, no other compiles again, nor does the next session. Products of matrices take one thread,
as under the command.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import chromium
import compilations
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("wmmadiag", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wmmadiag")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it in what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of interpreters: each would compile the package anew, a third of what its command takes. So would
# every worker each file of tests, whose assertions pytest rewrites.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# NumPy reads them when it is loaded, which the imports above do not: where all processors are busy, the threads of one
# small product wait for each other for twenty times its own time.
for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

COMPILERS_OWN = ("compile", "processes", "fuzz")
"""Folders whose tests are about compiling itself."""


def pytest_configure(config: pytest.Config) -> None:
    """A folder for NVRTC's answers; under pytest-xdist one for all workers, which have a processor each."""
    if hasattr(config, "workerinput"):
        from wmmadiag.diagnose.trials import team

        several = team.processes
        team.processes = lambda threads: several(threads or 1)
    elif config.pluginmanager.hasplugin("cacheprovider"):
        os.environ[compilations.VARIABLE] = str(config.cache.mkdir("compiled"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """What is no longer asked for goes."""
    if not hasattr(config, "workerinput") and (folder := os.environ.pop(compilations.VARIABLE, "")):
        compilations.forget_unused(Path(folder))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a set of kernels or programs that one test runs through, one of five is quick enough for `scripts/test`, and
    one more of the set is run before a change lands."""
    counted: Counter[str] = Counter()
    for item in items:
        if item.get_closest_marker("corpus"):
            name = item.nodeid.partition("[")[0]
            counted[name] += 1
            if counted[name] % 5:
                item.add_marker(pytest.mark.slow)
            if counted[name] % 5 and counted[name] != 3:
                item.add_marker(pytest.mark.rest)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compilations are shared by tests that are about something else."""
    compilations.serve(not set(COMPILERS_OWN) & set(item.path.parts))


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    """A folder for a cache that some tests share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Exit code, standard output and standard error of a command."""

    from wmmadiag.cli.main import main

    def call(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def browser():
    """A real browser with one page."""
    executable = chromium.find()
    if executable is None:
        pytest.skip("no Chromium: install it, or name it in WMMADIAG_CHROMIUM")
    with chromium.Browser(executable) as one:
        yield one
