"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from wmmadiag.errors import ConfigurationError


def write_whole(path: Path, text: str) -> None:
    """Write a text as UTF-8, as `write_bytes` does.

    What cannot be encoded (lone surrogates, from undecodable file names) becomes "?".
    """
    write_bytes(path, text.encode("utf-8", "replace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file beside `path`, then rename it: a reader never sees half of it.

    Raises:
        ConfigurationError: the folder is missing or cannot be written, or the disk is full.
    """
    if path.is_dir():
        raise ConfigurationError(f"cannot write {path}: it is a folder", hint="give the name of a file")
    temporary = ""
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe: nothing to rename
            path.write_bytes(data)
            return
        target = path.resolve()  # through a link, to the file that it names
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        Path(temporary).chmod(mode)
        Path(temporary).replace(target)
        temporary = ""
    except OSError as error:
        hint = f"make the folder first: mkdir -p {path.parent}" if isinstance(error, FileNotFoundError) else ""
        raise ConfigurationError(f"cannot write {path}: {error.strerror}", hint=hint) from None
    finally:
        if temporary:
            with suppress(OSError):
                Path(temporary).unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
