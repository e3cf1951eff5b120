"""Folders near a source that leave no doubt: each alone has a header that the source includes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from wmmadiag.compile.driver import is_provided
from wmmadiag.compile.host_headers import is_host_header
from wmmadiag.compile.missing import folders_with, shown
from wmmadiag.compile.read import read_text
from wmmadiag.compile.sources import read_tree
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.errors import WmmadiagError

_ROUNDS, _MOST_HEADERS = 4, 8  # headers of headers; of one round


def near_folders(source: Path, include_paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The folders near a source that alone have a header which it includes, and no include path leads to.

    Yields:
        The header as it is included, and the folder to search for it.
    """
    try:
        text, tools = read_text(source), toolchain()
        searched, looked_for = [*include_paths], set[str]()
        for _ in range(_ROUNDS):
            tree = read_tree(text, source.as_posix(), searched, lambda name: is_provided(name, tools))
            wanted = [one for one in tree.unresolved if one not in looked_for and not is_host_header(one)]
            looked_for |= set(wanted)
            found = [(one, _only(folders_with(one, source.resolve().parent))) for one in wanted[:_MOST_HEADERS]]
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
    return Path(shown(first)) if first is not None and second is None else None
