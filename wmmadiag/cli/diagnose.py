"""Say what is broken in a kernel, on which line, how we know, what it is not, and
what mends it: tried on a copy.

PATH is a card (kernel.toml), or a CUDA source (.cu); --computes says what that
computes where the source does not tell.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import add_checks, add_colour, add_detail, add_inputs, add_subject, of_subject
from wmmadiag.cli.console import Console
from wmmadiag.cli.diagnose_source import Beside, beside, is_read_from_source, one_of_several
from wmmadiag.cli.outputs import STDOUT, add_json, write_json
from wmmadiag.errors import ConfigurationError, SeveralKernelsError

if TYPE_CHECKING:
    from wmmadiag.results.diagnosis import Diagnosis


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="card, or CUDA source")
    add_detail(parser)
    add_json(parser, "the diagnosis")
    add_colour(parser)
    group = parser.add_argument_group("what to look into")
    group.add_argument("--case", action="append", metavar="NAME", default=None, help="only this case; may be repeated")
    group.add_argument("--variant", metavar="NAME", default="", help="which variant (default: the first that fails)")
    add_inputs(group)
    add_checks(group)
    group.add_argument(
        "--effort",
        choices=("quick", "normal", "thorough"),
        default="normal",
        help="how many changes are tried (default: normal); the answer never depends on the machine's speed",
    )
    add_subject(parser, "the kernel, in place of what its card or source says")
    group = parser.add_argument_group("where it runs")
    group.add_argument("--backend", metavar="NAME", default="emulator", help="emulator (default), gpu or both")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.subject.open_subject import derived_once

    with derived_once():
        return _run(Path(args.path), args, console)


def _run(path: Path, args: argparse.Namespace, console: Console) -> int:
    found, more = _one_of_them(path, args, console), Beside()
    if found.outcome == "right" and is_read_from_source(path, args):
        console.progress(f"{path}: what else it launches")
        more = beside(path, args)
        if more.entry:
            args.entry = more.entry
            found = _diagnosis(path, args, console)
    code = found.exit_code or more.code
    console.clear()
    if args.json:
        from wmmadiag.results.model import to_builtins

        write_json(to_builtins(found), args.json, console)
    if args.json != STDOUT:
        from wmmadiag.report.terminal_diagnosis import render

        text = render(found, colour=console.colour, verbose=args.verbose)
        console.verdict("\n".join([text.rstrip("\n"), *([""] * bool(more.lines)), *more.lines]), code)
    return code


def _one_of_them(path: Path, args: argparse.Namespace, console: Console) -> Diagnosis:
    """The diagnosis; of several kernels of which none was named that of one that is not right by itself."""
    try:
        return _diagnosis(path, args, console)
    except SeveralKernelsError as error:
        args.entry = one_of_several(path, args) if args.backend == "emulator" else ""
        if not args.entry:
            entries = [*filter(None, [error.function]), *error.kernels] if args.backend == "emulator" else []
            found = _first_wrong(path, args, console, entries)
            if found is None:
                raise
            return found
    return _diagnosis(path, args, console)


def _first_wrong(path: Path, args: argparse.Namespace, console: Console, entries: Sequence[str]) -> Diagnosis | None:
    """The first of several kernels, or of what they compute together, that is wrong by the reading that its results go
    with; None where none is."""
    for entry in entries:
        args.entry = entry
        with contextlib.suppress(ConfigurationError):  # nothing that it writes tells what it computes
            found = _diagnosis(path, args, console)
            if found.outcome != "right":
                return found
    args.entry = ""
    return None


def _diagnosis(path: Path, args: argparse.Namespace, console: Console) -> Diagnosis:
    from wmmadiag.api import diagnosis

    return diagnosis(
        path,
        arch=args.arch,
        variant=args.variant,
        cases=args.case,
        backend=args.backend,
        checks=args.checks,
        effort=args.effort,
        progress=console.progress,
        **of_subject(args),
    )
