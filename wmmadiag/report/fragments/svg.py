"""A fragment's layout as SVG: one box per stretch of elements that a lane holds, and the banks below.

Text stands on its own background and follows the reader's light or dark scheme; hovering over a box tells lane,
elements, register and bytes.
"""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from wmmadiag.report.fragments.text import bank_label, bank_title, label, legend
from wmmadiag.results.fragment_layout import FragmentLayout, Memory

_BOX = 46.0  # least width of a box, px
_LINE = 24.0  # least height of a box
_SMALLEST = 3.0  # of one element, either way
_READABLE = 12.0  # height of an element whose row has its own address
_MARGIN = 16.0
_LETTER = 6.7  # width of a letter of 11 px monospace
_LETTER_OF_TITLE = 8.6
_GAP = 28.0  # between matrices
_BANK = 15.0
_PASS_COLOURS = ("#7fb2e5", "#f2b34c", "#ea7d4b", "#d9493f")  # 1, 2, up to 4, more
_STYLE = (
    ".wmmadiag-fragment{--page:#fff;--ink:#1b1f24;--quiet:#5a6472;--line:#c9d0d9;"
    "font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    "@media (prefers-color-scheme:dark){"
    ".wmmadiag-fragment{--page:#14181d;--ink:#e6e9ee;--quiet:#9aa5b4;--line:#39424e}}"
    ".wmmadiag-fragment .p{fill:var(--page)}.wmmadiag-fragment text{fill:var(--ink)}"
    ".wmmadiag-fragment .q{fill:var(--quiet)}.wmmadiag-fragment .t{font-size:14px;font-weight:600}"
    ".wmmadiag-fragment .b rect{stroke:#3a4450;stroke-width:.6}.wmmadiag-fragment .b text,.wmmadiag-fragment .k text"
    "{fill:#12161b;text-anchor:middle}.wmmadiag-fragment .k rect{stroke:var(--line);stroke-width:.6}"
    ".wmmadiag-fragment .e{text-anchor:end}.wmmadiag-fragment .m{text-anchor:middle}"
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Sizes in px: of one element, and of what stands left of and above a matrix."""

    width: float
    height: float
    left: float
    top: float


def render(layout: FragmentLayout) -> str:
    """The picture, a complete SVG document."""
    scale = _scale(layout)
    matrix_width = scale.left + layout.columns * scale.width
    matrix_height = scale.top + layout.rows * scale.height
    across = min(len(layout.cells), 2)
    down = -(-len(layout.cells) // across)
    banks = layout.memory.banks if layout.memory is not None else ()
    bank_left = max((len(bank_label(one)) for one in banks), default=0) * _LETTER + 12
    inner = max(across * matrix_width + (across - 1) * _GAP, (bank_left + 32 * _BANK + 60) if banks else 0, 520.0)
    letters = int(inner / _LETTER)
    out: list[str] = []
    y = _MARGIN + 12
    heading = [("t", line) for line in textwrap.wrap(layout.title, int(inner / _LETTER_OF_TITLE))]
    for kind, line in [*heading, *(("q", line) for line in textwrap.wrap(legend(layout), letters))]:
        out.append(_text(_MARGIN, y, line, kind))
        y += 18
    y += 6
    for tile in range(len(layout.cells)):
        x = _MARGIN + tile % across * (matrix_width + _GAP)
        top = y + tile // across * (matrix_height + _GAP)
        out += _matrix(layout, tile, x, top, scale)
    y += down * matrix_height + (down - 1) * _GAP + 24
    if banks and layout.memory is not None:
        for line in textwrap.wrap(bank_title(layout), letters):
            out.append(_text(_MARGIN, y, line, ""))
            y += 18
        out += _banks(layout.memory, _MARGIN, y, bank_left)
        y += 18 + len(banks) * (_BANK + 3) + 10
    for note in (*layout.notes, f"source of the map: {layout.source}"):
        for line in textwrap.wrap(note, letters):
            out.append(_text(_MARGIN, y, line, "q"))
            y += 16
    width, height = inner + 2 * _MARGIN, y + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wmmadiag-fragment" role="img" '
        f'aria-label="{escape(layout.title)}" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}"><style>{_STYLE}</style><rect class="p" width="100%" height="100%" rx="6"/>'
        + "".join(out)
        + "</svg>"
    )


def _scale(layout: FragmentLayout) -> _Scale:
    tall, wide = layout.block
    memory = layout.memory
    by_rows = memory is not None and memory.layout == "row"
    by_columns = memory is not None and memory.layout == "col"
    digits = len(str(max(memory.lines))) if memory is not None else 0
    letters = max(4, len(_row_name(layout, layout.rows - tall))) + (max(digits, 4) + 2 if by_rows else 0)
    return _Scale(
        width=max(_BOX / wide, _READABLE if by_columns else _SMALLEST),
        height=max(_LINE / tall, _READABLE if by_rows else _SMALLEST),
        left=letters * _LETTER + 8,
        top=20 + (digits * _LETTER + 8 if by_columns else 0) + (16 if len(layout.cells) > 1 else 0),
    )


def _row_name(layout: FragmentLayout, top: int) -> str:
    tall = layout.block[0]
    return str(top) if tall == 1 else f"{top}-{top + tall - 1}"


def _matrix(layout: FragmentLayout, tile: int, x: float, y: float, scale: _Scale) -> Iterator[str]:
    tall, wide = layout.block
    memory = layout.memory
    left, top = x + scale.left, y + scale.top
    by_rows = memory is not None and memory.layout == "row"
    if len(layout.cells) > 1:
        yield _text(x, y + 10, f"matrix {tile}", "")
    yield _text(x, top - 6, "\\".join(layout.axes if layout.matrix else ("", "")).strip("\\"), "q")
    if memory is not None and by_rows:
        yield _text(left - 6, top - 6, "byte", "q e")
    elif memory is not None:
        yield _text(left - 6, top - 22, "byte", "q e")
    for column in range(0, layout.columns, wide):
        yield _text(left + (column + wide / 2) * scale.width, top - 6, str(column), "q m")
    if memory is not None and not by_rows:
        for column in range(layout.columns):
            at = left + (column + 0.5) * scale.width + 4
            yield (
                f'<text class="q" transform="translate({at:.1f} {top - 22:.1f}) rotate(-90)">'
                f"{memory.bits[tile][0][column] // 8}</text>"
            )
    for row in range(0, layout.rows, tall):
        middle = top + (row + tall / 2) * scale.height + 4
        name = _row_name(layout, row)
        yield _text(x, middle, name, "q") if by_rows else _text(left - 6, middle, name, "q e")
    if by_rows and memory is not None:
        for row in range(layout.rows):
            yield _text(left - 6, top + (row + 0.5) * scale.height + 4, str(memory.bits[tile][row][0] // 8), "e")
    yield '<g class="b">'
    for row in range(0, layout.rows, tall):
        for column in range(0, layout.columns, wide):
            holder = layout.cells[tile][row][column][0]
            at_x, at_y = left + column * scale.width, top + row * scale.height
            width, height = wide * scale.width, tall * scale.height
            yield (
                f'<g><rect x="{at_x:.1f}" y="{at_y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                f'fill="{lane_colour(holder.lane)}"/><text x="{at_x + width / 2:.1f}" y="{at_y + height / 2 + 4:.1f}">'
                f"{label(layout, holder)}</text><title>{escape(_hint(layout, tile, row, column))}</title></g>"
            )
    yield "</g>"


def _hint(layout: FragmentLayout, tile: int, row: int, column: int) -> str:
    """What a box holds, in words."""
    tall, wide = layout.block
    rows, columns = f"{row}" if tall == 1 else f"{row}-{row + tall - 1}", f"{column}"
    if wide > 1:
        columns += f"-{column + wide - 1}"
    first, count = layout.cells[tile][row][column], tall * wide
    held = "; ".join(
        f"lane {one.lane} x[{one.element}" + (f"..{one.element + count - 1}]" if count > 1 else "]")
        + f", register {layout.register(one.element)}"
        for one in first
    )  # fmt: skip
    words = f"{layout.axes[0]} {rows}, {layout.axes[1]} {columns}: {held}"
    if layout.memory is not None:
        start, bit = divmod(layout.memory.bits[tile][row][column], 8)
        words += f"; byte {start}" + (f" bit {bit}" if bit else "")
    return words


def lane_colour(lane: int) -> str:
    """A pastel: the hue tells the group of four lanes, the lightness the lane in it. Black is readable on all."""
    red, green, blue = colorsys.hls_to_rgb((lane // 4 * 3 % 8) / 8 + 0.02, 0.88 - 0.05 * (lane % 4), 0.62)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def _banks(memory: Memory, x: float, y: float, left: float) -> Iterator[str]:
    for bank in range(0, 32, 4):
        yield _text(x + left + (bank + 0.5) * _BANK, y + 6, str(bank), "q m")
    yield _text(x + left + 32 * _BANK + 10, y + 6, "passes", "q")
    yield '<g class="k">'
    for index, one in enumerate(memory.banks):
        top = y + 12 + index * (_BANK + 3)
        for bank, words in enumerate(one.words):
            fill = _PASS_COLOURS[min(3, max(0, (words - 1).bit_length()))] if words else "none"
            at = x + left + bank * _BANK
            yield f'<rect x="{at:.1f}" y="{top:.1f}" width="{_BANK}" height="{_BANK}" fill="{fill}"/>'
            if words > 1:
                yield f'<text x="{at + _BANK / 2:.1f}" y="{top + 11.5:.1f}">{words}</text>'
    yield "</g>"
    for index, one in enumerate(memory.banks):
        middle = y + 12 + index * (_BANK + 3) + 11.5
        yield _text(x, middle, bank_label(one), "")
        yield _text(x + left + 32 * _BANK + 10, middle, str(one.passes), "")


def _text(x: float, y: float, words: str, kind: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{escape(words)}</text>'
