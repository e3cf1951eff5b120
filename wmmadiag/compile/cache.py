"""Compilations (and results of checks) kept on disk: one file each, named by a hash of all that it depends on.

Each kind has a folder of its own and bounds of its own. A file appears whole or not at all, so that processes share it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FORMAT = 1
MAX_FILES = 4096
MAX_BYTES = 256 * 2**20
_PART = 64
"""A process looks whether a folder is too large at its first store there, and after each such part of the limits."""
_WAITED, _LOOKED_EVERY = 60.0, 0.02
"""Seconds that a process waits at most for what another one makes, and after which it looks again."""
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


@contextlib.contextmanager
def alone(key: str) -> Iterator[None]:
    """Make what is to be stored under `key` while no other process does: who waits finds it stored afterwards.

    Where files cannot be locked, or another process takes longer than `_WAITED` seconds, all go on: twice is no harm.
    """
    path = _path(key, "compile").with_suffix(".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        yield
        return
    try:
        _locked(file)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(file)


def _locked(file: int) -> None:
    end = time.monotonic() + _WAITED
    while time.monotonic() < end:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOKED_EVERY)
        except OSError:
            return
        else:
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
