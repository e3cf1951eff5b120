"""What a picture of a fragment shows, as plain data, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

FORMAT_VERSION = 1


class Holder(NamedTuple):
    """A lane, and which of its fragment's elements (`frag.x[element]`)."""

    lane: int
    element: int


@dataclass(frozen=True, slots=True)
class BankPass:
    """Lanes that shared memory serves together.

    Attributes:
        name: the instruction, as assembled: "LDSM", "LDS.64".
        about: which elements of each lane, or which matrix.
        part: of how many `parts` of the instruction.
        words: for each of 32 banks, how many different words are wanted of it.
    """

    name: str
    about: str
    part: int
    parts: int
    words: tuple[int, ...]

    @property
    def passes(self) -> int:
        """Times that the banks must be read."""
        return max(self.words)


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the elements lie.

    Attributes:
        base: address of the first element, bytes.
        ldm: elements from one line to the next.
        layout: "row": lines are rows; "col": columns.
        space: "shared" or "global".
        lines: address of each line (bytes); of `ldmatrix` and `stmatrix`: that lane i gives.
        line_bytes: length of each.
        bits: per matrix, row, column: where the element starts, in bits from address 0.
        banks: empty where nothing is counted; the notes say why.
        better_ldm: the next larger leading dimension without conflicts, 0 if there is none or no need.
    """

    base: int
    ldm: int
    layout: str
    space: str
    lines: tuple[int, ...]
    line_bytes: int
    bits: tuple[tuple[tuple[int, ...], ...], ...]
    banks: tuple[BankPass, ...]
    better_ldm: int = 0

    @property
    def passes(self) -> int:
        """Passes of all instructions together."""
        return sum(one.passes for one in self.banks)

    @property
    def fewest(self) -> int:
        """Passes without conflicts."""
        return len(self.banks)


@dataclass(frozen=True)
class FragmentLayout:
    """Which lane holds which element of a fragment, and where it lies in memory.

    Attributes:
        name: "wmma m16n16k16", "mma.sync m16n8k16", "ldmatrix.x4.trans".
        matrix: "a", "b", "c", "d", or "" (`ldmatrix`).
        type: element type.
        arch: target.
        axes: what rows and columns are: ("m", "k").
        rows, columns: of one matrix.
        element_bits, per_register, registers: of one lane's fragment.
        used_registers: those that the multiplication reads; the others repeat them.
        cells: per matrix, row, column: who holds the element.
        memory: None for `mma.sync`, whose operands come from registers.
        notes: what is undefined or not as it looks.
        source: where the map is from.
    """

    name: str
    matrix: str
    type: str
    arch: str
    axes: tuple[str, str]
    rows: int
    columns: int
    element_bits: int
    per_register: int
    registers: int
    used_registers: int
    cells: tuple[tuple[tuple[tuple[Holder, ...], ...], ...], ...]
    memory: Memory | None
    notes: tuple[str, ...]
    source: str

    @property
    def title(self) -> str:
        """One line that names it."""
        words = [self.name, *([f"{self.type} {self.matrix.upper()}"] if self.matrix else [self.type])]
        if self.memory is not None:
            lines = "by rows" if self.memory.layout == "row" else "by columns"
            words += [f"{lines}, ldm {self.memory.ldm}"]
        return ", ".join([" ".join(words[:2]), *words[2:], self.arch])

    def register(self, element: int) -> int:
        """Register of a lane's element."""
        return element // self.per_register

    @cached_property
    def block(self) -> tuple[int, int]:
        """(height, width) of the largest stretch of neighbours that every lane holds in a row: where to draw boxes."""
        for height, width in sorted(
            ((h, w) for h in _powers(self.rows) for w in _powers(self.columns) if h == 1 or w == 1),
            key=lambda size: -size[0] * size[1],
        ):
            if all(self._together(tile, height, width) for tile in range(len(self.cells))):
                return height, width
        return 1, 1

    def _together(self, tile: int, height: int, width: int) -> bool:
        cells = self.cells[tile]
        for top in range(0, self.rows, height):
            for left in range(0, self.columns, width):
                first = cells[top][left][0]
                inside = [cells[top + i][left + j][0] for i in range(height) for j in range(width)]
                if inside != [Holder(first.lane, first.element + n) for n in range(len(inside))]:
                    return False
        return True

    def as_data(self) -> dict[str, Any]:
        """All of it, for JSON: `format_version` rises when a key changes."""
        memory = self.memory
        return {
            "format_version": FORMAT_VERSION,
            "title": self.title,
            "instruction": self.name,
            "matrix": self.matrix,
            "type": self.type,
            "arch": self.arch,
            "rows": self.rows,
            "columns": self.columns,
            "element_bits": self.element_bits,
            "registers": self.registers,
            "elements": [self._element(tile, row, column)
                         for tile in range(len(self.cells)) for row in range(self.rows)
                         for column in range(self.columns)],
            "memory": None if memory is None else {
                "base": memory.base, "ldm": memory.ldm, "layout": memory.layout, "space": memory.space,
                "lines": list(memory.lines), "line_bytes": memory.line_bytes,
                "passes": memory.passes if memory.banks else None,
                "fewest_passes": memory.fewest if memory.banks else None,
                "ldm_without_conflicts": memory.better_ldm or None,
                "banks": [{"instruction": one.name, "about": one.about, "part": one.part, "parts": one.parts,
                           "passes": one.passes, "words": list(one.words)} for one in memory.banks],
            },
            "notes": list(self.notes),
            "source": self.source,
        }  # fmt: skip

    def _element(self, tile: int, row: int, column: int) -> dict[str, Any]:
        held = self.cells[tile][row][column]
        found: dict[str, Any] = {"row": row, "column": column}
        if len(self.cells) > 1:
            found["matrix"] = tile
        found["held"] = [
            {"lane": lane, "element": element, "register": self.register(element),
             "bit": element % self.per_register * self.element_bits}
            for lane, element in held
        ]  # fmt: skip
        if self.memory is not None:
            found["address"], found["address_bit"] = divmod(self.memory.bits[tile][row][column], 8)
        return found

    def __str__(self) -> str:
        from wmmadiag.report.fragments.text import render

        return render(self)

    def _repr_svg_(self) -> str:
        from wmmadiag.report.fragments.svg import render

        return render(self)

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self._repr_svg_()}</div>'


def _powers(extent: int) -> Sequence[int]:
    """1, 2, 4 … up to 32 that divide an extent."""
    return [size for size in (1, 2, 4, 8, 16, 32) if extent % size == 0]
