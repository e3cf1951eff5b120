"""List the shapes, types and layouts that tensor cores have: wmma, mma.sync and
the moves of 8x8 matrices, for all architectures or one.
"""

from __future__ import annotations

import argparse

from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import add_json, write_json, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--arch", metavar="SM", default="", help="only what this target has, such as sm_89")
    add_json(parser, "the table")
    parser.add_argument("--markdown", metavar="FILE", default="", help="as a Markdown table ('-': standard output)")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.api.fragment_forms import rows
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.results import shapes as shape_table

    arch = CompileOptions(arch=args.arch).arch if args.arch else ""
    found = rows(arch)
    if args.json:
        write_json(shape_table.data(found, arch), args.json, console)
    if args.markdown:
        write_text(shape_table.markdown(found, arch), args.markdown, console)
    if not (args.json or args.markdown):
        console.print(shape_table.text(found, arch))
    return 0
