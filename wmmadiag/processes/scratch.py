"""Folders for files that pass: gone with their process, however that ends.

A process that is killed removes nothing, so the next one does: each folder holds a file that its process keeps locked
(flock(2)), and the system gives the lock up when the last process that holds it is gone, whatever ended it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "wmmadiag-"
_OWNER = ".owner"
_LOCK = threading.Lock()
_roots: dict[int, Path] = {}  # of processes: this one, and those that it was copied from


def scratch_folder(what: str) -> Path:
    """A fresh folder of this process's own, where the system has files that pass.

    Args:
        what: a word for its name.

    Raises:
        OSError: none can be made.
    """
    with _LOCK:
        root = _roots.get(os.getpid())
        if root is None or not root.is_dir():
            _remove_left(Path(tempfile.gettempdir()))
            root = _roots[os.getpid()] = _owned()
    return Path(tempfile.mkdtemp(prefix=f"{what}-", dir=root))


@atexit.register
def leave() -> None:
    """Remove all of this process's folders; for a process that ends without the interpreter's own end."""
    if (root := _roots.pop(os.getpid(), None)) is not None:
        shutil.rmtree(root, ignore_errors=True)


def _owned() -> Path:
    """A folder with a locked file; it has its name once that is so."""
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    owner = os.open(made / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # a file system without locks: then nobody can take it, either
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return made.rename(made.with_name(made.name[1:]))


def _remove_left(around: Path) -> None:
    """Remove what processes left that are gone: this user's folders, by locks that nobody holds."""
    for folder in _ours(around):
        try:
            owner = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # none of these folders, or another process removes it
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process is there
        finally:
            os.close(owner)


def _ours(around: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(around) as entries:
        for one in entries:
            if not one.name.startswith(_PREFIX) or not one.is_dir(follow_symlinks=False):
                continue
            if one.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield Path(one.path)
