"""Pages of docs/ from modules' own words: prose, then sections "Bad:" and "Good:" with an example each."""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from pathlib import Path


def prose_and_examples(docstring: str) -> tuple[str, str]:
    """A docstring's text, and its examples as Markdown, each led by an empty line; either may be ""."""
    text, *examples = re.split(r"^(Bad|Good):\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    code = "".join(
        f"\n{word}:\n\n```cuda\n{textwrap.dedent(body).strip()}\n```\n"
        for word, body in zip(examples[::2], examples[1::2], strict=True)
    )
    return text.strip(), code


def write_page(text: str, usual: str) -> None:
    """Write a page to the file that the command line names, or to the usual one."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else usual)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
