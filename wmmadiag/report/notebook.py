"""What a notebook shows of a run, a report, a diagnosis, a comparison: its text as on a terminal, its maps as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

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
    from wmmadiag.report.map_svg import error_map, fragment_map
    from wmmadiag.report.terminal import render_run

    drawn = [error_map(one) for kernel in run.kernels for one in kernel.maps]
    drawn += [fragment_map(one) for kernel in run.kernels for one in kernel.fragments]
    return _text(render_run(run)) + _boxes(drawn)


def report_html(report: KernelReport) -> str:
    """The report's text, then a map of each wrong output."""
    from wmmadiag.report.terminal import render

    seen = [one for case in report.cases for one in case.observations]
    return _text(render(report)) + _boxes(_tiles(seen))


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The diagnosis's text."""
    from wmmadiag.report.terminal_diagnosis import render

    return _text(render(diagnosis))


def comparison_html(compared: RunComparison) -> str:
    """The text of two runs compared."""
    from wmmadiag.report.comparison_text import render

    return _text(render(compared))


def observation_html(seen: Observation) -> str:
    """What a comparison of arrays saw, and which tiles are wrong."""
    from textwrap import dedent

    from wmmadiag.report.terminal import observation_lines
    from wmmadiag.results.text import visible

    return _text(dedent(visible("\n".join(observation_lines(seen))))) + _boxes(_tiles([seen]))


def _tiles(seen: Iterable[Observation]) -> list[str]:
    from wmmadiag.report.map_svg import tile_map

    return [tile_map(one) for each in seen for one in each.tiles]


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _boxes(pictures: list[str]) -> str:
    shown = "".join(f'<div style="overflow-x:auto">{one}</div>' for one in pictures[:_MOST])
    return shown + (f"<p>{len(pictures) - _MOST} more maps</p>" if len(pictures) > _MOST else "")
