"""Say what changed between two runs that `wmmadiag check --json FILE` wrote:
new failures, fixed ones, error and time up or down.

Exit codes: 1 new failures, 2 newly in error, 3 newly undecided, 0 neither.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.arguments import add_colour, add_detail
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import STDOUT, add_json, write_json, write_text
from wmmadiag.errors import ConfigurationError

FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("before", metavar="BEFORE.json", help="the older run, such as that of the main branch")
    parser.add_argument("after", metavar="AFTER.json", help="the newer run")
    add_detail(parser)
    add_json(parser, "every case of both")
    parser.add_argument("--markdown", metavar="FILE", default="", help="for a comment on a pull request; '-': stdout")
    add_colour(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.report import comparison_text
    from wmmadiag.report.comparison import compare_runs
    from wmmadiag.results import json_file
    from wmmadiag.results.model import to_builtins

    if args.json == args.markdown == STDOUT:
        raise ConfigurationError("only one of --json and --markdown can go to standard output", hint="name a file")
    compared = compare_runs(json_file.read(Path(args.before)), json_file.read(Path(args.after)))
    if args.json:
        write_json({"format_version": FORMAT_VERSION, **to_builtins(compared)}, args.json, console)
    if args.markdown:
        write_text(comparison_text.render_markdown(compared), args.markdown, console)
    if STDOUT not in (args.json, args.markdown):
        text = comparison_text.render(compared, colour=console.colour, verbose=args.verbose)
        console.verdict(text, compared.exit_code)
    return compared.exit_code
