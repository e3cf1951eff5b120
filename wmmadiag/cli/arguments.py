"""Arguments that several commands share, and a parser whose errors name the next step."""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from wmmadiag.errors import ConfigurationError, did_you_mean


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ConfigurationError`, with the nearest option there is."""

    def __init__(
        self, *, prog: str, description: str | None, epilog: str | None = None, usage: str | None = None
    ) -> None:
        # No abbreviations: an option added later must not change what a script's words mean.
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            usage=usage,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Raise in place of exiting; of a wrong choice the nearest one is named."""
        wrong = re.match(r"argument ([^:]+): invalid choice: '([^']*)'", message)
        for action in self._actions if wrong else ():
            names = ("/".join(action.option_strings), action.metavar, action.dest)
            if wrong and action.choices is not None and wrong[1] in names:
                known = [str(one) for one in action.choices]
                raise ConfigurationError(f"unknown {wrong[1]} '{wrong[2]}'", hint=did_you_mean(wrong[2], known))
        raise ConfigurationError(message, hint=f"see `{self.prog} --help`")

    def parse_all(self, argv: Sequence[str]) -> argparse.Namespace:
        """Like `parse_args`.

        Raises:
            ConfigurationError: a wrong, unknown or missing argument.
        """
        args, unknown = self.parse_known_args(argv)
        if unknown:
            word = unknown[0].split("=")[0]
            options = [option for action in self._actions for option in action.option_strings]
            hint = did_you_mean(word, options, f"see `{self.prog} --help`")
            what = "option" if word.startswith("-") else "argument"
            raise ConfigurationError(f"unknown {what} '{unknown[0]}'", hint=hint)
        return args


def add_subject(parser: argparse.ArgumentParser, title: str, *, many_arches: bool = False) -> None:
    """What may be said of a kernel in place of its card, or of a source, and how it is compiled; see `of_subject`."""
    group = parser.add_argument_group(title)
    group.add_argument(
        "--computes",
        metavar="OP",
        default="",
        help="what a source computes: gemm, attention, … (all: docs/cards.md), or a formula, 'C[m,n] = relu(sum_k "
        "A[m,k] * B[k,n])'; none: its results are not judged",
    )
    group.add_argument("--grid", type=dimensions, metavar="X[,Y[,Z]]", default=(), help="blocks, expressions")
    group.add_argument("--block", type=dimensions, metavar="X[,Y[,Z]]", default=(), help="threads of a block")
    group.add_argument("--shared", metavar="BYTES", default="", help="dynamic shared memory, an expression")
    group.add_argument("--symbol", action="append", type=symbol, metavar="NAME=VALUE", default=[], help="such as S=256")
    add_compilation(parser, many_arches=many_arches)


def of_subject(args: argparse.Namespace) -> dict[str, Any]:
    """What `add_subject` and `add_compilation` read, with seed and inputs, as `wmmadiag.check` and its like take it."""
    return {
        "entry": args.entry,
        "computes": args.computes,
        "grid": args.grid,
        "block": args.block,
        "shared": args.shared,
        "macros": definitions(args.define),
        "symbols": dict(args.symbol),
        "include_paths": args.include,
        "std": args.std,
        "seed": args.seed,
        "inputs": args.inputs,
        "use_cache": not args.no_cache,
    }


def add_compilation(parser: argparse.ArgumentParser, *, many_arches: bool = False) -> None:
    """The options that say how a source is compiled."""
    group = parser.add_argument_group("compilation")
    group.add_argument("--entry", metavar="NAME", default="", help='the kernel, or an instantiation: "attn<64,64>"')
    if many_arches:
        group.add_argument(
            "--arch", action="append", metavar="SM", default=None, help="target, such as sm_80; may be repeated"
        )
    else:
        group.add_argument("--arch", metavar="SM", default=None, help="target, such as sm_80 (default: sm_90)")
    add_macros(group)
    group.add_argument("--std", metavar="STD", default="", help="C++ standard, such as c++20 (default: c++17)")
    add_no_cache(group)


def add_no_cache(group: argparse._ActionsContainer) -> None:
    """`--no-cache`."""
    group.add_argument("--no-cache", action="store_true", help="compile and run anew, and keep nothing")


def add_inputs(group: argparse._ActionsContainer) -> None:
    """`--seed` and `--inputs`."""
    group.add_argument("--seed", type=natural, metavar="N", default=None, help="seed of the inputs")
    group.add_argument("--inputs", metavar="NAME", default="", help="distribution of the inputs, such as growing_max")


def add_checks(group: argparse._ActionsContainer) -> None:
    """`--checks`."""
    group.add_argument("--checks", metavar="NAMES", default="default", help="all, default, none, or races,async,…")


def add_schedules(group: argparse._ActionsContainer) -> None:
    """`--schedules`."""
    group.add_argument("--schedules", type=natural, metavar="N", default=0, help="try N other orders of warps, copies")


def add_budget(group: argparse._ActionsContainer, seconds_of: str) -> None:
    """`--threads`, and what a run may take.

    Args:
        seconds_of: what `--budget-seconds` binds.
    """
    group.add_argument("--threads", type=natural, metavar="N", default=0, help="host threads (default: all)")
    group.add_argument("--budget-instructions", type=natural, metavar="N", default=None, help="warp instructions")
    group.add_argument("--budget-seconds", type=seconds, metavar="S", default=None, help=f"wall time of {seconds_of}")


def add_baseline(group: argparse._ActionsContainer) -> None:
    """`--baseline`, `--write-baseline` with its reason and day."""
    group.add_argument("--baseline", metavar="FILE", default=None, help="accept those in FILE; fail on new ones")
    group.add_argument("--write-baseline", metavar="FILE", default=None, help="write those of this run to FILE")
    group.add_argument("--reason", metavar="TEXT", default="", help="why they are accepted; with --write-baseline")
    group.add_argument("--expires", type=day, metavar="DATE", default=None, help="until when (default: 30 days)")


def add_macros(group: argparse._ActionsContainer) -> None:
    """`-D` and `-I`."""
    group.add_argument(
        "-D", "--define", action="append", metavar="NAME[=TEXT]", default=[], type=definition, help="define a macro"
    )
    group.add_argument(
        "-I", "--include", action="append", metavar="FOLDER", default=[], help="search headers here, too"
    )


def add_colour(parser: argparse.ArgumentParser) -> None:
    """`--color`."""
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="colours (default: on a terminal)"
    )


def add_detail(parser: argparse.ArgumentParser) -> None:
    """`--verbose` and `--quiet`, of every command that says whether something is right."""
    parser.add_argument("-v", "--verbose", action="store_true", help="more about what is right, all that was tried")
    parser.add_argument("-q", "--quiet", action="store_true", help="only what is not right; no progress")


def definitions(pairs: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """-D options as macros; without a text the bare name is defined."""
    return {name: text or None for name, text in pairs}


def symbol(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier() or not value.strip():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=VALUE, such as S=256")
    return name.strip(), value.strip()


def dimensions(text: str) -> tuple[str, ...]:
    """One to three expressions, separated by commas outside parentheses."""
    parts: list[str] = [""]
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    found = tuple(part.strip() for part in parts)
    if not 1 <= len(found) <= 3 or not all(found) or depth:
        raise argparse.ArgumentTypeError(f"'{text}' is not one to three expressions, such as 'ceil_div(S,64),B*H'")
    return found


def natural(text: str) -> int:
    """A whole number of at least 0."""
    try:
        value = int(text.replace("_", "").replace(",", ""), 10)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 0")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1."""
    value = natural(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return value


def seconds(text: str) -> float:
    """A time of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")
    return value


def size(text: str) -> int:
    """A size in bytes: a whole number, with K, M or G (of 1024)."""
    found = re.fullmatch(r"(\d+)([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    if found is None or not int(found[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is no size: 512M, 4G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2].upper()]


def day(text: str) -> datetime.date:
    """A date, YYYY-MM-DD."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a date, such as 2030-01-31") from None


def definition(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME or NAME=TEXT")
    return name, value
