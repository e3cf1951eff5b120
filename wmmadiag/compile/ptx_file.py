"""A PTX file's bytes as text, and what is given as PTX and is none: cubins, archives, bitcode, UTF-16.

Drivers and `cuModuleLoadData` want PTX to end with a NUL, so tools write one or more; Windows editors write a byte
order mark. Neither is part of the text.
"""

from __future__ import annotations

from pathlib import Path

from wmmadiag.errors import ConfigurationError, PtxSyntaxError
from wmmadiag.place import Place

MOST_BYTES = 1 << 28
"""The largest file that is read, 256 MiB: a module of a whole library has some tens."""

_HEAD = 1 << 16  # bytes in which `.version` stands, whatever comments come first
_PRINTED = bytes((*b"\t\n\v\f\r\x1b", *range(32, 127), *range(128, 256)))
_EXTRACT = "extract the PTX from it with `cuobjdump -ptx FILE`, or have the compiler write PTX"
# First bytes → what such a file is, and the next step. Sources: ELF-64 object file format; CUDA binary utilities
# (fatbin header 0xBA55ED50); LLVM bitcode file format; gzip (RFC 1952); zip (APPNOTE 4.3.7).
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\x7fELF", "a cubin or another ELF file, machine code and not PTX", _EXTRACT),
    (b"\x50\xed\x55\xba", "a fat binary, not PTX", _EXTRACT),
    (b"BC\xc0\xde", "LLVM bitcode, not PTX", "compile it: `llc -march=nvptx64 -mcpu=sm_80 FILE`"),
    (b"\x1f\x8b", "a gzip archive, not PTX", "unpack it with `gunzip`"),
    (b"PK\x03\x04", "a zip archive, not PTX", "unpack it with `unzip`"),
    (b"\xff\xfe", "UTF-16 text", "convert it with `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "UTF-16 text", "convert it with `iconv -f UTF-16 -t UTF-8`"),
)


def ptx_text(data: bytes, path: Path | str) -> str:
    """The text of a PTX file: without byte order mark and trailing NULs; bytes that are not UTF-8 as surrogates.

    Raises:
        ConfigurationError: the file is empty, or something else than text.
        PtxSyntaxError: a NUL stands within the text.
    """
    for magic, what, hint in _MAGIC:
        if data.startswith(magic):
            raise ConfigurationError(f"{path}: {what}", hint=hint)
    text = data.rstrip(b"\0 \t\r\n\f\v\x1a").removeprefix(b"\xef\xbb\xbf")
    if not text:
        raise ConfigurationError(f"{path}: the file is empty", hint="give PTX, which begins with `.version`")
    at, head = text.find(b"\0"), text[:_HEAD]
    if b".version" not in head and (at >= 0 or head.translate(None, _PRINTED) != b""):
        raise ConfigurationError(f"{path}: binary data, not PTX", hint="give PTX text, which begins with `.version`")
    if at >= 0:
        start = text.rfind(b"\n", 0, at) + 1
        raise PtxSyntaxError(
            "a NUL byte within the text: not a text file",
            place=Place(str(path), text.count(b"\n", 0, at) + 1, at - start + 1),
            hint="NULs may stand at the end of PTX only; write one module to a file",
        )
    return text.decode("utf-8", "surrogateescape") + "\n"
