"""The options that name files for what a command found: reports of runs, and JSON or Markdown of everything else.

`--FORMAT FILE` means the same in every command: FILE appears whole or not at all, and "-" is standard output, where
nothing else then goes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.console import Console
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.results.run import Run

FORMATS: Mapping[str, tuple[str, str]] = {
    "json": ("wmmadiag.results.json_file", "all of it, for `wmmadiag report` and `compare`"),
    "html": ("wmmadiag.report.html", "one page with maps, for a browser"),
    "markdown": ("wmmadiag.report.markdown", "for a comment on a pull request"),
    "sarif": ("wmmadiag.report.sarif", "SARIF 2.1.0, for code scanning"),
    "junit": ("wmmadiag.report.junit", "JUnit XML, for a CI's list of tests"),
}
"""Option → module whose `render(run)` gives the text, and what it is for."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Which reports are wanted."""

    files: Mapping[str, str]  # path by format; "-" is standard output
    github: bool  # annotations on standard output

    @property
    def wanted(self) -> bool:
        """Any at all."""
        return bool(self.files) or self.github

    @property
    def to_stdout(self) -> bool:
        """One goes to standard output, which must then hold nothing else."""
        return "-" in self.files.values()


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Define the options."""
    group = parser.add_argument_group("reports (FILE '-': standard output, and nothing else there)")
    for name, (_, what) in FORMATS.items():
        group.add_argument(f"--{name}", metavar="FILE", default=None, help=what)
    group.add_argument("--github", action="store_true", help="annotations for GitHub Actions, on standard output")


def chosen_outputs(args: argparse.Namespace, *, without: str = "") -> Outputs:
    """The options' values, looked at before anything runs.

    Args:
        without: a format that the command writes by itself.

    Raises:
        ConfigurationError: two reports for one file, a folder that does not exist, or an address that is none.
    """
    files = {name: value for name in FORMATS if name != without and (value := getattr(args, name)) is not None}
    check_files(files)
    if "sarif" in files:
        from wmmadiag.report.pages import address

        address("index")
    outputs = Outputs(files, args.github)
    if outputs.to_stdout and args.github:
        raise ConfigurationError(
            "--github writes to standard output, where a report goes, too", hint="give the report a file instead of -"
        )
    return outputs


def check_files(files: Mapping[str, str]) -> None:
    """Look at reports' files before anything runs.

    Args:
        files: option → its value.

    Raises:
        ConfigurationError: two reports for one file, or a folder that does not exist.
    """
    places: dict[str, str] = {}
    for name, value in files.items():
        if not value:
            raise ConfigurationError(f"--{name} needs the name of a file", hint="'-' is standard output")
        place = value if value == "-" else str(Path(value).resolve())
        if place in places:
            raise ConfigurationError(
                f"--{places[place]} and --{name} both write to {value}", hint="give each a file of its own"
            )
        places[place] = name
        parent = Path(value).parent
        if value != "-" and not parent.is_dir():
            raise ConfigurationError(
                f"--{name} {value}: there is no folder {parent}", hint=f"make it first: mkdir -p {parent}"
            )


def make_folder(option: str, folder: str) -> None:
    """The folder that an option names.

    Raises:
        ConfigurationError: it is not there, and cannot be made.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"--{option} {folder}: cannot make this folder: {error.strerror}", hint="name one that can be written"
        ) from None


STDOUT = "-"


def add_json(group: argparse._ActionsContainer, what: str) -> None:
    """Define `--json FILE` of a command that has no run to report."""
    group.add_argument("--json", metavar="FILE", default="", help=f"{what} ('-': standard output, and nothing else)")


ANSWER_VERSION = 1
"""Of the JSON of commands whose answer has no version of its own; raised when one of them means something else."""


def write_json(data: Mapping[str, object], file: str, console: Console) -> None:
    """Write what `--json FILE` asked for, with the version of its format.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    import json

    data = {"format_version": ANSWER_VERSION, **data}
    write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", file, console)


def write_text(text: str, file: str, console: Console) -> None:
    """Write a text to a file, or to standard output for "-".

    Raises:
        ConfigurationError: the file cannot be written.
    """
    from wmmadiag.results.json_file import write_whole

    if file == STDOUT:
        console.print(text)
    else:
        write_whole(Path(file), text)
        console.note(f"wrote {file}")


def write_outputs(run: Run, outputs: Outputs, console: Console) -> None:
    """Write every report that is wanted; each file appears whole or not at all.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    from wmmadiag.results.json_file import write_whole

    for name, value in outputs.files.items():
        text = _render(name)(run)
        if value == "-":
            console.print(text)
        else:
            write_whole(Path(value), text)
    if outputs.github:
        from wmmadiag.report.github import render

        text = render(run)
        if text:
            console.print(text, commands=True)


def _render(name: str) -> Callable[[Run], str]:
    render: Callable[[Run], str] = import_module(FORMATS[name][0]).render
    return render
