"""Put small questions to the toolchain and the chip.

  wmmadiag probe                    all questions to the platform
  wmmadiag probe shapes             which WMMA shapes and types, on all architectures
  wmmadiag probe layouts transpose --arch sm_80,sm_90 -v

Exit codes: 0 everything is as it should be, 1 something is not, 3 it cannot be said.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import add_colour, add_detail, add_no_cache
from wmmadiag.cli.console import Console, terminal_width
from wmmadiag.cli.outputs import STDOUT, add_json, write_json

if TYPE_CHECKING:
    from wmmadiag.probes.answer import Answered
    from wmmadiag.probes.registry import Probe

FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="probes (default: all)")
    parser.add_argument("--list", action="store_true", help="list the probes with their questions")
    parser.add_argument(
        "--arch", metavar="NAMES", default="", help="sm_80,sm_90, or all (default: sm_90, the GPU's; shapes alone: all)"
    )
    parser.add_argument("--backend", metavar="NAME", default="emulator", help="emulator (default), gpu or both")
    add_detail(parser)
    add_json(parser, "the answers")
    add_no_cache(parser)
    add_colour(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.probes.registry import select

    if args.list:
        return _list(args, console)
    return _platform(args, console, select(args.names))


def _platform(args: argparse.Namespace, console: Console, probes: Sequence[Probe]) -> int:
    from wmmadiag.probes.answer import exit_code
    from wmmadiag.probes.machine import Platform
    from wmmadiag.probes.run import arches_of, ask_all

    arches = arches_of(args.arch, args.backend, probes)
    machine = Platform(arches[0], args.backend, not args.no_cache)
    _ = machine.loader  # an unknown backend, or no GPU: said once
    answers, unknown = ask_all(probes, arches, machine, console.progress)
    console.clear()
    if args.json:
        data = {"format_version": FORMAT_VERSION, "answers": [one.as_data() for one in answers]}
        write_json(data, args.json, console)
    for probe in probes if args.json != STDOUT else ():
        found = [one for one in answers if one.probe == probe.name]
        console.verdict(_told(probe, found, args.verbose), exit_code(found))
    if unknown:
        console.note(f"the installed compiler does not know {', '.join(unknown)}")
    return exit_code(answers)


def _told(probe: Probe, answers: Sequence[Answered], verbose: bool) -> str:
    """One probe's answers as text; those that are the same on several architectures once."""
    width = min(terminal_width(), 120)
    lines = [f"{probe.name}: {probe.asks}"]
    if probe.across is not None and len(answers) > 1:
        lines += textwrap.indent(probe.across(answers), "  ").splitlines()
        answers = [one for one in answers if one.answer.verdict != "right"]
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for one in answers:
        groups.setdefault((one.answer.verdict, one.answer.lines, one.answer.table), []).append(one.arch)
    for (verdict, said, table), arches in groups.items():
        mark = {"right": "ok", "wrong": "WRONG", "undecided": "undecided"}[verdict]
        lines.append(f"  {mark} on {', '.join(arches)}")
        for line in said:
            lines += textwrap.wrap(line, width - 2, initial_indent="  - ", subsequent_indent="    ")
        if verbose:
            lines += [f"      {line}" for line in table]
    return "\n".join(lines)


def _list(args: argparse.Namespace, console: Console) -> int:
    from wmmadiag.probes.registry import all_probes

    platform = {name: probe.asks for name, probe in all_probes().items()}
    if args.json:
        write_json({"format_version": FORMAT_VERSION, "platform": platform}, args.json, console)
    if args.json != STDOUT:
        width = max(map(len, platform))
        console.print("\n".join(f"{name:<{width}}  {asks}" for name, asks in platform.items()))
    return 0
