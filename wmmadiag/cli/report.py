"""Show a run that `wmmadiag check --json FILE` wrote: on the terminal, or as
report files. Neither the sources nor a GPU are needed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.arguments import add_colour, add_detail
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import add_outputs, chosen_outputs, write_outputs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("run", metavar="RUN.json", help="what `wmmadiag check … --json RUN.json` wrote")
    add_detail(parser)
    add_colour(parser)
    add_outputs(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns what the run itself ended with."""
    from wmmadiag.report import terminal
    from wmmadiag.results import json_file

    outputs = chosen_outputs(args)
    read = json_file.read(Path(args.run))
    if outputs.wanted:
        write_outputs(read, outputs, console)
    else:
        console.verdict(terminal.render_run(read, colour=console.colour, verbose=args.verbose), read.exit_code)
    return read.exit_code
