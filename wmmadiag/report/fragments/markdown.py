"""A fragment's layout in Markdown: tables."""

from __future__ import annotations

from wmmadiag.report.fragments.text import bank_label, bank_title, label, legend
from wmmadiag.results.fragment_layout import FragmentLayout


def render(layout: FragmentLayout) -> str:
    """Tables of lanes and of banks; a GitHub comment shows them as they are."""
    height, width = layout.block
    memory = layout.memory
    parts = [f"### {layout.title}", legend(layout).replace("{i}", "`i`") + "."]
    for tile in range(len(layout.cells)):
        if len(layout.cells) > 1:
            parts.append(f"Matrix {tile}")
        by_rows = memory is not None and memory.layout == "row"
        head = [f"{layout.axes[0]} \\\\ {layout.axes[1]}", *(["address"] if by_rows else [])]
        head += [str(column) for column in range(0, layout.columns, width)]
        rows = []
        if memory is not None and memory.layout == "col":
            starts = [str(memory.bits[tile][0][column] // 8) for column in range(0, layout.columns, width)]
            rows.append(["address", *starts])
        for top in range(0, layout.rows, height):
            row = [f"{top}" if height == 1 else f"{top}–{top + height - 1}"]
            if by_rows and memory is not None:
                row.append(", ".join(str(memory.bits[tile][top + i][0] // 8) for i in range(height)))
            row += [label(layout, layout.cells[tile][top][column][0]) for column in range(0, layout.columns, width)]
            rows.append(row)
        parts.append(_table(head, rows))
    if memory is not None and memory.banks:
        parts.append(bank_title(layout).capitalize() + ".")
        parts.append(_table(
            ["instruction", "words wanted of banks 0 to 31", "passes"],
            [[bank_label(one), "`" + "".join("." if n == 0 else str(n) if n < 10 else "#" for n in one.words) + "`",
              str(one.passes)] for one in memory.banks],
        ))  # fmt: skip
    if layout.notes:
        parts.append("\n".join(f"- {note}" for note in layout.notes))
    parts.append(f"Source of the map: {layout.source}.")
    return "\n\n".join(parts)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
