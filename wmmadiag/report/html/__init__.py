"""A run as one self-contained HTML page: no network, no other files, everything from users' files escaped.

`page.html` is the template, `style.css` and `maps.js` are put into it. Maps of errors travel as compressed arrays
(`wmmadiag.results.maps`) that the page draws; all the rest is plain HTML and reads without scripts.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.report.html.views import RawMarkup, views
from wmmadiag.results.run import Run
from wmmadiag.results.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent


def render(run: Run) -> str:
    """The page as text."""
    return page(_HERE / "page.html", _HERE / "maps.js", **views(run))


def page(template: Path, script: Path, style: Path | None = None, **shown: Any) -> str:
    """A self-contained page.

    Args:
        template: of jinja2, with places for `style`, `script` and their hashes.
        script, style: put into it, the latter behind the style that all pages share.
        shown: what the template shows.
    """
    styles = _text(_HERE / "style.css") + (_text(style) if style is not None else "")
    code = _text(script)
    made: str = (
        _environment(template.parent)
        .get_template(template.name)
        .render(
            shown, style=RawMarkup(styles), script=RawMarkup(code), style_hash=_hash(styles), script_hash=_hash(code)
        )
    )
    return made


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(folder),
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
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _hash(text: str) -> str:
    """For the page's Content-Security-Policy: only these texts may run or style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
