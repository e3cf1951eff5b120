"""Which of a source's kernels is to be looked into, where `check` looks at several, and what its main says."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.cli.arguments import of_subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wmmadiag.gate.task import Task, TaskOutcome


@dataclass(frozen=True, slots=True)
class Beside:
    """What `check` says of a source whose first kernel is right.

    Attributes:
        entry: the kernel to look into in its place, or "".
        lines: what is told besides.
        code: the exit code of the whole source.
    """

    entry: str = ""
    lines: tuple[str, ...] = ()
    code: int = 0


def is_read_from_source(path: Path, args: argparse.Namespace) -> bool:
    """Whether `check` would look at more than one kernel's cases: a CUDA source without a card, on the emulator."""
    from wmmadiag.compile.languages import is_ptx

    return args.backend == "emulator" and path.suffix != ".toml" and not is_ptx(path)


def beside(path: Path, args: argparse.Namespace) -> Beside:
    """Check the source as `wmmadiag check` does: kernels that it launches besides the first one, and its own main."""
    from wmmadiag.gate.batch import check_all
    from wmmadiag.programs.cards import has_main

    outcomes = list(check_all([_task(path, args)]))
    # Where its main has run, a guess at what another kernel computes is of no use: see `check`.
    entry = _not_right([one for one in outcomes if one.beside], (1,) if has_main(path) else (1, 3))
    if entry or not outcomes:
        return Beside(entry)
    lines, code = _by_its_main(path, args, outcomes[0])
    open_ones = (
        [one for one in outcomes[0].report.assumed if one.startswith("not judged")] if outcomes[0].report else []
    )
    return Beside("", (*open_ones, *lines), code)


def one_of_several(path: Path, args: argparse.Namespace) -> str:
    """The kernel to look into of those of which none was named, as `check` finds them: one that is not right, or the
    first where all are; "" where one could not be judged.
    """
    from wmmadiag.gate.batch import check_all

    each = [one for one in check_all([_task(path, args)]) if one.task.options["entry"]]
    return _not_right(each, (1, 3)) or (
        str(each[0].task.options["entry"]) if each and not any(one.code for one in each) else ""
    )


def _not_right(outcomes: Sequence[TaskOutcome], codes: Sequence[int]) -> str:
    """Of kernels that ended with one of the exit codes the first with the lowest, else ""."""
    looked_at = [one for one in outcomes if one.report is not None and one.code in codes]
    first = min(looked_at, key=lambda one: one.code, default=None)
    return str(first.task.options["entry"]) if first is not None else ""


def _by_its_main(path: Path, args: argparse.Namespace, outcome: TaskOutcome) -> tuple[list[str], int]:
    """What the source's own main says, in lines, and the exit code of both; no lines where it has none."""
    from wmmadiag.cli.check_program import check_program
    from wmmadiag.cli.program_words import lines
    from wmmadiag.programs.cards import has_main

    if not has_main(path):
        asked = f"not settled all the same: `wmmadiag check {path}` says what is open"
        return [asked] * bool(outcome.code), outcome.code
    made = check_program(outcome.task, outcome, argparse.Namespace(**_as_check(path, args)))
    return lines(made, outcome, args.verbose), made.code_with(outcome)


def _task(path: Path, args: argparse.Namespace) -> Task:
    from wmmadiag.gate.task import Task

    names = None if args.case is None else tuple(dict.fromkeys(args.case))
    options = {**of_subject(args), "backend": args.backend, "checks": args.checks}
    return Task(path, args.arch, names, (args.variant,) if args.variant else None, options)


def _as_check(path: Path, args: argparse.Namespace) -> Mapping[str, Any]:
    """The command's arguments as `check` has them, with its defaults for those of its own."""
    from wmmadiag.cli.check import add_arguments

    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return {**vars(parser.parse_args([str(path)])), **vars(args)}
