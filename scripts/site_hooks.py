"""MkDocs hook: what pages link to outside docs/ (kernels, examples, reports) comes along: the site needs no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\]\(\.\./([^)#\s]+)([^)\s]*)\)")
_ROOT = Path(__file__).resolve().parent.parent


def on_files(files: Any, config: Any) -> Any:
    """Add each linked file under `repository/`; one that does not exist is left for MkDocs to complain about."""
    from mkdocs.structure.files import File

    wanted = {
        found[1]
        for page in files.documentation_pages()
        for found in _LINK.finditer(Path(page.abs_src_path).read_text("utf-8"))
    }
    for path in sorted(wanted):
        source = _ROOT / path
        if source.is_file():
            files.append(File.generated(config, _address(path), content=source.read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point such links at the files that came along."""
    return _LINK.sub(lambda found: f"]({_address(found[1])}{found[2]})", markdown)


def _address(path: str) -> str:
    # Browsers show .html; everything else as text.
    return "repository/" + (path if path.endswith((".html", ".svg", ".png")) else path + ".txt")
