"""C++ symbol names for people."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

# NVRTC gives static functions a prefix of their own: _INTERNAL_<hash>_<length>_<file>_<name>.
_INTERNAL = re.compile(r"\b_INTERNAL_\w+::|\(anonymous namespace\)::")


@cache
def _runtime() -> Callable[[bytes], bytes | None] | None:
    """`__cxa_demangle` of the C++ runtime, which the native core needs anyway; None where it cannot be had."""
    names = ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.1.dylib", "libc++.1.dylib")
    for name in names:
        try:
            library = ctypes.CDLL(name)
            function = library.__cxa_demangle
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_void_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        free = ctypes.CDLL(None).free
        free.argtypes = [ctypes.c_void_p]

        def call(name: bytes) -> bytes | None:
            status = ctypes.c_int()
            result = function(name, None, None, ctypes.byref(status))  # noqa: B023
            if not result:
                return None
            try:
                return ctypes.string_at(result)
            finally:
                free(result)  # noqa: B023

        return call
    return None


@cache
def demangle(name: str) -> str:
    """`_Z1kPfi` → `k(float*, int)`; a name that is not mangled, or cannot be read, stays as it is."""
    if not name.startswith("_Z"):
        return name
    runtime = _runtime()
    result = runtime(name.encode()) if runtime else None
    return _INTERNAL.sub("", result.decode("utf-8", "replace")) if result else name


def short_name(readable: str) -> str:
    """A demangled name without its return type, template arguments and parameters: `void ns::f<3>(int)` → `ns::f`."""
    kept = []
    depth = 0
    for character in readable:
        if character == "(" and not depth:
            break
        depth += character == "<"
        if not depth:
            kept.append(character)
        depth -= character == ">"
    name = "".join(kept).split(" ")[-1]
    return name if name and depth == 0 and "operator" not in readable else readable
