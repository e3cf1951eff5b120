"""List the kernels that come with wmmadiag, right and wrong ones, or copy them
to a folder of yours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--copy", metavar="FOLDER", help="copy all of them to this new folder")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.subject import shipped

    if args.copy:
        shipped.copy(Path(args.copy))
        console.print(f"copied to {args.copy}; check one with: wmmadiag check {args.copy}/attention/kernel.toml")
        return 0
    cards = shipped.cards()
    width = max(len(path) for path, _ in cards)
    console.print(f"{shipped.kernels()}:")
    console.print("\n".join(f"  {path:<{width}}  {text}" for path, text in cards))
    return 0
