"""Compilations (and results of checks) kept on disk: one file each, named by a hash of all that it depends on.

Each kind has a folder of its own and bounds of its own. A file appears whole or not at all, so that processes share it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

FORMAT = 1
MAX_FILES = 4096
MAX_BYTES = 256 * 2**20
_PART = 64
"""A process looks whether a folder is too large at its first store there, and after each such part of the limits."""
_grew: dict[Path, tuple[int, int]] = {}
"""By folder: files and bytes that this process has stored there since it last looked."""


def cache_folder() -> Path:
    """`WMMADIAG_CACHE_DIR`, else `wmmadiag` in the user's cache folder (XDG base directory specification)."""
    override = os.environ.get("WMMADIAG_CACHE_DIR")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME") or ""
    # The specification: a relative path is invalid and must be ignored.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "wmmadiag"


def digest(parts: Iterable[str | bytes]) -> str:
    """SHA-256 over texts, each with its length, hexadecimal."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


@functools.cache
def code_fingerprint() -> str:
    """A hash of this package's own code and stub headers: what they do to a source is part of the result."""
    folder = Path(__file__).parent
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return digest(
        part
        for path in files
        for part in (path.relative_to(folder).as_posix(), path.read_bytes().decode("utf-8", "surrogateescape"))
    )


def load(key: str, kind: str = "compile") -> dict[str, Any] | None:
    """What was stored under `key`; None if nothing, or if the file is damaged or of another format."""
    path = _path(key, kind)
    try:
        text = path.read_text("utf-8")
        head, _, body = text.partition("\n")
        if head != _head(body):
            return None
        value = json.loads(body)
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # last used: what is pruned is what was not
    return value if isinstance(value, dict) else None


def store(key: str, value: dict[str, Any], kind: str = "compile") -> None:
    """Keep `value` (plain JSON data). Failing to do so (a full or read-only disk) is no error."""
    path = _path(key, kind)
    body = json.dumps(value)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{_head(body)}\n{body}")
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _grown(path.parent, len(body))
    except (OSError, UnicodeEncodeError):
        return


def _path(key: str, kind: str) -> Path:
    return cache_folder() / f"{kind}-{FORMAT}" / f"{key}.json"


def _head(body: str) -> str:
    return f"wmmadiag {FORMAT} {hashlib.sha256(body.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _grown(folder: Path, size: int) -> None:
    """Prune a folder where this process has stored one more file, unless it did so a few files ago: a search stores
    hundreds, and to look at all that is there takes as long as to lower a small program."""
    files, total = _grew.get(folder, (MAX_FILES, MAX_BYTES))
    files, total = files + 1, total + size
    if files > MAX_FILES // _PART or total > MAX_BYTES // _PART:
        files = total = 0
        _prune(folder)
    _grew[folder] = files, total


def _prune(folder: Path) -> None:
    """Remove the least recently used files above the limits."""
    entries = []
    with os.scandir(folder) as scan:
        for item in scan:
            with contextlib.suppress(OSError):  # another process removed it
                status = item.stat()
                entries.append((status.st_mtime_ns, status.st_size, item.path))
    total = sum(size for _, size, _ in entries)
    if len(entries) <= MAX_FILES and total <= MAX_BYTES:
        return
    entries.sort()
    count = len(entries)
    for _, size, path in entries[:-1]:
        # Down to nine tenths, so that a full cache is not pruned at each store.
        if count <= MAX_FILES * 9 // 10 and total <= MAX_BYTES * 9 // 10:
            break
        with contextlib.suppress(OSError):
            Path(path).unlink()
        count -= 1
        total -= size
