"""Say what this machine has and what it lacks, each with the command that
installs it, and prove the rest by a small WMMA kernel.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import add_colour
from wmmadiag.cli.console import Console, terminal_width
from wmmadiag.cli.outputs import STDOUT, add_json, write_json

if TYPE_CHECKING:
    from wmmadiag.cli.installation import Component


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    add_json(parser, "all of it")
    add_colour(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.cli.installation import examine

    found = []
    for component in examine():
        found.append(component)
        if args.json != STDOUT:
            console.print(_text(component, console.colour))
    lacking = [one.name for one in found if one.required and not one.present]
    if args.json:
        from dataclasses import asdict

        write_json({"ready": not lacking, "components": [asdict(one) for one in found]}, args.json, console)
    if args.json != STDOUT:
        console.print(f"\nnot ready: {', '.join(lacking)}" if lacking else "\nready: all that is required is there")
    return 2 if lacking else 0


def _text(component: Component, colour: bool) -> str:
    import textwrap

    word, code = ("ok", "32") if component.present else ("MISSING", "31;1") if component.required else ("no", "33")
    mark = f"{word:<8}"
    lines = textwrap.wrap(component.detail, terminal_width() - 24, break_long_words=False, break_on_hyphens=False)
    if component.install and not component.present:
        lines.append(f"next: {component.install}")
    first = f"{mark}{component.name:<15} {lines[0] if lines else ''}"
    if colour:
        first = f"\x1b[{code}m{mark}\x1b[0m" + first[len(mark) :]
    return "\n".join([first, *(" " * 24 + line for line in lines[1:])])
