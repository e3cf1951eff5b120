"""Draw which lane holds which element of a fragment, where each element lies in
memory, and which banks that costs.

SHAPE is that of wmma (m16n16k16, or 16x16x16), of mma.sync (mma.m16n8k16), or
ldmatrix.x1, .x2, .x4 and stmatrix, also with .trans. TYPE is the element type
of that MATRIX: a, b, c (accumulator, loaded) or d (stored).

  wmmadiag fragment m16n16k16 f16 a --layout row --ldm 72
  wmmadiag fragment mma.m16n8k16 f16 b
  wmmadiag fragment ldmatrix.x4.trans --ldm 64
"""

from __future__ import annotations

import argparse

from wmmadiag.cli.arguments import add_colour, natural, positive
from wmmadiag.cli.console import Console, terminal_width
from wmmadiag.cli.outputs import STDOUT, add_json, write_json, write_text
from wmmadiag.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("shape", metavar="SHAPE", help="such as m16n16k16, mma.m16n8k16 or ldmatrix.x4")
    parser.add_argument("type", metavar="TYPE", nargs="?", default="", help="such as f16; C++ names do, too")
    parser.add_argument("matrix", metavar="MATRIX", nargs="?", default="", help="a, b, c or d")
    parser.add_argument("--layout", metavar="LAYOUT", default="", help="row or col (default: row, or what there is)")
    parser.add_argument(
        "--ldm", type=positive, metavar="N", default=None, help="leading dimension in elements (default: no gap)"
    )
    parser.add_argument("--base", type=natural, metavar="BYTES", default=0, help="address of the first element")
    parser.add_argument("--space", metavar="SPACE", default="shared", help="shared or global (default: shared)")
    parser.add_argument("--arch", metavar="SM", default="sm_90", help="target, such as sm_89 (default: sm_90)")
    parser.add_argument("--svg", metavar="FILE", default="", help="write the picture as SVG ('-': standard output)")
    parser.add_argument("--markdown", metavar="FILE", default="", help="write Markdown tables ('-': standard output)")
    add_json(parser, "element by element")
    add_colour(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.api.fragment_layouts import fragment_map
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.report.fragments import markdown as fragment_markdown
    from wmmadiag.report.fragments import svg as fragment_svg
    from wmmadiag.report.fragments import text as fragment_text

    files = (args.svg, args.markdown, args.json)
    if files.count(STDOUT) > 1:
        raise ConfigurationError("two pictures for standard output", hint="--svg FILE writes one of them to a file")
    found = fragment_map(
        args.shape, args.type, args.matrix, layout=args.layout, ldm=args.ldm, base=args.base,
        arch=CompileOptions(arch=args.arch).arch, space=args.space,
    )  # fmt: skip
    if args.svg:
        write_text(fragment_svg.render(found), args.svg, console)
    if args.markdown:
        write_text(fragment_markdown.render(found), args.markdown, console)
    if args.json:
        write_json(found.as_data(), args.json, console)
    if not any(files):
        console.print(fragment_text.render(found, width=terminal_width(), colour=console.colour))
    return 0
