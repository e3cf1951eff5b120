"""What a campaign has found so far, on disk: records that are only ever appended, each with its checksum.

A record is a line: eight hexadecimal digits of the CRC-32 of what follows, a space, and JSON. A process that is killed
leaves at most a torn last line, which is cut off when the journal is opened again.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from wmmadiag.errors import ConfigurationError

_SYNC_SECONDS = 1.0
Held = TypeVar("Held")


@dataclass(slots=True)
class Journal:
    """A journal that this process alone appends to."""

    path: Path  # its file
    # lines (from 1) that were found to be no records, other than a torn last one
    damaged: list[int] = field(default_factory=list)
    _file: int = -1
    _synced: float = 0.0

    def __enter__(self) -> Journal:
        """Open it, or begin it, and cut off what a killed process left half written.

        Raises:
            ConfigurationError: it cannot be written, or another campaign is writing it.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise ConfigurationError(
                f"another campaign is writing {self.path}", hint="wait for it, or give another --journal"
            ) from None
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the journal {self.path}: {error.strerror}", hint="name another with --journal FILE"
            ) from None
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.ftruncate(self._file, _end_of_last_line(self._file, size))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.fsync(self._file)
        os.close(self._file)

    def append(self, *records: dict[str, Any]) -> None:
        """Write records at once; they survive this process from then on, and the machine within a second.

        Raises:
            ConfigurationError: the disk is full.
        """
        texts = map(msgspec.json.encode, records)
        lines = b"".join([b"%08x %b\n" % (zlib.crc32(text), text) for text in texts])
        try:
            if os.write(self._file, lines) != len(lines):
                raise OSError(28, "No space left on device")
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the journal {self.path}: {error.strerror}", hint="make room, then go on with --resume"
            ) from None
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def reduce(self, keep: Callable[[dict[str, Any]], bool]) -> tuple[int, int]:
        """Leave the records that are to be kept, as they stand; the file is another one then, or the old one.

        Returns:
            How many records stay, and how many lines go.

        Raises:
            ConfigurationError: the disk is full, or the folder cannot be written.
        """
        kept = gone = 0
        handle, name = -1, ""
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            os.fchmod(handle, os.fstat(self._file).st_mode & 0o777)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # before others can see it
            with self.path.open("rb") as old, open(handle, "wb", closefd=False) as new:
                for line in old:
                    record = _record(line)
                    if record is not None and keep(record):
                        new.write(line)
                        kept += 1
                    else:
                        gone += 1
            os.fsync(handle)
            Path(name).replace(self.path)
        except OSError as error:
            if handle >= 0:
                os.close(handle)
                Path(name).unlink(missing_ok=True)
            raise ConfigurationError(
                f"cannot write the journal {self.path} anew: {error.strerror}", hint="make room; it is as it was"
            ) from None
        os.close(self._file)
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_APPEND)
        self._file = handle
        return kept, gone

    def records(self) -> Iterator[dict[str, Any]]:
        """Every record, in the order written."""
        for number, record in read_journal(self.path):
            if record is None:
                self.damaged.append(number)
            else:
                yield record


def read_journal(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(Line, record) of each line of a journal; None for a line that is no record.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield number, _record(line)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the journal {path}: {error.strerror}", hint="`wmmadiag campaign PLAN.toml` writes one"
        ) from None


def held(record: Mapping[str, Any], name: str, kind: type[Held]) -> Held | None:
    """What a record holds under a name; None where it is a record of something else, or of another version."""
    try:
        return msgspec.convert(record[name], kind)
    except (KeyError, msgspec.ValidationError):
        return None


def _record(line: bytes) -> dict[str, Any] | None:
    checksum, _, text = line.rstrip(b"\n").partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        found = msgspec.json.decode(text)
    except (ValueError, msgspec.DecodeError):
        return None
    return found if isinstance(found, dict) else None


def _end_of_last_line(file: int, size: int) -> int:
    at = size
    while at:
        start = max(0, at - 65536)
        found = os.pread(file, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0
