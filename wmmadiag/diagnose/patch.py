"""Changes as unified diffs that `git apply` and `patch -p1` take."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path


def unified(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> str:
    """The diff of the files that differ; both by path."""
    parts: list[str] = []
    for file, text in old.items():
        if new[file] != text:
            shown = path_in_patch(Path(file))
            parts += difflib.unified_diff(
                text.decode("utf-8", "replace").splitlines(keepends=True),
                new[file].decode("utf-8", "replace").splitlines(keepends=True),
                f"a/{shown}",
                f"b/{shown}",
            )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)


def path_in_patch(file: Path) -> str:
    """How a diff calls a file: from its repository's root on, as git expects; else from the current folder on."""
    resolved = file.resolve()
    root = next((folder for folder in resolved.parents if (folder / ".git").exists()), Path.cwd())
    return str(resolved.relative_to(root) if resolved.is_relative_to(root) else resolved).lstrip("/")
