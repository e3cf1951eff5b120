"""Show where one element of a kernel's output comes from, back to the inputs.

The kernel runs on the emulator. ELEMENT is a role or argument of the card with
an index in its logical shape: 'o[0,0,3,17]'. Each line of the tree is an
instruction with its source line, or the memory that it reads; elements that
differ in indices alone stand together. Where values depart from what the card
computes, the line is marked.

Exit codes: 0 nothing departs, 1 something does, or the kernel dies, 3 it cannot
be said.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli.arguments import add_colour, add_compilation, add_detail, add_inputs, definitions, natural, positive
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import STDOUT, add_json, write_json
from wmmadiag.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from wmmadiag.provenance.explained import Explained
    from wmmadiag.subject.binding import BoundCase

FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("card", metavar="CARD", help="a card (kernel.toml)")
    parser.add_argument("element", metavar="ELEMENT", help="such as 'o[0,0,3,17]'")
    parser.add_argument("--case", metavar="NAME", default="", help="default: the card's first")
    parser.add_argument("--variant", metavar="NAME", default="", help="default: the card's first")
    add_inputs(parser)
    parser.add_argument("--lines", type=natural, metavar="N", default=100, help="lines to show (default: 100; 0: all)")
    parser.add_argument("--most", type=positive, metavar="N", default=6000, help="steps to follow (default: 6000)")
    parser.add_argument(
        "--budget-seconds", type=positive, metavar="S", default=30, help="wall time of each of two runs (default: 30)"
    )
    add_json(parser, "the whole tree")
    add_detail(parser)
    add_colour(parser)
    add_compilation(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag import open_card
    from wmmadiag.provenance.explained import explained

    name, index = element(args.element)
    if Path(args.card).suffix != ".toml" and Path(args.card).is_file():
        raise ConfigurationError(
            f"'{args.card}' is no card: without one there is no output to explain",
            hint=f"draft one: wmmadiag init {args.card}",
        )
    macros = definitions(args.define)
    card = open_card(args.card, entry=args.entry, macros=macros, include_paths=args.include, std=args.std)
    with console.doing(f"running {args.card} twice"):
        found = explained(
            card, lambda case: (role_of(case, name), index), case=args.case, variant=args.variant, arch=args.arch,
            seed=args.seed, inputs=args.inputs, use_cache=not args.no_cache, most=args.most,
            seconds=args.budget_seconds,
        )  # fmt: skip
    code = 1 if found.departures else 3 if found.undecided else 0
    if args.json:
        write_json(_data(found), args.json, console)
    if args.json != STDOUT:
        console.verdict(_text(found, 0 if args.verbose else args.lines), code)
    return code


def element(text: str) -> tuple[str, tuple[int, ...]]:
    """Name and index of `o[0, 0, 3, 17]`.

    Raises:
        ConfigurationError: it is not written so.
    """
    match = re.fullmatch(r"\s*(\w+)\s*[\[(]\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*,?\s*[\])]\s*", text)
    if match is None:
        raise ConfigurationError(f"'{text}' is no element", hint="write a role and an index, such as 'o[0,0,3,17]'")
    return match[1], tuple(int(word) for word in match[2].split(","))


def role_of(case: BoundCase, name: str) -> str:
    """The output role that a user calls by its role or by its argument's name.

    Raises:
        ConfigurationError: there is none, or it is an input.
    """
    names: dict[str, tuple[str, str]] = {}
    for argument in case.arguments:
        for role in argument.placements:
            names[role] = role, argument.spec.direction
            if len(argument.placements) == 1:
                names.setdefault(argument.spec.name, (role, argument.spec.direction))
    found = names.get(name) or next((value for key, value in names.items() if key.lower() == name.lower()), None)
    outputs = [key for key, (_, direction) in names.items() if direction != "in"]
    if found is None:
        raise ConfigurationError(f"the card has no tensor '{name}'", hint=did_you_mean(name, outputs))
    if found[1] == "in":
        raise ConfigurationError(f"'{name}' is an input", hint="outputs here: " + ", ".join(outputs))
    return found[0]


def _text(found: Explained, most: int) -> str:
    lines = [f"case {found.case}, variant {found.variant}"] if found.variant else [f"case {found.case}"]
    for one in found.departures:
        lines += [f"departs: {one.place}: {one.message}", *(f"  {line}" for line in one.detail)]
        lines += [f"  next: {one.hint}"] if one.hint else []
    lines += [f"undecided: {found.undecided}"] if found.undecided else []
    tree = found.tree.render().splitlines()
    shown = tree if most == 0 else tree[:most]
    lines += shown
    if len(shown) < len(tree):
        lines.append(f"… {len(tree) - len(shown)} more lines: --lines 0")
    return "\n".join(lines)


def _data(found: Explained) -> dict[str, object]:
    return {
        "format_version": FORMAT_VERSION,
        "case": found.case,
        "variant": found.variant,
        "role": found.role,
        "index": list(found.index),
        "departures": [
            {"kind": one.kind, "place": str(one.place), "message": one.message, "detail": list(one.detail)}
            for one in found.departures
        ],
        "undecided": found.undecided,
        "tree": found.tree.as_data(),
    }
