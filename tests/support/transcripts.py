"""Sessions in the documentation's code blocks, run and held against what the page shows.

A block whose first line begins with "$ " is a session. A line `…` stands for any lines, `…` within one for any text;
what a command prints need not be shown. `(wmmadiag) COMMAND` are commands at the debugger's prompt.
`python transcripts.py PAGE…` runs pages in the current folder with the commands that are installed, as CI does.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROMPT = "(wmmadiag) "
ANY = "…"


@dataclass
class Step:
    """One command of a session, and what the page shows after it."""

    line: int
    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """The command's words; what is typed at the debugger's prompt becomes its -e options."""
        typed = [one[len(PROMPT) :] for one in self.shown if one.startswith(PROMPT)]
        return [
            *shlex.split(self.command),
            *(["--batch"] if typed else []),
            *(word for one in typed for word in ("-e", one)),
        ]


def blocks(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Code blocks: the number of the first line inside, and the lines."""
    inside: list[str] | None = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                first, inside = number + 1, []
            else:
                yield first, inside
                inside = None
        elif inside is not None:
            inside.append(line)


def steps(page: Path) -> list[Step]:
    """The commands of a page's sessions, in order."""
    found: list[Step] = []
    for first, lines in blocks(page):
        if not lines or not lines[0].startswith("$ "):
            continue
        for number, line in enumerate(lines, first):
            if line.startswith("$ "):
                found.append(Step(number, line[2:]))
            else:
                found[-1].shown.append(line)
    return found


def matches(shown: list[str], printed: str) -> bool:
    """Whether this is what the page shows; a command that shows nothing may print anything."""
    if not shown:
        return True
    lines = [line.rstrip() for line in shown]
    while lines and not lines[-1]:
        lines.pop()
    parts = [
        r"(?:.*\n)*?" if line == ANY else ".*".join(map(re.escape, line.split(ANY))) + r"[ \t]*\n" for line in lines
    ]
    return re.fullmatch("".join(parts) + r"\s*", printed.rstrip() + "\n") is not None


def run(page: Path, execute: Callable[[list[str]], str]) -> None:
    """Run a page's sessions.

    Raises:
        AssertionError: a command prints something else than the page shows.
    """
    for step in steps(page):
        printed = execute(step.words)
        shown = "\n".join(step.shown)
        assert matches(step.shown, printed), (
            f"{page}:{step.line}: $ {step.command}\n--- the page shows\n{shown}\n--- it prints\n{printed}"
        )


def _execute(words: list[str]) -> str:
    command = " ".join(word if word in ("&&", "|", ">") else shlex.quote(word) for word in words)
    surroundings = {**os.environ, "COLUMNS": "80"}
    made = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=surroundings
    )
    return made.stdout


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name).resolve(), _execute)
        print(f"{name}: {len(steps(Path(name)))} commands, as shown")
