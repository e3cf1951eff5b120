"""A header that was not found: which folders near the source have it."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from wmmadiag.compile.host_headers import is_host_header
from wmmadiag.compile.read import is_file

_MOST_FOLDERS = 1500
_UP = 3
_MOST_SHOWN = 3
_SKIPPED = frozenset({"node_modules", "__pycache__", "build", "site-packages"})


_CONDITION = re.compile(rb"\s*#\s*(?:if|ifdef|ifndef|elif|else|endif)\b")
_INCLUDE = re.compile(rb'\s*#\s*include\s*[<"]([^">]+)[">]')


def read_with(data: bytes, line: int, unresolved: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Other headers that are not there, of directives under the condition of the one on a line, with their own lines.

    A compiler stops at each.
    """
    lines = data.split(b"\n")
    for step in (-1, 1):
        at = line - 1 + step
        while 0 <= at < len(lines) and not _CONDITION.match(lines[at]):
            found = _INCLUDE.match(lines[at])
            name = found[1].decode("utf-8", "replace") if found is not None else ""
            if name in unresolved and not is_host_header(name):
                yield name, at + 1
            at += step


def where_to_find(name: str, includer: str) -> str:
    """The next step for a header that was not found: the option that leads to it, or what to look for."""
    folders = [shown(one) for one in islice(folders_with(name, Path(includer).resolve().parent), _MOST_SHOWN)]
    if folders:
        several = "one of the include paths that have" if len(folders) > 1 else "the include path that has"
        return f"give {several} it: {' or '.join(f'-I {one}' for one in folders)}"
    return f"give its folder as an include path: -I FOLDER, so that FOLDER/{name} is the header"


def folders_with(name: str, start: Path) -> Iterator[Path]:
    """The folders under which the header is: those around the source, or, where none is, a level up, and so on."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        return
    tops = [start, *list(start.parents)[:_UP]]
    seen: set[str] = set()
    budget = _MOST_FOLDERS
    for top in tops:
        if top == Path(top.anchor) or top == Path.home():
            break
        found = False
        waiting = deque([str(top)])
        while waiting and budget:
            folder = waiting.popleft()
            if folder in seen:
                continue
            seen.add(folder)
            budget -= 1
            if is_file(Path(folder, *parts)):
                found = True
                yield Path(folder)
            waiting.extend(_below(folder))
        if found:
            return


def _below(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return sorted(
                one.path
                for one in found
                if not one.name.startswith(".") and one.name not in _SKIPPED and one.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def shown(folder: Path) -> str:
    """A folder as one would type it here."""
    try:
        return folder.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return folder.as_posix()
