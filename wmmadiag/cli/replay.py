"""Repeat the check in a bundle that `wmmadiag check CARD --bundle FILE` wrote:
without its sources, a compiler or a GPU; then compare the outcomes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from wmmadiag.cli.arguments import add_colour, add_detail
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import add_outputs, chosen_outputs, write_outputs

DIFFERENT = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("bundle", metavar="BUNDLE", help="of `wmmadiag check CARD --bundle BUNDLE`, or of a campaign")
    add_detail(parser)
    parser.add_argument("--backend", metavar="NAME", default="emulator", help="emulator (default), gpu or both")
    add_colour(parser)
    add_outputs(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the check's exit code, or 3 where the outcome is another than the bundle's."""
    from wmmadiag.bundle.read import read_bundle
    from wmmadiag.bundle.replay import replay
    from wmmadiag.fidelity.bundle import is_difference
    from wmmadiag.report import terminal

    if is_difference(Path(args.bundle)):
        return _difference(Path(args.bundle), console)
    outputs = chosen_outputs(args)
    bundle = read_bundle(Path(args.bundle))
    versions = bundle.manifest.versions
    if not console.quiet:
        console.note(
            f"made by wmmadiag {versions.get('wmmadiag', '(unknown)')} with {versions.get('NVRTC') or 'no NVRTC'}"
        )
    with console.doing(f"repeating {args.bundle}"):
        found = replay(bundle, backend=args.backend)
    if not outputs.to_stdout:
        text = terminal.render_run(found.run, colour=console.colour, verbose=args.verbose)
        console.verdict(text, found.run.exit_code)
    if outputs.wanted:
        write_outputs(found.run, outputs, console)
    if found.differences:
        console.note("\n".join(["the outcome is not the bundle's:", *(f"  {line}" for line in found.differences)]))
        return DIFFERENT
    if args.backend == "emulator" and not console.quiet:
        console.note("the outcome is the bundle's")
    return found.run.exit_code


def _difference(path: Path, console: Console) -> int:
    """Repeat what `wmmadiag campaign --fidelity --bundles` wrote."""
    from wmmadiag.fidelity.bundle import repeated

    found = repeated(path)
    console.print(
        f"{found.piece.key}, seed {found.piece.seed}: {found.differing:,} of {found.outputs:,} outputs differ"
    )
    if found.first is not None:
        console.print(f"the first: {found.first}")
    return 1 if found.differing else 0
