"""Say what changed between two runs that `wmmadiag check --json FILE` wrote:
new failures, fixed ones, error and time up or down.

Exit codes: 1 new failures, 2 newly in error, 3 newly undecided, 0 neither.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.arguments import add_colour
from wmmadiag.cli.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("before", metavar="BEFORE.json", help="the older run, such as that of the main branch")
    parser.add_argument("after", metavar="AFTER.json", help="the newer run")
    parser.add_argument("-v", "--verbose", action="store_true", help="also cases that are right in both")
    parser.add_argument("--markdown", metavar="FILE", default=None, help="for a comment on a pull request; '-': stdout")
    add_colour(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.report import comparison_text, json_file
    from wmmadiag.report.comparison import compare_runs
    from wmmadiag.report.writing import write_whole

    compared = compare_runs(json_file.read(Path(args.before)), json_file.read(Path(args.after)))
    if args.markdown == "-":
        console.print(comparison_text.render_markdown(compared))
        return compared.exit_code
    if args.markdown is not None:
        write_whole(Path(args.markdown), comparison_text.render_markdown(compared))
    console.print(comparison_text.render(compared, colour=console.colour, verbose=args.verbose))
    return compared.exit_code
