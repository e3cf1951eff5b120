"""A map of error codes as a small picture (PNG with a palette), for paper and for readers without scripts."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from functools import cache

from wmmadiag.report.map_svg import colour_of
from wmmadiag.results.maps import Plane


def error_picture(plane: Plane, rows: int, columns: int) -> str:
    """One pixel for each element, as a `data:` address; "" where the plane does not hold that many."""
    try:
        packed = base64.b64decode(plane.error, validate=True)
        codes = zlib.decompressobj().decompress(packed, rows * columns + 1)
    except (binascii.Error, zlib.error):
        return ""
    if len(codes) != rows * columns or not codes:
        return ""
    lines = b"".join(b"\0" + codes[at : at + columns] for at in range(0, len(codes), columns))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", _palette()),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    picture = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


@cache
def _palette() -> bytes:
    return b"".join(bytes.fromhex(colour_of(code)[1:]) for code in range(256))


def _chunk(kind: bytes, held: bytes) -> bytes:
    return struct.pack(">I", len(held)) + kind + held + struct.pack(">I", zlib.crc32(kind + held))
