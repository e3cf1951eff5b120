"""A fragment's layout as a picture of characters."""

from __future__ import annotations

import textwrap
from itertools import zip_longest

from wmmadiag.results.fragment_layout import BankPass, FragmentLayout, Holder

WIDTH = 80
# Light backgrounds, one per group of four lanes, with black on them: to be read on any terminal.
_GROUPS = (153, 157, 229, 223, 218, 183, 159, 187)
_BANKS = 32


def render(layout: FragmentLayout, *, width: int = WIDTH, colour: bool = False) -> str:
    """The picture.

    Args:
        layout: what to draw.
        width: columns of the terminal; wider matrices come in several parts.
        colour: with a background for each group of lanes.
    """
    parts = [layout.title, textwrap.fill(legend(layout), width), "", *_matrices(layout, width, colour)]
    if layout.memory is not None:
        parts += ["", *_addresses(layout, width), *_banks(layout, width)]
    for note in layout.notes:
        parts += textwrap.wrap(f"note: {note}", width, subsequent_indent="  ")
    parts.append(f"source of the map: {layout.source}")
    return "\n".join(line.rstrip() for line in parts)


def legend(layout: FragmentLayout) -> str:
    """How to read a box."""
    height, width = layout.block
    count = height * width
    if not layout.matrix:
        of = "row" if width > 1 else "column"
        return f"lane:r is register r of that lane; a register holds 2 neighbours of a {of}, the first in its low bits"
    name = f"{layout.matrix}{{i}}"  # as in the PTX ISA's figures
    if layout.name.startswith("wmma"):  # elements of less than a byte have no x[i] of their own
        name = "frag.x[i]" if layout.element_bits >= 8 else "element i of frag.x[0]"
    packed = f", register i / {layout.per_register}" if layout.per_register > 1 else ""
    if count == 1:
        return f"lane:i is {name} in that lane{packed}"
    side = "side by side" if width > 1 else "one below the other"
    return f"lane:i is {name} in that lane{packed}; a box is {count} elements {side}, from i on"


def label(layout: FragmentLayout, holder: Holder) -> str:
    """What stands in a box: "5:2"."""
    return f"{holder.lane}:{holder.element if layout.matrix else layout.register(holder.element)}"


def bank_title(layout: FragmentLayout) -> str:
    """What the passes come to; "" where nothing is counted."""
    memory = layout.memory
    if memory is None or not memory.banks:
        return ""
    if memory.passes == memory.fewest:
        return f"shared memory: {memory.passes} passes, no bank conflicts"
    better = f"; ldm {memory.better_ldm} has no conflicts" if memory.better_ldm else ""
    return f"shared memory: {memory.passes} passes where {memory.fewest} would do{better}"


def bank_label(one: BankPass) -> str:
    """Which lanes of which instruction."""
    lanes = 32 // one.parts
    return f"{one.name} {one.about}" + (
        f" lanes {one.part * lanes}-{(one.part + 1) * lanes - 1}" if one.parts > 1 else ""
    )


def _matrices(layout: FragmentLayout, width: int, colour: bool) -> list[str]:
    """All matrices, beside each other as far as they fit."""
    height, across = layout.block
    cell = max(len(label(layout, held[0])) for tile in layout.cells for row in tile for held in row) + 1
    by_rows = layout.memory is not None and layout.memory.layout == "row"
    labels = _row_labels(layout, 0, height, by_rows)
    indent = max(map(len, labels)) + 1
    boxes = layout.columns // across
    at_once = max(1, min(boxes, (width - indent) // cell))
    if at_once >= 8:
        at_once -= at_once % 8
    pictures = []
    for tile in range(len(layout.cells)):
        for first in range(0, boxes, at_once):
            lines = [f"matrix {tile}"] if len(layout.cells) > 1 else []
            columns = [box * across for box in range(first, min(first + at_once, boxes))]
            corner = f"{layout.axes[0]}\\{layout.axes[1]}" + ("  byte" if by_rows else "")
            lines.append(f"{corner:<{indent}}" + "".join(f"{column:>{cell}}" for column in columns))
            for index, top in enumerate(range(0, layout.rows, height)):
                held = [layout.cells[tile][top][column][0] for column in columns]
                texts = [_coloured(f"{label(layout, one):>{cell}}", one.lane, colour) for one in held]
                lines.append(f"{_row_labels(layout, tile, height, by_rows)[index]:<{indent}}" + "".join(texts))
            pictures.append((lines, indent + cell * len(columns)))
    gap = 4
    per_row = max(1, (width + gap) // (max(size for _, size in pictures) + gap)) if len(layout.cells) > 1 else 1
    out: list[str] = []
    for start in range(0, len(pictures), per_row):
        group = pictures[start : start + per_row]
        out += [""] if out else []
        for row_of_texts in zip_longest(*(lines for lines, _ in group), fillvalue=""):
            padded = [_padded(text, size) for text, (_, size) in zip(row_of_texts, group, strict=True)]
            out.append((" " * gap).join(padded).rstrip())
    return out


def _padded(text: str, size: int) -> str:
    shown = len(text) if "\x1b" not in text else size  # rows of boxes are full
    return text + " " * (size - shown)


def _row_labels(layout: FragmentLayout, tile: int, height: int, by_rows: bool) -> list[str]:
    memory = layout.memory
    digits = len(str(layout.rows - 1))
    out = []
    for top in range(0, layout.rows, height):
        text = f"{top:>{digits}}" if height == 1 else f"{top:>{digits}}-{top + height - 1:<{digits}}"
        if by_rows and memory is not None:
            starts = [memory.bits[tile][row][0] // 8 for row in range(top, top + height)]
            most = len(str(max(memory.lines)))
            text += "  " + (f"{starts[0]:>{most}}" if height == 1 else f"{starts[0]:>{most}}, {starts[1]}…"
                            if height > 2 else f"{starts[0]:>{most}}, {starts[1]:>{most}}")  # fmt: skip
        out.append(text)
    return out


def _coloured(text: str, lane: int, colour: bool) -> str:
    return f"\x1b[30;48;5;{_GROUPS[lane // 4 % 8]}m{text}\x1b[0m" if colour else text


def _addresses(layout: FragmentLayout, width: int) -> list[str]:
    memory = layout.memory
    assert memory is not None
    if not layout.matrix:
        text = f"lane i gives the address of row i % 8 of matrix i / 8: lane 0 {memory.lines[0]}, lane 1 "
        return textwrap.wrap(f"{text}{memory.lines[1]}, … lane {len(memory.lines) - 1} {memory.lines[-1]}", width)
    end = max(max(row) for row in memory.bits[0]) + layout.element_bits
    what = "row" if memory.layout == "row" else "column"
    first = f"bytes {memory.base} to {-(-end // 8) - 1}; a {what} is {memory.line_bytes} bytes"
    out = textwrap.wrap(first, width)
    if memory.layout == "col":
        listed = ", ".join(f"{index} at {address}" for index, address in enumerate(memory.lines))
        out += textwrap.wrap(f"columns start in bytes: {listed}", width, subsequent_indent="  ")
    return out


def _banks(layout: FragmentLayout, width: int) -> list[str]:
    memory = layout.memory
    if memory is None or not memory.banks:
        return []
    labels = [bank_label(one) for one in memory.banks]
    indent = max(max(map(len, labels)), len("bank")) + 2
    scale = "".join(f"{bank:<8}" for bank in range(0, _BANKS, 8))
    out = ["", *textwrap.wrap(bank_title(layout), width), f"{'bank':<{indent}}{scale}passes"]
    for text, one in zip(labels, memory.banks, strict=True):
        strip = "".join("." if n == 0 else str(n) if n < 10 else "#" for n in one.words)
        out.append(f"{text:<{indent}}{strip}  {one.passes}")
    return [*out, *textwrap.wrap("a digit: different words wanted of that bank at once, # ten or more", width), ""]
