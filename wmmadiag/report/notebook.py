"""What a notebook shows of a run, a report, a diagnosis, a comparison: its text as on a terminal, its maps as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from textwrap import dedent
from typing import TYPE_CHECKING

from wmmadiag.report import comparison_text, terminal, terminal_diagnosis
from wmmadiag.report.map_svg import error_map, fragment_map, tile_map
from wmmadiag.results.text import visible

if TYPE_CHECKING:
    from wmmadiag.compare.observation import Observation
    from wmmadiag.report.comparison import RunComparison
    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.results.model import KernelReport
    from wmmadiag.results.run import Run

_MOST = 4
"""Maps of one thing that are drawn."""


def run_html(run: Run) -> str:
    """The run's text, then maps of wrong outputs and of fragments."""
    drawn = [error_map(one) for kernel in run.kernels for one in kernel.maps]
    drawn += [fragment_map(one) for kernel in run.kernels for one in kernel.fragments]
    return _text(terminal.render_run(run)) + _boxes(drawn)


def report_html(report: KernelReport) -> str:
    """The report's text, then a map of each wrong output."""
    seen = [one for case in report.cases for one in case.observations]
    return _text(terminal.render(report)) + _boxes(_tiles(seen))


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The diagnosis's text."""
    return _text(terminal_diagnosis.render(diagnosis))


def comparison_html(compared: RunComparison) -> str:
    """The text of two runs compared."""
    return _text(comparison_text.render(compared))


def observation_html(seen: Observation) -> str:
    """What a comparison of arrays saw, and which tiles are wrong."""
    return _text(dedent(visible("\n".join(terminal.observation_lines(seen))))) + _boxes(_tiles([seen]))


def _tiles(seen: Iterable[Observation]) -> list[str]:
    return [tile_map(one) for each in seen for one in each.tiles]


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _boxes(pictures: list[str]) -> str:
    shown = "".join(f'<div style="overflow-x:auto">{one}</div>' for one in pictures[:_MOST])
    return shown + (f"<p>{len(pictures) - _MOST} more maps</p>" if len(pictures) > _MOST else "")
