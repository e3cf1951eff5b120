"""Messages of the Debug Adapter Protocol: a header with the length, an empty line, JSON (its "Base protocol")."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeAlias

from wmmadiag.errors import ConfigurationError

Message: TypeAlias = dict[str, Any]
MOST = 16 << 20
"""Bytes of one message: nothing that an editor sends is longer."""


def messages(stream: BinaryIO) -> Iterator[Message]:
    """Messages until the stream ends.

    Raises:
        ConfigurationError: what comes is none.
    """
    while True:
        length = 0
        while (line := stream.readline(1024)) not in (b"\r\n", b"\n"):
            if not line:
                return
            name, _, value = line.decode("ascii", "replace").partition(":")
            if name.strip().lower() == "content-length" and value.strip().isdigit():
                length = int(value)
        if not 0 < length <= MOST:
            raise ConfigurationError(
                "no Content-Length before a message", hint="editors speak to `wmmadiag dap`, not people"
            )
        try:
            message = json.loads(stream.read(length))
        except ValueError:
            raise ConfigurationError(
                "a message is not JSON", hint="let an editor start `wmmadiag dap`; `wmmadiag debug` is for people"
            ) from None
        if isinstance(message, dict):
            yield message


def write(stream: BinaryIO, message: Message) -> None:
    """Write one message."""
    body = json.dumps(message, allow_nan=False).encode()
    stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    stream.flush()
