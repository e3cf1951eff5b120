"""List the shapes, types and layouts that tensor cores have: wmma, mma.sync and
the moves of 8x8 matrices, for all architectures or one.
"""

from __future__ import annotations

import argparse

from wmmadiag.cli.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("--arch", metavar="SM", default="", help="only what this target has, such as sm_89")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--markdown", action="store_true", help="as a Markdown table")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.fragment_forms import rows
    from wmmadiag.report.fragments import shapes as shape_table

    arch = CompileOptions(arch=args.arch).arch if args.arch else ""
    found = rows(arch)
    if args.json:
        import json

        console.print(json.dumps(shape_table.data(found, arch), indent=1))
    elif args.markdown:
        console.print(shape_table.markdown(found, arch))
    else:
        console.print(shape_table.text(found, arch))
    return 0
