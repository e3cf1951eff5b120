"""Put small questions to the toolchain and the chip, or to a kernel of yours.

  wmmadiag probe                    all questions to the platform
  wmmadiag probe shapes             which WMMA shapes and types, on all architectures
  wmmadiag probe layouts transpose --arch sm_80,sm_90 -v
  wmmadiag probe kernel.toml        a card's kernel, on inputs whose answers show faults

Exit codes: 0 everything is as it should be, 1 something is not, 3 it cannot be said.
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import add_colour, add_detail, seconds
from wmmadiag.cli.console import Console, terminal_width
from wmmadiag.cli.outputs import STDOUT, add_json, write_json
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from wmmadiag.probes.answer import Answered
    from wmmadiag.probes.registry import Probe

FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="probes (default: all), or one card (kernel.toml)")
    parser.add_argument("--list", action="store_true", help="list the probes with their questions")
    parser.add_argument(
        "--arch", metavar="NAMES", default="", help="sm_80,sm_90, or all (default: sm_90, the GPU's; shapes alone: all)"
    )
    parser.add_argument("--backend", metavar="NAME", default="emulator", help="emulator (default), gpu or both")
    add_detail(parser)
    add_json(parser, "the answers")
    parser.add_argument("--compiler", choices=("auto", "nvrtc", "nvcc"), default="auto", help="default: auto")
    parser.add_argument("--no-cache", action="store_true", help="compile anew")
    add_colour(parser)
    group = parser.add_argument_group("for a card")
    group.add_argument("--case", metavar="NAME", default="", help="default: the smallest that fails, or a middling one")
    group.add_argument("--variant", metavar="NAME", default="", help="default: the card's first")
    group.add_argument("--seconds", type=seconds, metavar="S", default=10.0, help="for all probes (default: 10)")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.probes.registry import select

    if args.list:
        return _list(args, console)
    cards = [name for name in args.names if Path(name).suffix in (".toml", ".cu", ".ptx") or Path(name).is_file()]
    if cards:
        return _subject(args, console, cards)
    return _platform(args, console, select(args.names))


def _platform(args: argparse.Namespace, console: Console, probes: Sequence[Probe]) -> int:
    from wmmadiag.probes.answer import exit_code
    from wmmadiag.probes.machine import Platform
    from wmmadiag.probes.run import arches_of, ask_all

    arches = arches_of(args.arch, args.backend, probes)
    machine = Platform(arches[0], args.backend, args.compiler, not args.no_cache)
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
    from wmmadiag.probes.subject.registry import all_subject_probes

    platform = {name: probe.asks for name, probe in all_probes().items()}
    subject = {name: probe.asks for name, probe in all_subject_probes().items()}
    if args.json:
        write_json({"format_version": FORMAT_VERSION, "platform": platform, "kernel": subject}, args.json, console)
        if args.json == STDOUT:
            return 0
    width = max(map(len, (*platform, *subject)))
    lines = [
        "of the platform (wmmadiag probe NAME):",
        *(f"  {name:<{width}}  {asks}" for name, asks in platform.items()),
    ]
    lines += ["", "of a kernel (wmmadiag probe kernel.toml):"]
    lines += [f"  {name:<{width}}  {asks}" for name, asks in subject.items()]
    console.print("\n".join(lines))
    return 0


def _subject(args: argparse.Namespace, console: Console, cards: Sequence[str]) -> int:
    from wmmadiag.probes.subject.command import as_data, as_text, exit_code, probe_card

    path = cards[0]
    if len(args.names) != 1:
        raise ConfigurationError(f"'{path}' is a card: give nothing else", hint=f"wmmadiag probe {path}")
    if Path(path).suffix != ".toml" and Path(path).is_file():
        raise ConfigurationError(f"'{path}' is no card", hint=f"draft one: wmmadiag init {path}")
    found = probe_card(
        Path(path),
        arch=args.arch,
        backend=args.backend,
        case=args.case,
        variant=args.variant,
        seconds=args.seconds,
        compiler=args.compiler,
        use_cache=not args.no_cache,
        progress=console.progress,
    )
    console.clear()
    if args.json:
        write_json({"format_version": FORMAT_VERSION, **as_data(found)}, args.json, console)
    if args.json != STDOUT:
        console.verdict(as_text(found, verbose=args.verbose, width=min(terminal_width(), 120)), exit_code(found))
    return exit_code(found)
