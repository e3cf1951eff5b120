"""The pytest plugin: kernel cards as tests, and reports of comparisons that fail. Loads nothing before it is needed.

`pytest kernels/` makes one test of each case, variant and architecture of every card there. Other TOML files are left
alone, and so are kernels that are broken on purpose (a truth file stands beside them), unless they are named.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from wmmadiag.testing.options import OPTIONS, option, reports_folder

if TYPE_CHECKING:
    from wmmadiag.testing.cards import CardFile

_FORMAT = re.compile(rb"^\s*format\s*=\s*\d+", re.MULTILINE)
_OTHER_KEYS = re.compile(rb"^\s*\[*\s*(source|entry|arguments|launch|computes)\b", re.MULTILINE)
_MAX_CARD = 1 << 20
_LEFT_OUT = pytest.StashKey[set[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and their equals in the configuration file: `--wmmadiag-arch sm_80`, `wmmadiag_arch = sm_80`."""
    group = parser.getgroup("wmmadiag", "kernel cards as tests (wmmadiag)")
    for name, action, metavar, text in OPTIONS:
        group.addoption(f"--wmmadiag-{name}", action=action, metavar=metavar, default=None, help=text)
        kind: Literal["args", "string"] = "args" if name == "arch" else "string"
        parser.addini(f"wmmadiag_{name}", text, type=kind, default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Name the marker; under pytest-xdist give each worker a GPU of its own, where GPUs are asked for."""
    config.addinivalue_line("markers", "wmmadiag: a case of a kernel card")
    if hasattr(config, "workerinput") and option(config, "backend") in ("gpu", "both"):
        from wmmadiag.testing.workers import choose_gpu

        choose_gpu(str(config.workerinput["workerid"]))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CardFile | None:
    """A card's tests."""
    if file_path.suffix != ".toml" or file_path.name.endswith(".truth.toml") or not _is_card(file_path):
        return None
    truth = file_path.with_name(f"{file_path.stem}.truth.toml")
    if truth.is_file() and not parent.session.isinitpath(file_path):
        parent.config.stash.setdefault(_LEFT_OUT, set()).add(file_path)
        return None
    from wmmadiag.testing.cards import CardFile

    made: CardFile = CardFile.from_parent(parent, path=file_path)
    return made


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Say what was left out."""
    # pytest looks at the files of all folders above the named ones, too.
    named = [config.invocation_params.dir / argument.split("::")[0] for argument in config.args]
    count = sum(any(map(path.is_relative_to, named)) for path in config.stash.get(_LEFT_OUT, ()))
    return [f"wmmadiag: {count} kernels that are broken on purpose were left out; name one to run it"] if count else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the report of a comparison that failed, and name it."""
    report = yield
    write = getattr(call.excinfo.value, "wmmadiag_write", None) if call.excinfo is not None else None
    if write is not None and report.failed:
        folder = reports_folder(item.config)
        if folder is not None:
            report.sections.append(("wmmadiag", str(write(folder, item.nodeid))))
    return report


def _is_card(path: Path) -> bool:
    """Whether a TOML file means to be a card: its format, and at least two of the other keys that every card has."""
    try:
        if path.stat().st_size > _MAX_CARD:
            return False
        text = path.read_bytes()
    except OSError:
        return False
    return _FORMAT.search(text) is not None and len(set(_OTHER_KEYS.findall(text))) >= 2


@pytest.fixture
def check_kernel(request: pytest.FixtureRequest) -> Any:
    """A function: `check_kernel(card or source, **options of wmmadiag.check)`, with the session's `--wmmadiag-…`.

    It returns the report, and fails the test, with the diagnosis as its text, if not every case passed.
    """
    from wmmadiag.testing.cards import checker

    return checker(request)
