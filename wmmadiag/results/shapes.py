"""What tensor cores can multiply, as a table: text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

FORMAT_VERSION = 1
_HEADINGS = ("name", "types of A and B", "C → D", "layouts", "where")


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """Forms of one shape that differ in types only.

    Attributes:
        instruction: "wmma", "mma.sync", "ldmatrix", "stmatrix" or "movmatrix".
        shape: "m16n16k16".
        types: of A and B.
        mixed: A and B may differ.
        sums: (type of C, type of D).
        operations: of b1, "xor.popc"; of the moves their modifiers.
        a_layouts, b_layouts: "row" and "col", the usual one first; empty of the moves.
        where: architectures that have it.
    """

    instruction: str
    shape: str
    types: tuple[str, ...]
    mixed: bool
    sums: tuple[tuple[str, str], ...]
    operations: tuple[str, ...]
    a_layouts: tuple[str, ...]
    b_layouts: tuple[str, ...]
    where: str

    @property
    def name(self) -> str:
        """As `wmmadiag fragment` takes it: "m16n16k16", "mma.m16n8k16", "ldmatrix"."""
        if not self.sums:
            return self.instruction
        return f"mma.{self.shape}" if self.instruction == "mma.sync" else self.shape

    def cells(self) -> tuple[str, ...]:
        """The row's texts."""
        types = ", ".join(self.types) + (", mixed" if self.mixed else "")
        if self.operations:
            types += f" ({', '.join(self.operations)})"
        sums = ", ".join(c if c == d else f"{c} → {d}" for c, d in self.sums)
        both = tuple("/".join(one) for one in (self.a_layouts, self.b_layouts))
        layouts = "any" if all("/" in one for one in both) else ", ".join(one for one in both if one)
        since = self.where.removesuffix(" and later")
        return self.name, types, sums, layouts, since if since == self.where else f"from {since}"


def text(rows: Sequence[ShapeRow], arch: str) -> str:
    """A table of plain text; the column of architectures is left out where one was asked for."""
    table = _table(rows, arch)
    legend = "mixed: A and B may differ in type; layouts: of A, B; names: for `wmmadiag fragment NAME TYPE MATRIX`"
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([*lines, "", legend])


def markdown(rows: Sequence[ShapeRow], arch: str) -> str:
    """A Markdown table."""
    first, *rest = ["| " + " | ".join(row) + " |" for row in _table(rows, arch)]
    return "\n".join([first, "|" + "---|" * first.count(" | ") + "---|", *rest])


def data(rows: Sequence[ShapeRow], arch: str) -> dict[str, Any]:
    """For JSON."""
    return {"format_version": FORMAT_VERSION, "arch": arch or None, "forms": [asdict(row) for row in rows]}


def _table(rows: Sequence[ShapeRow], arch: str) -> list[tuple[str, ...]]:
    table = [_HEADINGS, *(row.cells() for row in rows)]
    return [row[:-1] for row in table] if arch else table
