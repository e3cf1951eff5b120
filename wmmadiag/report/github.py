"""A run as GitHub Actions' workflow commands: annotations on the lines of a pull request.

The form and its escapes are those of actions/toolkit, `packages/core/src/command.ts`.
"""

from __future__ import annotations

from wmmadiag.report.marks import LineMark, marks
from wmmadiag.results.run import Run
from wmmadiag.results.text import split_place, visible

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(run: Run) -> str:
    """One line per annotation, "" where there is nothing to say."""
    return "".join(_command(mark) + "\n" for mark in marks(run))


def _command(mark: LineMark) -> str:
    place = split_place(mark.place)
    properties = {"file": place.file}
    if place.line:
        properties["line"] = str(place.line)
    if place.column:
        properties["col"] = str(place.column)
    properties["title"] = f"{mark.rule}: {mark.kernel}"
    given = {name: _data(visible(value)) for name, value in properties.items() if value}
    named = ",".join(f"{name}={value.replace(':', '%3A').replace(',', '%2C')}" for name, value in given.items())
    text = "\n".join([mark.message, *mark.more])
    return f"::{_COMMANDS[mark.level]} {named}::{_data(visible(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
