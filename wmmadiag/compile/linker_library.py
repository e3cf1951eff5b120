"""nvJitLink's C interface as far as it is used, by ctypes: what ptxas, which is in it, reports of PTX."""

from __future__ import annotations

import contextlib
import ctypes
import functools

from wmmadiag.compile.toolchain import in_wheels

_PTX = 2
"""NVJITLINK_INPUT_PTX of nvJitLink.h."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    path = in_wheels("lib/libnvJitLink.so.*[0-9]")
    with contextlib.suppress(OSError):
        library = None if path is None else ctypes.CDLL(str(path))
        return library if hasattr(library, "nvJitLinkCreate") else None
    return None


def assembler_log(ptx: str, arch: str, name: str) -> tuple[bool, str] | None:
    """Whether PTX can be assembled, and ptxas' words about it; None where no nvJitLink is installed, or it is older.

    Args:
        name: what errors call the text.
    """
    library = _library()
    if library is None:
        return None
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 2)(f"-arch={arch}".encode(), b"-verbose")
    if library.nvJitLinkCreate(ctypes.byref(handle), len(options), options) != 0:
        return None
    data = ptx.encode("utf-8", "surrogateescape") + b"\0"
    try:
        done = (
            library.nvJitLinkAddData(handle, _PTX, data, ctypes.c_size_t(len(data)), name.encode()) == 0
            and library.nvJitLinkComplete(handle) == 0
        )
        log = "".join(_log(library, handle, kind) for kind in ("Info", "Error"))
    finally:
        library.nvJitLinkDestroy(ctypes.byref(handle))
    return None if "Unsupported .version" in log else (done, log)


def _log(library: ctypes.CDLL, handle: ctypes.c_void_p, kind: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    getattr(library, f"nvJitLinkGet{kind}Log")(handle, text)
    return text.value.decode("utf-8", "replace")
