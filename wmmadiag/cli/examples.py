"""List the kernels that come with wmmadiag, right and wrong ones, or copy them
to a folder of yours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import add_json, write_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--copy", metavar="FOLDER", help="copy all of them to this new folder")
    add_json(parser, "the list")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.subject import shipped

    if args.copy:
        shipped.copy(Path(args.copy))
        console.print(f"copied to {args.copy}; check one with: wmmadiag check {args.copy}/attention/kernel.toml")
        return 0
    cards = shipped.cards()
    if args.json:
        rows = [{"path": path, "text": text} for path, text in cards]
        write_json({"folder": str(shipped.kernels()), "cards": rows}, args.json, console)
        return 0
    width = max(len(path) for path, _ in cards)
    console.print(f"{shipped.kernels()}:")
    console.print("\n".join(f"  {path:<{width}}  {text}" for path, text in cards))
    return 0
