"""Reading a bundle from anywhere: bounded, checked against its hashes, and nothing written or run."""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import msgspec

from wmmadiag.bundle.model import FORMAT, MANIFEST, RUN, VERSION, Manifest
from wmmadiag.errors import ConfigurationError
from wmmadiag.results import json_file

if TYPE_CHECKING:
    from wmmadiag.results.run import Run

MAX_ENTRIES = 5000
MAX_BYTES = 256 << 20
"""Of a bundle, unpacked."""
_HINT = "make it again with `wmmadiag check CARD --bundle FILE`"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read."""

    manifest: Manifest  # what it says of itself
    run: Run  # the outcome to expect
    files: Mapping[str, bytes]  # path → content of the card, the sources and the headers
    ptx: Mapping[str, str]  # path in the archive → text


def read_bundle(path: Path) -> Bundle:
    """The bundle in a file.

    Raises:
        ConfigurationError: it cannot be read, is no bundle, of another version, damaged, too large, or not safe.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigurationError(
                f"{path} is larger than any bundle ({MAX_BYTES >> 20} MiB)",
                hint="make it again with `wmmadiag check CARD --bundle FILE`",
            )
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", hint=_HINT) from None
    return contents(data, str(path))


def contents(data: bytes, name: str) -> Bundle:
    """The bundle in some bytes; `name` is for messages. Raises as `read_bundle`."""
    entries = _entries(data, name)
    if MANIFEST not in entries or RUN not in entries:
        raise ConfigurationError(f"{name} is an archive, but no bundle of wmmadiag", hint=_HINT)
    manifest = _manifest(entries[MANIFEST], name)
    run = json_file.parse(entries[RUN], f"{name}: {RUN}")
    files = {entry[len("files/") :]: text for entry, text in entries.items() if entry.startswith("files/")}
    if set(files) != set(manifest.files) or manifest.card not in files:
        raise _damaged(name, "its files are not those that it lists")
    for path, digest in manifest.files.items():
        if hashlib.sha256(files[path]).hexdigest() != digest:
            raise _damaged(name, f"{path} was changed")
    for one in manifest.compilations:
        if one.ptx not in entries or not one.ptx.startswith("ptx/"):
            raise _damaged(name, f"{one.ptx} is missing")
    ptx = {
        entry: text.decode("utf-8", "surrogateescape") for entry, text in entries.items() if entry.startswith("ptx/")
    }
    return Bundle(manifest, run, files, ptx)


def _entries(data: bytes, name: str) -> dict[str, bytes]:
    if not data:
        raise ConfigurationError(f"{name} is empty", hint=_HINT)
    found: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            listed = archive.infolist()
            if len(listed) > MAX_ENTRIES:
                raise ConfigurationError(
                    f"{name} holds {len(listed)} files, more than a bundle may",
                    hint="make it again with `wmmadiag check CARD --bundle FILE`",
                )
            for info in listed:
                if not _safe(info.filename) or info.filename in found:
                    raise _damaged(name, f"it holds a file called {info.filename[:80]!r}")
                if info.flag_bits & 1:
                    raise _damaged(name, "it is encrypted")
                with archive.open(info) as file:
                    text = file.read(left + 1)  # never more, whatever the archive says of itself
                if len(text) > left:
                    raise ConfigurationError(
                        f"{name} is too large when unpacked (over {MAX_BYTES >> 20} MiB)",
                        hint="make it again with `wmmadiag check CARD --bundle FILE`",
                    )
                left -= len(text)
                found[info.filename] = text
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ConfigurationError(f"{name} is no bundle, or damaged: {error}", hint=_HINT) from None
    return found


def _safe(name: str) -> bool:
    """Whether a name stays inside the folder that it is unpacked to, on every system."""
    parts = name.split("/")
    return (
        0 < len(name) < 1000
        and name.isprintable()
        and not any(letter in name for letter in '\\:*?"<>|')
        and not any(part in ("", ".", "..") for part in parts)
        and not PurePosixPath(name).is_absolute()
    )


def _manifest(data: bytes, name: str) -> Manifest:
    try:
        plain: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _damaged(name, f"{MANIFEST}: {error}") from None
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ConfigurationError(f"{name} is an archive, but no bundle of wmmadiag", hint=_HINT)
    version = plain.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        raise ConfigurationError(
            f"{name} is a bundle of version {version}; this wmmadiag reads version {VERSION}",
            hint="use the wmmadiag that wrote it, or a newer one" if newer else _HINT,
        )
    try:
        return msgspec.convert(plain, Manifest)
    except msgspec.ValidationError as error:
        raise _damaged(name, f"{MANIFEST}: {error}") from None


def _damaged(name: str, what: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is damaged: {what}", hint=_HINT)
