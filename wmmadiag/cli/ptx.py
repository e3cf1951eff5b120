"""Show a compiled kernel's instructions under the source lines that they come
from, with the calls that were inlined there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.arguments import add_colour, add_compilation, definitions
from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("source", metavar="SOURCE", help="CUDA source (.cu) or PTX")
    parser.add_argument("--raw", action="store_true", help="the PTX text as the compiler wrote it")
    add_compilation(parser)
    add_colour(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.api import DEFAULT_ARCH, compile_cuda
    from wmmadiag.ptx.listing import listing
    from wmmadiag.subject.find_cards import check_exists

    source = Path(args.source)
    check_exists(source)
    if source.suffix == ".toml":
        raise ConfigurationError(f"{source}: a card", hint="give the source that it names, and -D for its macros")
    compilation = compile_cuda(
        source,
        arch=args.arch or DEFAULT_ARCH,
        entry=args.entry or None,
        macros=definitions(args.define),
        include_paths=args.include,
        std=args.std or "c++17",
        use_cache=not args.no_cache,
    )
    for note in compilation.notes:
        console.note(f"note: {note.place}: {note.message}" if note.place else f"note: {note.message}")
    console.print(compilation.ptx if args.raw else listing(compilation, args.entry or None))
    return 0
