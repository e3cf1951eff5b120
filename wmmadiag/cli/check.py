"""Run kernels on the emulator and judge every element of their output.

Each PATH is a card (kernel.toml), a folder with cards, or a CUDA source (.cu)
or PTX file with at least --computes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.cli.arguments import (
    add_colour,
    add_compilation,
    definitions,
    dimensions,
    natural,
    positive,
    seconds,
    symbol,
)
from wmmadiag.cli.console import Console

if TYPE_CHECKING:
    from wmmadiag.report.model import KernelReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="card, folder, CUDA source or PTX")
    parser.add_argument("-v", "--verbose", action="store_true", help="more about right cases; includes --resources")
    parser.add_argument("-q", "--quiet", action="store_true", help="only what did not pass")
    add_colour(parser)
    group = parser.add_argument_group("what to run")
    group.add_argument("--case", action="append", metavar="NAME", default=None, help="only this case; may be repeated")
    group.add_argument("--variant", action="append", metavar="NAME", default=None, help="only this variant; likewise")
    group.add_argument("--seed", type=natural, metavar="N", default=None, help="seed of the inputs")
    group.add_argument("--inputs", metavar="NAME", default="", help="distribution of the inputs, such as growing_max")
    group.add_argument("--against", metavar="CARD", default=None, help="compare with another kernel's outputs, too")
    group.add_argument("--jobs", type=positive, metavar="N", default=1, help="cards checked at a time (default: 1)")
    group = parser.add_argument_group("what to look for besides wrong numbers")
    group.add_argument("--checks", metavar="NAMES", default="default", help="all, default, none, or races,async,…")
    group.add_argument("--schedules", type=natural, metavar="N", default=0, help="try N other orders of warps, copies")
    group = parser.add_argument_group("the kernel, in place of what its card or source says")
    group.add_argument("--computes", metavar="OP", default="", help="attention, qkt, pv, softmax or gemm; for a source")
    group.add_argument("--grid", type=dimensions, metavar="X[,Y[,Z]]", default=(), help="blocks, expressions")
    group.add_argument("--block", type=dimensions, metavar="X[,Y[,Z]]", default=(), help="threads of a block")
    group.add_argument("--shared", metavar="BYTES", default="", help="dynamic shared memory, an expression")
    group.add_argument("--symbol", action="append", type=symbol, metavar="NAME=VALUE", default=[], help="such as S=256")
    add_compilation(parser, many_arches=True)
    parser.add_argument("--resources", action="store_true", help="registers, spills and shared memory, by ptxas")
    group = parser.add_argument_group("where it runs")
    group.add_argument("--backend", metavar="NAME", default="emulator", help="emulator (default), gpu or both")
    group.add_argument("--threads", type=natural, metavar="N", default=0, help="host threads (default: all)")
    group.add_argument("--budget-instructions", type=natural, metavar="N", default=None, help="warp instructions")
    group.add_argument("--budget-seconds", type=seconds, metavar="S", default=None, help="wall time")


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.batch import Outcome, Task, check_all, exit_code, plan
    from wmmadiag.subject.find_cards import find_subjects

    tasks = plan(find_subjects(map(Path, args.paths)), args.arch or [None], args.case, args.variant, _options(args))

    def progress(task: Task, done: int, cases: int, what: str) -> None:
        number = f"{tasks.index(task) + 1}/{len(tasks)} " if len(tasks) > 1 else ""
        if cases and what:
            console.progress(f"[{number}case {done + 1}/{cases}] {what}")

    outcomes: list[Outcome] = []
    for outcome in check_all(tasks, jobs=args.jobs, progress=progress):
        outcomes.append(outcome)
        if outcome.error:
            console.error(outcome.error)
        elif outcome.report is not None and not (args.quiet and outcome.report.status == "passed"):
            console.print(_text(outcome.report, args.verbose, console) + ("\n" if len(tasks) > 1 else ""))
    console.clear()
    if len(outcomes) > 1:
        console.print(_summary(outcomes))
    return exit_code(outcomes)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of `wmmadiag.check`."""
    from wmmadiag.backends import RunLimits

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
        "backend": args.backend,
        "limits": RunLimits(args.threads, args.budget_instructions, args.budget_seconds),
        "compiler": args.compiler,
        "use_cache": not args.no_cache,
        "resources": args.resources or args.verbose,
        "against": args.against,
        "checks": args.checks,
        "schedules": args.schedules,
    }


def _text(report: KernelReport, verbose: bool, console: Console) -> str:
    from wmmadiag.report.terminal import render

    return render(report, colour=console.colour, verbose=verbose)


def _summary(outcomes: list[Any]) -> str:
    words = {"passed": "ok", "failed": "wrong", "undecided": "undecided", "error": "in error"}
    counts = {word: sum(outcome.status == status for outcome in outcomes) for status, word in words.items()}
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{len(outcomes)} checks: {', '.join(parts)}"
