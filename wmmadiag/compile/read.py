"""Reading a source file from disk: what is no text of a bearable size is refused before anybody works on it."""

from __future__ import annotations

import stat
from pathlib import Path

from wmmadiag.compile.languages import is_ptx
from wmmadiag.errors import ConfigurationError, PtxSyntaxError
from wmmadiag.place import Place

MOST_OF_PTX = 1 << 28
"""The largest PTX file that is read, 256 MiB: a module of a whole library has some tens."""

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

    Drivers want PTX to end with a NUL, so tools write one or more; Windows editors write a byte order mark.

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


MOST_BYTES = 16 << 20
"""Largest source or header that is read. The largest header of CUTLASS 4 has 2.6 MB."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
)


def is_file(path: Path) -> bool:
    """Whether there is a file that can be seen: where nobody may look, or the name is too long, there is none."""
    try:
        return path.is_file()
    except OSError:  # `Path.is_file` itself tells so only from Python 3.14 on
        return False


def read_text(path: Path) -> str:
    """The file's text; line ends are kept, bytes that are not UTF-8 become surrogates.

    Raises:
        ConfigurationError: it cannot be read, is too large, or is not text.
        PtxSyntaxError: it is a PTX file with a NUL within its text.
    """
    if is_ptx(path):
        return ptx_text(_content(path, MOST_OF_PTX), path)
    return read_bytes(path).decode("utf-8", "surrogateescape")


def read_bytes(path: Path) -> bytes:
    """The content of a source or header, a byte order mark left out.

    Raises:
        ConfigurationError: it is not there, is no regular file, is larger than `MOST_BYTES`, or is no text.
    """
    data = _content(path, MOST_BYTES)
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise ConfigurationError(
            f"{path}:{line}: not a text file: it holds a zero byte",
            hint="give CUDA source (.cu) or PTX (.ptx) as UTF-8 text",
        )
    return data.removeprefix(b"\xef\xbb\xbf")


def _content(path: Path, most: int) -> bytes:
    """A regular file's content: a pipe or a device may have no end."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            what = next((words for test, words in _KINDS if test(status.st_mode)), "no regular file")
            hint = "name one file in it" if stat.S_ISDIR(status.st_mode) else "write the text to a file"
            raise ConfigurationError(f"{path}: cannot be read: it is {what}", hint=hint)
        if status.st_size > most:
            raise ConfigurationError(
                f"{path}: {status.st_size >> 20} MiB are more than the {most >> 20} MiB that are read",
                hint="leave the kernels out that are not checked, and tables that are data",
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file", hint=near(path)) from None
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read: {error.strerror or error}", hint="check the name, and who may read it"
        ) from None


def near(path: Path) -> str:
    """A hint for a path that does not exist: the nearest name beside it, or how far the path goes."""
    import difflib

    parent = path.parent
    if path.is_symlink():
        return f"it is a link to {path.readlink()}, which does not exist"
    if not parent.is_dir():
        while not parent.is_dir() and parent != parent.parent:
            parent = parent.parent
        return f"the path exists up to {parent}"
    try:
        names = [item.name for item in parent.iterdir()]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.6)
    return f"did you mean {parent / close[0]}?" if close else "check the name and the current folder"
