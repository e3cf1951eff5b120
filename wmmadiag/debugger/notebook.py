"""A session's things as HTML for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from wmmadiag.debugger.text import fragment_text, moment_text, number

if TYPE_CHECKING:
    from wmmadiag.debugger.fragment_view import FragmentView
    from wmmadiag.debugger.position import Moment

_CELL = "padding:1px 5px;text-align:right;font-family:monospace;font-size:11px"


def moment_html(moment: Moment) -> str:
    """A moment as preformatted text."""
    return f"<pre>{escape(moment_text(moment))}</pre>"


def fragment_html(view: FragmentView) -> str:
    """A fragment as a table, coloured by magnitude; hovering over an element tells lane, register and index."""
    values = view.values.astype(np.float64)
    finite = np.abs(values[np.isfinite(values)])
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    columns = "".join(f"<th style='{_CELL}'>{column}</th>" for column in range(values.shape[1]))
    rows = []
    for row in range(values.shape[0]):
        cells = "".join(_cell(view, row, column, values[row, column], top) for column in range(values.shape[1]))
        rows.append(f"<tr><th style='{_CELL}'>{row}</th>{cells}</tr>")
    title = escape(fragment_text(view).split("\n")[0])
    return f"<div>{title}</div><table><tr><th></th>{columns}</tr>{''.join(rows)}</table>"


def _cell(view: FragmentView, row: int, column: int, value: Any, top: float) -> str:
    if not np.isfinite(value):
        colour = "#e07070"
    else:
        shade = 255 - int(110 * min(abs(float(value)) / top, 1.0))
        colour = f"rgb(255,{shade},{shade})" if value < 0 else f"rgb({shade},{shade},255)"
    lane, index, register = view.lanes[row, column], view.index[row, column], view.registers[row, column]
    hint = escape(f"lane {lane}, x[{index}], {register}", quote=True)
    shown = escape(number(view.values[row, column]))
    return f"<td title='{hint}' style='{_CELL};background:{colour};color:#000'>{shown}</td>"
