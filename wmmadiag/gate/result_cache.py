"""Results of checks kept on disk, so that a kernel that nobody changed costs nothing.

A result is found again only if nothing that it depends on has changed: the card and its sources with every header that
they can include, the options, the architecture, and this package itself. What cannot be known to be unchanged is not
kept: a reference in Python (it can read anything), computed includes, a GPU's
answer, whatever ended for lack of time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wmmadiag.errors import WmmadiagError
from wmmadiag.gate.task import Task, TaskOutcome
from wmmadiag.subject.card import Card

KIND = "results"
_FLEETING = ("budget", "configuration", "compile")
"""Problems that depend on the time it took, or on what is installed."""


def result_key(task: Task) -> str | None:
    """The name of a task's result: a hash of all that it depends on; None if that cannot be told.

    Paths count as they were given, since reports show them.
    """
    options = task.options
    if not options.get("use_cache", True) or options.get("backend", "emulator") != "emulator":
        return None
    if options.get("against") is not None or options.get("resources") or task.path.suffix != ".toml":
        return None
    try:
        return _key(task)
    except (WmmadiagError, OSError):
        return None  # the check itself says what is wrong


def _key(task: Task) -> str | None:
    from wmmadiag.api import open_card
    from wmmadiag.api.options import SubjectKeywords
    from wmmadiag.compile.cache import digest
    from wmmadiag.subject.target import card_target

    text = task.path.read_bytes()
    named = SubjectKeywords.__annotations__.keys() & task.options.keys()
    card = open_card(task.path, **{name: task.options[name] for name in named})
    if card.computes.operation == "python":
        return None
    arch = card_target(card, task.arch, "emulator")
    parts = [tool_fingerprint(), str(task.path), text.decode("utf-8", "surrogateescape"), arch, str(task.record)]
    parts += [repr(task.cases), repr(task.variants), str(task.diagnose), *_words(task.options)]
    for source in dict.fromkeys([card.source, *(one.source for one in card.variants if one.source is not None)]):
        key = _source_key(card, source, arch)
        if key is None:
            return None
        parts += [str(source), key]
    return digest(parts)


def _words(options: Mapping[str, Any]) -> list[str]:
    """Options as text, limits of time and work left out: a result that hit one is not kept."""
    return [f"{name}={value!r}" for name, value in sorted(options.items()) if name not in ("use_cache", "limits")]


def _source_key(card: Card, source: Path, arch: str) -> str | None:
    from wmmadiag.compile.driver import source_key, source_tree
    from wmmadiag.compile.languages import is_ptx
    from wmmadiag.compile.model import source_name
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.compile.sources import read_text
    from wmmadiag.compile.toolchain import toolchain

    options = CompileOptions(arch=arch, include_paths=card.include_paths, std=card.std)
    text = read_text(source)
    if is_ptx(source):
        return text
    tools = toolchain()
    tree = source_tree(text, source_name(source), options, tools)
    return None if tree.computed else source_key(tree, options, tools)


@functools.cache
def tool_fingerprint() -> str:
    """A hash of this package's files, the interpreter's version and those of the packages that compute."""
    from importlib import metadata

    from wmmadiag.compile.cache import digest

    folder = Path(__file__).parents[1]
    parts = [sys.version]
    for name in ("numpy", "ml-dtypes", "msgspec"):
        try:
            parts.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            parts.append(name)
    for path in sorted(folder.rglob("*")):
        if path.suffix != ".pyc" and "__pycache__" not in path.parts and path.is_file():
            parts += [path.relative_to(folder).as_posix(), path.read_bytes().decode("utf-8", "surrogateescape")]
    return digest(parts)


def cached_outcome(task: Task, key: str) -> TaskOutcome | None:
    """A task's outcome from an earlier run; None if there is none, or it cannot be read."""
    import msgspec

    from wmmadiag.compile import cache
    from wmmadiag.results.run import KernelRun

    record = cache.load(key, KIND)
    if record is None:
        return None
    try:
        # Not strict: "nan" and "inf" stand for numbers that JSON has not.
        run = msgspec.convert(record, KernelRun, strict=False)
    except msgspec.ValidationError:
        return None
    return TaskOutcome(
        task,
        run.report,
        code=run.report.exit_code,
        recorded=run if task.record else None,
        diagnoses=run.diagnoses,
        cached=True,
    )


def keep_outcome(outcome: TaskOutcome, key: str) -> None:
    """Keep an outcome, if it will be the same next time and its files are still those that `key` was made of."""
    from wmmadiag.compile import cache
    from wmmadiag.results.model import to_builtins
    from wmmadiag.results.run import KernelRun

    report = outcome.report
    if report is None or any(
        case.status == "error" or (case.problem is not None and case.problem.kind in _FLEETING) for case in report.cases
    ):
        return
    if result_key(outcome.task) != key:
        return  # somebody wrote to a file meanwhile: which of its states was checked is not known
    recorded = outcome.recorded or KernelRun(report)
    cache.store(key, to_builtins(replace(recorded, diagnoses=outcome.diagnoses)), KIND)
