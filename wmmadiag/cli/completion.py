"""Write what a shell needs to complete commands and options.

    wmmadiag completion bash > ~/.local/share/bash-completion/completions/wmmadiag
    wmmadiag completion zsh > ~/.zfunc/_wmmadiag

Needs shtab: pip install 'wmmadiag[completion]'.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("shell", choices=SHELLS, help="for which shell")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    try:
        import shtab
    except ImportError:
        raise ConfigurationError("shtab is not installed", hint="pip install 'wmmadiag[completion]'") from None
    console.print(shtab.complete(whole_parser(), args.shell))
    return 0


def whole_parser() -> argparse.ArgumentParser:
    """All commands in one parser; positional arguments are files."""
    import shtab

    from wmmadiag.cli.dispatch import COMMANDS

    parser = argparse.ArgumentParser(prog="wmmadiag")
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers()
    for name, text in COMMANDS.items():
        made = commands.add_parser(name, help=text.replace("`", "'"))
        import_module(f"wmmadiag.cli.{name}").add_arguments(made)
        for action in made._actions:
            if action.choices is None and action.metavar in ("FILE", "PATH", "CARD", "FOLDER", "PROGRAM", "RUN.json"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return parser
