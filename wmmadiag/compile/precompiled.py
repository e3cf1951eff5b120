"""Headers that NVRTC keeps precompiled, where one source is compiled again and again with small changes."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Mapping
from pathlib import Path

from wmmadiag.compile.toolchain import Toolchain, nvrtc_module

_FIRST = (12, 8)
"""First NVRTC with `--pch` (NVRTC manual, "Precompiled Header (PCH)")."""


IN_USE = threading.RLock()
"""Held while NVRTC compiles with precompiled headers, and while they are removed: they are the whole process's."""


_ROOM = 1 << 30
"""Bytes of address space for one set of headers: CUTLASS's GEMM takes 463 million, NVRTC's own limit is 256 MiB."""


@functools.cache
def _make_room() -> None:
    set_size = getattr(nvrtc_module(), "nvrtcSetPCHHeapSize", None)
    if set_size is not None:
        set_size(_ROOM)


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
