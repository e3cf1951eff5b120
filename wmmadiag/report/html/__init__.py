"""A run as one self-contained HTML page: no network, no other files, everything from users' files escaped.

`page.html` is the template, `style.css` and `maps.js` are put into it. Maps of errors travel as compressed arrays
(`wmmadiag.report.maps`) that the page draws; all the rest is plain HTML and reads without scripts.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.report.html.views import views
from wmmadiag.report.run import Run
from wmmadiag.report.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent


def render(run: Run) -> str:
    """The page as text."""
    style, script = _text("style.css"), _text("maps.js")
    page: str = (
        _environment()
        .get_template("page.html")
        .render(
            views(run), style=_Html(style), script=_Html(script), style_hash=_hash(style), script_hash=_hash(script)
        )
    )
    return page


class _Html(str):
    """Text of this package that needs no escaping."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: Any) -> Any:
    """Control characters and marks that reorder text become visible; escaping comes after."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _text(name: str) -> str:
    return (_HERE / name).read_text("utf-8")


def _hash(text: str) -> str:
    """For the page's Content-Security-Policy: only these texts may run or style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
