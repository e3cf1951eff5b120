"""A session's things as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.ranges import runs
from wmmadiag.provenance.model import Stage

if TYPE_CHECKING:
    from wmmadiag.debugger.fragment_view import FragmentView
    from wmmadiag.debugger.inspect import RegisterView, Waiting
    from wmmadiag.debugger.local_variables import Local
    from wmmadiag.debugger.position import Moment
    from wmmadiag.debugger.session import Session

_MOST = 16
_ROWS = 8


def moment_text(moment: Moment, *, why: bool = True) -> str:
    """Two lines: who is where, and the source line; before them why, unless that was said already."""
    who = f"block {moment.block}, warp {moment.warp}, lane {moment.lane}"
    lines = [moment.words] if moment.words and why else []
    if moment.place is None:
        lines.append(f"time {moment.time:,}: {who}, at the end")
        return "\n".join(lines)
    lines.append(f"time {moment.time:,}: {who}, {Path(moment.place.file).name}:{moment.place.line}")
    if moment.code:
        lines.append(f"{moment.place.line:>5}  {moment.code}")
    return "\n".join(lines)


_SIGNS = {"fits": "=", "departs": "≠", "unknown": "?"}


def stages_text(stages: Sequence[Stage]) -> list[str]:
    """The stages of an operation as lines: what each line's values are, and where they first are something else."""
    if not stages:
        return []
    rows = []
    for one in stages:
        reading = {"fits": one.reading, "departs": f"not {one.reading}" if one.reading else ""}.get(one.status, "")
        first = ""
        if one.first is not None and one.status != "fits":
            index = ",".join(map(str, one.first.index))
            first = f"; first at [{index}]: {one.first.observed:.6g}, expected {one.first.expected:.6g}"
        count = f"{one.departing:,} of {one.checked:,} depart" if one.departing else f"all {one.checked:,}"
        rows.append(
            [f"{_SIGNS[one.status]} {one.place.line}", one.what, f"{reading or 'no known reading'} ({count}){first}"]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    return ["stages (= as it must be, ≠ departs, ? no known reading):"] + [
        f"  {row[0].ljust(widths[0])}  {row[1].ljust(widths[1])}  {row[2]}" for row in rows
    ]


def number(value: Any) -> str:
    """A number as text: integers as they are, others with four significant digits."""
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return str(int(value))
    real = float(value)
    whole = real.is_integer() and abs(real) < 1e6  # an infinity and a NaN are not
    return f"{real:.0f}" if whole else f"{real:.4g}"


def grid(rows: Sequence[Sequence[str]], *, row_names: Iterable[str] = (), column_names: Iterable[str] = ()) -> str:
    """Cells in columns that are as wide as their widest one."""
    names = [str(name) for name in row_names] or [""] * len(rows)
    heads = [str(name) for name in column_names]
    widths = [max(len(row[i]) for row in [*rows, heads or rows[0]]) for i in range(len(rows[0]))] if rows else []
    side = max(map(len, names), default=0)
    lines = []
    if heads:
        lines.append(" ".join([" " * side, *(head.rjust(w) for head, w in zip(heads, widths, strict=True))]))
    for name, row in zip(names, rows, strict=True):
        lines.append(" ".join([name.rjust(side), *(cell.rjust(w) for cell, w in zip(row, widths, strict=True))]))
    return "\n".join(line.rstrip() for line in lines)


def array_text(values: NDArray[Any], name: str = "") -> str:
    """An array: its shape and type, and its last two axes with indices; long ones are cut."""
    if values.ndim == 0:
        return f"{name} = {number(values.item())}" if name else number(values.item())
    title = f"{name}: {values.dtype.name} {'×'.join(map(str, values.shape))}"
    if values.ndim > 2:
        lead = (0,) * (values.ndim - 2)
        return f"{title}; here [{','.join(map(str, lead))}]\n{array_text(values[lead])}"
    if values.ndim == 1:
        return f"{title}\n{_vector_text(values)}"
    table = values
    shown = table[:_MOST, :_MOST]
    cut = "" if shown.shape == table.shape else f"\n… {table.shape[0]} × {table.shape[1]} in all; index it to see more"
    body = grid(
        [[number(v) for v in row] for row in shown],
        row_names=map(str, range(shown.shape[0])),
        column_names=map(str, range(shown.shape[1])),
    )
    return f"{title}\n{body}{cut}"


def _vector_text(values: NDArray[Any]) -> str:
    """A vector in rows of 16, the index of the first element beside each."""
    shown = values[: _MOST * _ROWS]
    cells = [number(v) for v in shown]
    rows = [cells[i : i + _MOST] for i in range(0, len(cells), _MOST)]
    rows[-1] += [""] * (len(rows[0]) - len(rows[-1]))
    more = "" if shown.size == values.size else f"\n… {values.size} in all; index it to see more"
    return grid(rows, row_names=map(str, range(0, len(cells), _MOST))) + more


def fragment_text(view: FragmentView, what: str = "values") -> str:
    """A fragment as a matrix.

    Args:
        what: "values", "lanes" (lane and register index of each element), "registers", "provenance", "expected",
            "difference".
    """
    kinds = {"a": "matrix_a", "b": "matrix_b", "c": "accumulator", "d": "accumulator"}
    rows, columns = view.values.shape
    title = (
        f"{view.text}: {kinds[view.letter]} {rows}×{columns} {view.type}, warp {view.warp}, "
        f"{view.state} line {view.place.line}"
    )
    if what == "lanes":
        pairs = zip(view.lanes, view.index, strict=True)
        cells = [[f"{lane}.{i}" for lane, i in zip(*pair, strict=True)] for pair in pairs]
        title += "; lane.x[i]"
    elif what == "registers":
        cells = [[str(name) for name in row] for row in view.registers]
    elif what == "provenance":
        cells = [[str(word) or "-" for word in row] for row in _shortened(view.provenance)]
        title += f"\n{_common(view.provenance)}"
    elif what in ("expected", "difference"):
        table = view.expected if what == "expected" else view.difference
        cells = [["-" if np.isnan(v) else number(v) for v in row] for row in table]
        title += f"\n{what} of: {view.reading}"
    else:
        cells = [[number(v) for v in row] for row in view.values]
    body = grid(cells, row_names=map(str, range(rows)), column_names=map(str, range(columns)))
    return f"{title}\n{body}"


def _common(words: NDArray[Any]) -> str:
    matrices = {str(word).rpartition("(")[0] or str(word) for word in words.flat}
    return "elements of " + ", ".join(sorted(one for one in matrices if one)[:4]) if matrices - {""} else "not followed"


def _shortened(words: NDArray[Any]) -> NDArray[Any]:
    """Only the indices where all elements are of one matrix."""
    matrices = {str(word).rpartition("(")[0] for word in words.flat}
    if len(matrices) != 1 or "" in matrices:
        return words
    short = np.empty(words.shape, object)
    for place in np.ndindex(*words.shape):
        short[place] = str(words[place]).rpartition("(")[2].rstrip(")").replace(" ", "")
    return short


def local_text(local: Local) -> str:
    """A local variable, and where its value is from."""
    where = f"line {local.line}: {local.code}"
    return f"{lanes_text(local.name, local.values, local.lanes)}\n    as it was after {where}"


def register_text(register: RegisterView) -> str:
    """A register of the 32 lanes."""
    return lanes_text(f"{register.name}" + (f" .{register.type}" if register.type else ""), register.values)


def lanes_text(head: str, values: NDArray[Any], lanes: int = 0xFFFFFFFF) -> str:
    """A value of each of 32 lanes, `-` in those that have none; one that all lanes share is written once."""
    flat = values.reshape(32, -1)
    has = [lane for lane in range(32) if lanes >> lane & 1]
    if (flat[has] == flat[has[0]]).all():
        whose = "all lanes" if len(has) == 32 else f"lanes {', '.join(map(str, has))}"
        return f"{head} = {', '.join(number(v) for v in flat[has[0]])} in {whose}"
    cells = [",".join(number(v) for v in values) if lane in has else "-" for lane, values in enumerate(flat)]
    rows = [cells[i : i + 8] for i in range(0, 32, 8)]
    return f"{head}\n{grid(rows, row_names=(f'lanes {i}-{i + 7}' for i in range(0, 32, 8)))}"


def waiting_text(rows: Sequence[Waiting], chosen: int) -> str:
    """Where the warps stand, one line per group of lanes."""
    lines = []
    for one in rows:
        lanes = "" if one.lanes == 0xFFFFFFFF else f" lanes {one.lanes:#010x}"
        doing = f"waits for {one.waits}" if one.waits else "ready"
        mark = "*" if one.warp == chosen else " "
        where = f"{Path(one.place.file).name}:{one.place.line}"
        lines.append(f"{mark} warp {one.warp:<2}{lanes}  {where:<20} {doing:<22} {one.code.strip()}".rstrip())
    return "\n".join(lines) or "all warps have exited"


def listing(session: Session, first: int, last: int, file: str = "") -> str:
    """Source lines; marks show at which the warps of the block stand, and `>` the chosen one."""
    path = session.lines.file(file)
    text = session.lines.text(path)
    at: dict[int, set[int]] = {}
    for one in session.machine.standings:
        place = session.lines.places[one.pc]
        if place.file == path:
            at.setdefault(place.line, set()).add(one.warp)
    marks = {line: f"{'>' if session.warp in warps else ' '}{_ranges(warps)}" for line, warps in at.items()}
    width = max([len(mark) for mark in marks.values()], default=1)
    rows = []
    for line in range(max(first, 1), min(last, len(text)) + 1):
        rows.append(f"{marks.get(line, '').ljust(width)} {line:>5}  {text[line - 1]}".rstrip())
    return "\n".join(rows) or f"{Path(path).name} has {len(text)} lines"


def _ranges(numbers: Iterable[int]) -> str:
    """ "w0-3,5" of warps."""
    return "w" + ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs(sorted(numbers)))
