"""Headers that NVRTC keeps precompiled, where one source is compiled again and again with small changes."""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wmmadiag.compile.toolchain import Toolchain, nvrtc_library
from wmmadiag.processes.scratch import scratch_folder

_FIRST = (12, 8)
"""First NVRTC with `--pch` (NVRTC manual, "Precompiled Header (PCH)")."""


_LOCK = threading.Lock()
_UNUSED: deque[Path] = deque()


@contextmanager
def in_use() -> Iterator[None]:
    """Held while NVRTC compiles with precompiled headers: they are the whole process's."""
    with _LOCK:
        try:
            yield
        finally:
            _sweep()


def discard(folder: Path) -> None:
    """Remove a folder of precompiled headers, after what compiles now.

    It waits for nobody: a finaliser calls it, in whichever thread collects, that of the compiler among them.
    """
    _UNUSED.append(folder)
    if _LOCK.acquire(blocking=False):
        try:
            _sweep()
        finally:
            _LOCK.release()


class Folder:
    """Where NVRTC keeps precompiled headers: gone with this."""

    @functools.cached_property
    def path(self) -> Path:
        """It, made when it is first needed."""
        found = scratch_folder("headers")
        weakref.finalize(self, discard, found)
        return found


@atexit.register
def _sweep() -> None:
    while _UNUSED:
        shutil.rmtree(_UNUSED.popleft(), ignore_errors=True)


_ROOM = 1 << 30
"""Bytes of address space for one set of headers: CUTLASS's GEMM takes 463 million, NVRTC's own limit is 256 MiB."""


@functools.cache
def _make_room() -> None:
    nvrtc_library().make_room(_ROOM)


def precompiling(headers: Mapping[str, bytes], folder: Path, tools: Toolchain) -> list[str]:
    """The options that make NVRTC keep and use precompiled headers; none where it cannot.

    NVRTC holds the text before the first declaration and the macros against those of a precompiled header, but not the
    contents of headers in memory: each set of these has a folder of its own.

    Args:
        headers: name in the directive → text, as they are given to NVRTC.
        folder: where to keep them; useless to another process.
    """
    if tools.version < _FIRST:
        return []
    _make_room()
    digest = hashlib.sha256()
    for name, text in sorted(headers.items()):
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0" + text + b"\0")
    own = folder / digest.hexdigest()[:24]
    own.mkdir(parents=True, exist_ok=True)
    return ["--pch", f"--pch-dir={own}", "--pch-messages=false"]
