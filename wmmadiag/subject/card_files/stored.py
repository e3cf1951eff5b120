"""Values that stand in a card as the bytes that memory holds: too many to be listed, and no expression has them."""

from __future__ import annotations

import base64
import binascii
import zlib

PREFIX = "zlib:"
"""What the text begins with: bytes, compressed by zlib, in base 64."""
_LEVEL = 6
"""At 9, a text is a hundredth shorter, and takes eight times as long where numbers are random."""
_PIECE = 1 << 16


def text_of(data: bytes) -> str:
    """Bytes as a card's `values`."""
    return PREFIX + base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def text_within(data: bytes, most: int) -> str | None:
    """The same, or None where it has more than `most` characters: that is found out before all is compressed."""
    packing, packed = zlib.compressobj(_LEVEL), bytearray()
    for start in range(0, len(data), _PIECE):
        packed += packing.compress(data[start : start + _PIECE])
        if len(packed) * 4 // 3 > most:
            return None
    text = PREFIX + base64.b64encode(bytes(packed) + packing.flush()).decode()
    return text if len(text) <= most else None


def bytes_of(text: str, most: int) -> bytes:
    """The bytes that a text stands for.

    Raises:
        ValueError: it stands for none, or for more than `most`.
    """
    try:
        packed = base64.b64decode(text.removeprefix(PREFIX), validate=True)
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, most)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof or unpacking.unconsumed_tail:
        raise ValueError(f"more than {most} bytes, or cut off")
    return data
