"""Where the pages of this documentation are to be read: nowhere, until somebody says so.

An address is never made up. The project's own is `wmmadiag.__documentation__`; whoever keeps the built site, or a copy
of the sources, somewhere else names that in `WMMADIAG_DOCUMENTATION`.
"""

from __future__ import annotations

import os
import re

import wmmadiag
from wmmadiag.errors import ConfigurationError

VARIABLE = "WMMADIAG_DOCUMENTATION"


def address(page: str, anchor: str = "") -> str:
    """The absolute address of a page of docs/, such as "checks"; "" where none is known.

    Raises:
        ConfigurationError: the variable holds no address.
    """
    named = os.environ.get(VARIABLE, "")
    if named and not re.fullmatch(r"https?://[^\s/{}\"<>\\^`|]+(/([^\s{}\"<>\\^`|]|\{page\})*)?", named):
        raise ConfigurationError(
            f"{VARIABLE} is no address of pages: {named!r}",
            hint='write "https://host/folder", or "https://host/folder/{page}.md" of sources; or unset it',
        )
    where = named or wmmadiag.__documentation__
    if not where:
        return ""
    if "{page}" not in where:
        where = f"{where.rstrip('/')}/{{page}}.html"
    return where.replace("{page}", page) + (f"#{anchor}" if anchor else "")
