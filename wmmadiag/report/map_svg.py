"""Maps as SVG: wrong tiles of a comparison, error codes of an output, and what a fragment held.

Colours are those of the HTML page on light ground; hovering over a box tells what is there. Needs no NumPy.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import TypeAlias
from xml.sax.saxutils import escape, quoteattr

from wmmadiag.compare.observation import TILE, TileMap
from wmmadiag.results import maps
from wmmadiag.results.text import visible

Box: TypeAlias = tuple[int, int, int, str, str, str]
"""Row, column, width in cells, colour, sign, and what hovering tells."""

_RIGHT = ((245, 248, 252), (206, 224, 244), (128, 172, 219))
_WRONG = ((255, 214, 102), (242, 120, 46), (186, 28, 40), (94, 10, 50))
_SPECIAL = {maps.NAN: "#7a2fb0", maps.INFINITE: "#40218c", maps.UNWRITTEN: "#606874", maps.UNBOUNDED: "#5e0a32"}
_ALLOWED = "#ebf0eb"
_NAMES = {code: name for name, code in maps.SPECIAL.items()}
_LEFT, _TOP = 44.0, 26.0
_MOST_CELLS = 64
"""Of a map, either way; of a larger one each cell shows its worst element."""
_MOST_PLANES = 4


def tile_map(one: TileMap) -> str:
    """Wrong elements per tile."""
    named = f"matrix {' '.join(map(str, one.index))}: " if one.index else ""
    title = f"{named}wrong elements per {TILE}x{TILE} tile of {one.rows} x {one.columns}"
    return _svg(title, len(one.counts), len(one.counts[0]), TILE, TILE, _tiles(one), 14.0)


def _tiles(one: TileMap) -> Iterator[Box]:
    for row, counts in enumerate(one.counts):
        for column, count in enumerate(counts):
            size = min(TILE, one.rows - row * TILE) * min(TILE, one.columns - column * TILE)
            colour = _ramp(_WRONG, count / size) if count else _ramp(_RIGHT, 0)
            yield row, column, 1, colour, "", f"rows from {row * TILE}, columns from {column * TILE}: {count} of {size}"


def error_map(one: maps.ErrorMap) -> str:
    """The first matrices of an output, next to one another as a page's; those with wrong elements come first."""
    planes = sorted(one.planes, key=lambda plane: not plane.wrong)[:_MOST_PLANES]
    return "".join(_plane(one, plane) for plane in planes)


def _plane(one: maps.ErrorMap, plane: maps.Plane) -> str:
    codes = zlib.decompress(base64.b64decode(plane.error))
    down, across = -(-one.rows // _MOST_CELLS), -(-one.columns // _MOST_CELLS)
    index = " ".join(map(str, plane.index))
    title = (
        f"{one.output} {index}: {plane.wrong} of {one.rows * one.columns} elements wrong, {one.variant} / {one.case}"
    )
    rows, columns = -(-one.rows // down), -(-one.columns // across)
    cell = max(3.0, min(12.0, 480.0 / columns))
    return _svg(visible(title), rows, columns, down, across, _codes(codes, one, down, across), cell)


def _codes(codes: bytes, one: maps.ErrorMap, down: int, across: int) -> Iterator[Box]:
    """A box for each stretch of a row whose codes are alike."""
    for row in range(0, one.rows, down):
        lines = [codes[at * one.columns : (at + 1) * one.columns] for at in range(row, min(row + down, one.rows))]
        worst = [
            max((code for line in lines for code in line[column : column + across]), key=_severity)
            for column in range(0, one.columns, across)
        ]
        column = 0
        for _, stretch in groupby(worst, key=_kind):
            alike = list(stretch)
            code, width = max(alike, key=_severity), len(alike)
            what = f"row {row}, columns {column * across} to {min((column + width) * across, one.columns) - 1}: "
            yield row // down, column, width, colour_of(code), "", what + _words(code)
            column += width


def _severity(code: int) -> tuple[bool, int]:
    return maps.AT_BOUND < code != maps.SPECIAL["allowed"], code


def _kind(code: int) -> int:
    """Codes that may share a box: right ones within a factor of four, wrong ones that are equal."""
    return code // (2 * maps.STEPS_PER_OCTAVE) if maps.EXACT < code < maps.AT_BOUND else 256 + code


def colour_of(code: int) -> str:
    """A code as "#rrggbb"."""
    if code in _SPECIAL or code == maps.SPECIAL["allowed"]:
        return _SPECIAL.get(code, _ALLOWED)
    if code <= maps.AT_BOUND:
        return _ramp(
            _RIGHT, (code - maps.AT_BOUND + 6 * maps.STEPS_PER_OCTAVE) / (6 * maps.STEPS_PER_OCTAVE) if code else 0
        )
    return _ramp(_WRONG, (code - maps.AT_BOUND) / (12 * maps.STEPS_PER_OCTAVE))


def _words(code: int) -> str:
    if code in _NAMES:
        return _NAMES[code]
    times = 2.0 ** ((code - maps.AT_BOUND) / maps.STEPS_PER_OCTAVE)
    return "no error" if code == maps.EXACT else f"about {times:.2g} × the bound"


def fragment_map(one: maps.HeldFragment) -> str:
    """The lane that holds each element; × where it is not what should be there."""
    return _svg(visible(f"{one.title}, {one.place}"), one.rows, one.columns, 1, 1, _cells(one), 30.0)


def _cells(one: maps.HeldFragment) -> Iterator[Box]:
    ordered = sorted(one.cells, key=lambda cell: (cell.row, cell.column, cell.lane, cell.slot))
    for (row, column), group in groupby(ordered, key=lambda cell: (cell.row, cell.column)):
        held = list(group)
        wrong = any(cell.held != cell.wanted for cell in held)
        title = "; ".join(
            f"lane {cell.lane} x[{cell.slot}]: held {cell.held or '?'}, should hold {cell.wanted or '?'}"
            for cell in held
        )
        sign = "/".join(str(cell.lane) for cell in held[:2]) + "×" * wrong
        yield row, column, 1, _ramp(_WRONG, 0) if wrong else _ramp(_RIGHT, 0.4), sign, title


def _ramp(stops: tuple[tuple[int, int, int], ...], share: float) -> str:
    at = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(at), len(stops) - 2)
    mixed = (round(a + (b - a) * (at - low)) for a, b in zip(stops[low], stops[low + 1], strict=True))
    return "#" + "".join(f"{one:02x}" for one in mixed)


def _svg(title: str, rows: int, columns: int, down: int, across: int, boxes: Iterable[Box], cell: float) -> str:
    """A picture of `rows` by `columns` cells, each of which stands for `down` by `across` elements."""
    width, height = max(_LEFT + columns * cell + 8, len(title) * 6.2 + 16), _TOP + 18 + rows * cell + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={quoteattr(title)} width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="10">'
        f'<rect width="100%" height="100%" fill="#fff"/><text x="8" y="14">{escape(title)}</text>'
    ]
    top = _TOP + 14
    for column in range(0, columns, max(1, -(-40 // int(cell)))):
        out.append(f'<text x="{_LEFT + column * cell:.1f}" y="{top - 4:.1f}">{column * across}</text>')
    for row in range(0, rows, max(1, -(-14 // int(cell)))):
        at = top + (row + 0.5) * cell + 4
        out.append(f'<text x="{_LEFT - 6:.1f}" y="{at:.1f}" text-anchor="end">{row * down}</text>')
    for row, column, span, colour, sign, title in boxes:
        x, y = _LEFT + column * cell, top + row * cell
        words = f'<text x="{x + cell / 2:.1f}" y="{y + cell / 2 + 4:.1f}" text-anchor="middle">{sign}</text>' * bool(
            sign
        )
        out.append(
            f'<g><title>{escape(visible(title))}</title><rect x="{x:.1f}" y="{y:.1f}" width="{span * cell:.1f}" '
            f'height="{cell:.1f}" fill="{colour}" stroke="#fff" stroke-width=".4"/>{words}</g>'
        )
    return "".join(out) + "</svg>"


# A map of error codes as a small picture (PNG with a palette), for paper and for readers without scripts.


def error_picture(plane: maps.Plane, rows: int, columns: int) -> str:
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
