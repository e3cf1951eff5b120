"""A header that was not found: which folder to give, where one near the source has it."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path, PurePosixPath

from wmmadiag.compile.read import is_file

_MOST_FOLDERS = 1500
_UP = 3
_SKIPPED = frozenset({"node_modules", "__pycache__", "build", "site-packages"})


def where_to_find(name: str, includer: str) -> str:
    """The next step for a header that was not found: the option that leads to it, or what to look for."""
    folder = _folder_with(name, Path(includer).resolve().parent)
    if folder is not None:
        return f"give the include path that has it: -I {folder}"
    return f"give its folder as an include path: -I FOLDER, so that FOLDER/{name} is the header"


def _folder_with(name: str, start: Path) -> str | None:
    """The nearest folder, around the source and a few levels up, under which the header is; None where none is."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        return None
    tops = [start, *list(start.parents)[:_UP]]
    seen: set[str] = set()
    budget = _MOST_FOLDERS
    for top in tops:
        if top == Path(top.anchor) or top == Path.home():
            break
        waiting = deque([str(top)])
        while waiting and budget:
            folder = waiting.popleft()
            if folder in seen:
                continue
            seen.add(folder)
            budget -= 1
            if is_file(Path(folder, *parts)):
                return _shown(Path(folder))
            waiting.extend(_below(folder))
    return None


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


def _shown(folder: Path) -> str:
    try:
        return folder.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return folder.as_posix()
