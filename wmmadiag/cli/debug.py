"""Stop a kernel anywhere, look into its fragments and memory, and go back. No GPU.

PATH is a card (kernel.toml), or a CUDA source (.cu) or PTX file; --computes says
what that computes where the source does not tell. Type `help` at the prompt.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from wmmadiag.cli.arguments import add_inputs, add_subject, of_subject
from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="card, CUDA source or PTX")
    group = parser.add_argument_group("what to run")
    group.add_argument("--case", metavar="NAME", default="", help="which case (default: the first)")
    group.add_argument("--variant", metavar="NAME", default="", help="which variant (default: the first)")
    add_inputs(group)
    group.add_argument(
        "--against", metavar="VARIANT|CARD|FILE", default=None,
        help="another variant or card, or a GPU's results (.npz): `against` stops where they first differ",
    )  # fmt: skip
    group.add_argument(
        "--keep",
        action="store_true",
        help="compile it so that local variables keep their values (`keep` at the prompt)",
    )
    group = parser.add_argument_group("commands")
    group.add_argument("-x", "--script", action="append", metavar="FILE", default=[], help="first run its commands")
    group.add_argument("-e", "--command", action="append", metavar="COMMAND", default=[], help="run a command first")
    group.add_argument("--batch", action="store_true", help="leave after these; the first that fails ends it")
    group.add_argument("--json-lines", action="store_true", help="answer with one JSON object per command, a line each")
    add_subject(parser, "a kernel without a card")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.debugger.api import debug
    from wmmadiag.debugger.interpreter import Interpreter
    from wmmadiag.debugger.prompt import Prompt, typed_lines
    from wmmadiag.subject.find_cards import one_subject

    scripts = [line for name in args.script for line in _script(Path(name))] + list(args.command)
    session = debug(
        one_subject(Path(args.path)),
        case=args.case,
        variant=args.variant,
        arch=args.arch,
        against=args.against,
        **of_subject(args),
    )
    if args.keep:
        from wmmadiag.debugger.kept import kept

        session = kept(session)
    prompt = Prompt(Interpreter(session), console.print, as_json=args.json_lines)
    if not args.json_lines:
        console.print(f"{session.target.title}; help lists the commands\n{session.moment}")
    code = prompt.run(scripts, echo=not args.json_lines, stop_at_error=args.batch)
    if code is not None or args.batch:
        return code or 0
    prompt.run(typed_lines(prompt.interpreter), survive=True)
    return 0


def _script(path: Path) -> Iterator[str]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigurationError(
            f"{os.fspath(path)}: cannot be read: {reason}", hint="give a text file with a command on each line"
        ) from None
    yield from text.splitlines()
