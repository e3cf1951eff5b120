"""A header that was not found: which folder near the source has it, and whether it alone does."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath

from wmmadiag.compile.read import is_file, read_text
from wmmadiag.errors import WmmadiagError

_MOST_FOLDERS = 1500
_UP = 3
_MOST_SHOWN = 3
_ROUNDS, _MOST_HEADERS = 4, 8  # headers of headers; of one round
_SKIPPED = frozenset({"node_modules", "__pycache__", "build", "site-packages"})


def near_folders(source: Path, include_paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The folders near a source that alone have a header which it includes, and no include path leads to.

    Yields:
        The header as it is included, and the folder to search for it.
    """
    from wmmadiag.compile.driver import is_provided
    from wmmadiag.compile.host_headers import is_host_header
    from wmmadiag.compile.sources import read_tree
    from wmmadiag.compile.toolchain import toolchain

    try:
        text, tools = read_text(source), toolchain()
        searched, looked_for = [*include_paths], set[str]()
        for _ in range(_ROUNDS):
            tree = read_tree(text, source.as_posix(), searched, lambda name: is_provided(name, tools))
            wanted = [one for one in tree.unresolved if one not in looked_for and not is_host_header(one)]
            looked_for |= set(wanted)
            found = [(one, _only(_folders_with(one, source.resolve().parent))) for one in wanted[:_MOST_HEADERS]]
            new = [(name, folder) for name, folder in found if folder is not None and folder not in searched]
            for name, folder in new:
                if folder not in searched:
                    searched.append(folder)
                    yield name, folder
            if not new:
                return
    except WmmadiagError:
        return  # whoever compiles it says so


def _only(folders: Iterator[Path]) -> Path | None:
    """The folder, where there is one and no other."""
    first, second = next(folders, None), next(folders, None)
    return Path(_shown(first)) if first is not None and second is None else None


def where_to_find(name: str, includer: str) -> str:
    """The next step for a header that was not found: the option that leads to it, or what to look for."""
    folders = [_shown(one) for one in islice(_folders_with(name, Path(includer).resolve().parent), _MOST_SHOWN)]
    if folders:
        several = "one of the include paths that have" if len(folders) > 1 else "the include path that has"
        return f"give {several} it: {' or '.join(f'-I {one}' for one in folders)}"
    return f"give its folder as an include path: -I FOLDER, so that FOLDER/{name} is the header"


def _folders_with(name: str, start: Path) -> Iterator[Path]:
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


def _shown(folder: Path) -> str:
    try:
        return folder.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return folder.as_posix()
