"""C sources that call libraries whose headers here are C++: the same text for the C++ compiler."""

from __future__ import annotations

from collections.abc import Iterable

from wmmadiag.errors import CompileError

AS_CPP = ("-fpermissive", "-w", "-Drestrict=__restrict__", "-D_Bool=bool")
"""Words for the C++ compiler: what C converts by itself is taken."""


def of_a_library(refused: CompileError, folder: str) -> bool:
    """Whether the C compiler stopped in one of our own headers, which lie in `folder`."""
    return refused.place is not None and refused.place.file.startswith(folder)


def as_cpp(text: bytes, headers: Iterable[str]) -> bytes:
    """A C source as C++ whose functions keep C's linkage, so that other sources of the program find them.

    Args:
        text: the source; its lines keep their numbers where it begins with a `#line`.
        headers: the headers of others that it reads: they have their own linkage, so they are read before.
    """
    read = "".join(f"#if __has_include(<{one}>)\n#include <{one}>\n#endif\n" for one in headers)
    return read.encode() + b'extern "C" {\n' + text + b"\n}\n"
