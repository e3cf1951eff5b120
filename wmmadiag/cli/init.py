"""Write a card for a kernel: its arguments from the signature, grid and block
from the source's own launch, roles by their names. What is unknown says TODO.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from wmmadiag.cli.arguments import add_colour, add_macros, definitions, positive
from wmmadiag.cli.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("source", metavar="SOURCE", help="CUDA source (.cu) or PTX")
    parser.add_argument("--entry", metavar="NAME", default="", help='the kernel, or an instantiation: "attn<64,64>"')
    parser.add_argument(
        "--computes",
        metavar="OP",
        default="",
        help="the operation (default: by names and by what a run of the kernel fits), or a formula as in check; "
        "python for a reference of yours, none for no judgement",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="", help="the card (default: SOURCE with .toml); - for the terminal"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the card if it exists")
    add_macros(parser)
    group = parser.add_argument_group("from a program's own launches (arguments of the program: behind --)")
    group.add_argument(
        "--run", action="store_true", help="run its main, and write a card for each launch of its own kind"
    )
    group.add_argument("--launch", type=positive, metavar="N", default=None, help="of the N-th launch alone")
    add_colour(parser)


TAKES_ARGUMENTS_OF_OTHERS = True
"""What stands behind `--` is the program's."""


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    if args.run or args.launch is not None:
        return _captured(args, console)
    from wmmadiag.subject.drafts.new_card import new_card, reference_text, write_card

    source = Path(args.source)
    printed = args.output in ("", "-")
    macros = {name: text or "" for name, text in definitions(args.define).items()}
    asked = None if printed else Path(args.output)
    with console.doing(f"reading and trying {source}"):
        text, todos = new_card(source, asked, args.entry, args.computes, macros, tuple(map(Path, args.include)))
    if args.output == "-":
        console.print(text)
        return 0
    target = Path(args.output or source.with_suffix(".toml"))
    write_card(target, text, overwrite=args.force)
    found = re.search(r'^operation = "(\w+)"(?:  # (\w+)\?)?', text, re.MULTILINE)
    computes = args.computes or ((found[2] or found[1]) if found else "")
    if not computes:  # a formula in a comment of the source says what is right
        computes = "what a comment of the source says"
    if computes == "python":
        name, reference = reference_text(text)
        reference_path = target.parent / name
        console.print(f"wrote {target}: for a Python reference")
        if reference_path.exists():
            console.print(
                f"{reference_path} is there already, and is left as it is: does it say what this kernel computes?"
            )
        else:
            write_card(reference_path, reference)
            console.print(f"wrote {reference_path}: what the function gets and returns; write what it computes")
    else:
        chosen = computes if args.computes else f"{computes} (another operation: --computes)"
        console.print(f"wrote {target}: {chosen}, roles and values guessed from names; confirm them")
    if todos:
        console.print(f"{todos} place{'s' * (todos > 1)} marked TODO to be filled in")
    console.print(f"next: wmmadiag check {shlex.quote(str(target))}")
    return 0


def _captured(args: argparse.Namespace, console: Console) -> int:
    """Cards of what a program launches."""
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.programs.cards import captured_launches, card_of
    from wmmadiag.subject.drafts.new_card import write_card

    source = Path(args.source)
    options = CompileOptions(macros=definitions(args.define), include_paths=tuple(map(Path, args.include)))
    own = args.words[args.words.index("--") + 1 :] if "--" in args.words else []
    with console.doing(f"running {source}"):
        chosen = captured_launches(source, options, own, launch=args.launch)
    base = Path(args.output or source.with_suffix(".toml"))
    for number, one in enumerate(chosen, 1):
        target = base if len(chosen) == 1 else base.with_name(f"{base.stem}_{number}{base.suffix}")
        text = card_of(one, options, target)
        if args.output == "-":
            console.print(text)
            continue
        write_card(target, text, overwrite=args.force)
        console.print(f"wrote {target}: {one['where']}")
    return 0
