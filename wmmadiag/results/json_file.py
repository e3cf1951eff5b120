"""Runs as JSON: written, read, and refused in plain words. Needs no NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from wmmadiag.errors import ConfigurationError
from wmmadiag.results.model import FORMAT_VERSION, to_builtins
from wmmadiag.results.run import Run

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
