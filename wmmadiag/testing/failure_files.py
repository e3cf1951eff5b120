"""The report files of one failing test."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.report import html
from wmmadiag.results import json_file
from wmmadiag.results.json_file import write_whole

if TYPE_CHECKING:
    from wmmadiag.results.run import Run


def write_reports(run: Run, folder: Path, test: str) -> Path:
    """Write a run as a page and as JSON; returns the page's path.

    Args:
        test: its node id, which names the files; parallel workers never write the same one.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", test).strip("-.")
    stem = f"{words[-100:]}-{hashlib.sha256(test.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"
    write_whole(folder / f"{stem}.json", json_file.render(run))
    page = folder / f"{stem}.html"
    write_whole(page, html.render(run))
    return page
