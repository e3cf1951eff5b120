"""Runs as JSON: written, read, and refused in plain words. Needs no NumPy."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from wmmadiag.errors import ConfigurationError
from wmmadiag.results.model import FORMAT_VERSION, to_builtins
from wmmadiag.results.run import Run

# Files that appear whole or not at all.


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


SCHEMA_ID = "https://wmmadiag.invalid/schema/run-3.json"


def render(run: Run) -> str:
    """The run as JSON text, one space per level, ending with a newline; NaN and infinities are strings."""
    plain = to_builtins(run)
    text = msgspec.json.format(msgspec.json.encode(plain), indent=1).decode()
    return text + "\n"


def read(path: Path) -> Run:
    """The run in a file that `render` wrote.

    Raises:
        ConfigurationError: it cannot be read, is damaged, or is of another format version.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}", hint="give a file that `wmmadiag check … --json FILE` wrote"
        ) from None
    return parse(data, str(path))


def parse(data: bytes, name: str = "the report") -> Run:
    """The run in JSON text; `name` is for messages.

    Raises:
        ConfigurationError: as `read`.
    """
    again = "run `wmmadiag check … --json FILE` again"
    if not data.strip():
        raise ConfigurationError(f"{name} is empty", hint=again)
    try:
        plain: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name} is no JSON, or was cut off: {error}", hint=again) from None
    if not isinstance(plain, dict) or "format_version" not in plain:
        raise ConfigurationError(f"{name} is JSON, but no report of wmmadiag", hint=again)
    version = plain["format_version"]
    if version != FORMAT_VERSION:
        newer = isinstance(version, int) and version > FORMAT_VERSION
        raise ConfigurationError(
            f"{name} has format version {version}; this wmmadiag reads version {FORMAT_VERSION}",
            hint="use the wmmadiag that wrote it, or a newer one" if newer else again,
        )
    try:
        # Not strict: "nan", "inf" and "-inf" stand for numbers that JSON has not.
        return msgspec.convert(plain, Run, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{name} is damaged: {_readable(str(error))}", hint=again) from None


def _readable(message: str) -> str:
    """A message of msgspec with its path `$.kernels[...]` as words."""
    found = re.fullmatch(r"(.*) - at `\$\.?(.*)`", message)
    return f"{found[1]} at {found[2]}" if found and found[2] else message
