"""Run kernels on the emulator and judge every element of their output.

Each PATH is a card (kernel.toml), a folder with cards, or a CUDA source (.cu)
or PTX file; --computes says what that computes where the source does not tell.
Of several, each is checked by itself; `run` takes the sources of one program.
Of a folder, kernels that are broken on purpose (a NAME.truth.toml stands beside
the card) are left out; name them, or a folder that holds no others, to check
them, or give --wrong.
"""

from __future__ import annotations

import argparse
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.cli import arguments
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import FORMATS, Outputs, add_outputs, chosen_outputs, write_outputs
from wmmadiag.errors import ConfigurationError, UndecidedError

if TYPE_CHECKING:
    from wmmadiag.cli.check_program import ProgramCheck
    from wmmadiag.gate.task import Task, TaskOutcome
    from wmmadiag.results.diagnosis import Diagnosis
    from wmmadiag.results.model import KernelReport
    from wmmadiag.results.run import Run


_FEW = 3  # kernels whose texts are seen at a glance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="card, folder, CUDA source or PTX")
    arguments.add_detail(parser)
    arguments.add_colour(parser)
    group = parser.add_argument_group("what to run")
    group.add_argument("--case", action="append", metavar="NAME", default=None, help="only this case; may be repeated")
    group.add_argument("--variant", action="append", metavar="NAME", default=None, help="only this variant; likewise")
    arguments.add_inputs(group)
    group.add_argument("--against", metavar="CARD", default=None, help="compare with another kernel's outputs, too")
    group.add_argument(
        "--jobs", type=arguments.positive, metavar="N", default=1, help="cards checked at a time (default: 1)"
    )
    group.add_argument("--wrong", action="store_true", help="of a folder, also the kernels broken on purpose")
    group = parser.add_argument_group("what to look for besides wrong numbers")
    arguments.add_checks(group)
    group.add_argument("--provenance", action="store_true", help="follow values from the inputs on")
    group.add_argument("--diagnose", action="store_true", help="say why each failing variant fails")
    arguments.add_schedules(group)
    arguments.add_subject(parser, "the kernel, in place of what its card or source says", many_arches=True)
    parser.add_argument("--resources", action="store_true", help="registers, spills and shared memory, by ptxas")
    group = parser.add_argument_group("where it runs")
    group.add_argument("--backend", metavar="NAME", default="emulator", help="emulator (default), gpu or both")
    arguments.add_budget(group, "each card")
    group.add_argument("--no-main", action="store_true", help="do not run a source's own main besides")
    group = parser.add_argument_group("failures that are known")
    arguments.add_baseline(group)
    add_outputs(parser)
    parser.add_argument(
        "--bundle", metavar="FILE", default=None, help="write one file from which `wmmadiag replay` repeats the check"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.cli.baseline import opened, write
    from wmmadiag.cli.check_program import check_program, settled
    from wmmadiag.gate.batch import check_all, exit_code, plan, run_of
    from wmmadiag.programs.cards import has_main
    from wmmadiag.subject.find_cards import find_subjects, without_declared_wrong

    started = time.perf_counter()
    outputs = chosen_outputs(args)
    if args.bundle is not None:
        return _bundled(args, outputs, console)
    baseline = opened(args)
    found = find_subjects(map(Path, args.paths))
    paths, left_out = (found, []) if args.wrong else without_declared_wrong(found, args.paths)
    tasks = plan(paths, args.arch or [None], args.case, args.variant, _options(args))
    tasks = [replace(task, record=outputs.wanted, diagnose=args.diagnose) for task in tasks]

    outcomes: list[TaskOutcome] = []
    programs: list[ProgramCheck] = []
    unjudged: list[Task] = []
    for judged in check_all(tasks, jobs=args.jobs, progress=_progress(tasks, console)):
        outcome = judged if baseline is None else baseline.applied(judged)
        whole, guessed = None, False
        own_main = not (args.no_main or outcome.left) and args.backend == "emulator" and has_main(outcome.task.path)
        if _tells_nothing(outcome, own_main, programs):
            unjudged.append(outcome.task)
            continue
        if own_main and not outcome.beside:  # it is run once, under all checks
            console.progress(f"{outcome.task.path}: its own main")
            before = [one for one in programs if one.path == outcome.task.path]
            whole = check_program(outcome.task, outcome, args, before)
            programs.append(whole)
            # What somebody said of the kernel and is not known is a mistake, whatever its program says of itself.
            if not (args.computes and judged.error and not judged.asked):
                outcome = replace(outcome, code=whole.code_with(outcome))
            open_yet = not (settled(judged) or whole.right_in_part(judged)) or whole.never_so(judged)
            guessed = outcome.report is not None and open_yet and whole.launched
            outcome = replace(outcome, recorded=None) if guessed else outcome
        outcomes.append(outcome)
        if outcome.error:
            console.error(outcome.error)
        elif outputs.to_stdout:
            continue
        elif outcome.report is not None and _is_shown(outcome, args, guessed):
            diagnoses = outcome.diagnoses if outcome.code or args.verbose else ()
            text = _text(outcome.report, diagnoses, args.verbose, console)
            console.print(text + ("\n" if len(tasks) > 1 or outcome.task not in tasks else ""))
        if whole is not None and not outputs.to_stdout and not (args.quiet and not outcome.code):
            _print_program(programs, judged, args, console)
    console.clear()
    _note_unjudged(unjudged, console)
    if len(outcomes) > 1 and not outputs.to_stdout:
        console.print(_summary(outcomes, known=baseline is not None))
    if left_out and not outputs.to_stdout:
        console.note(f"{len(left_out)} kernels that are broken on purpose were left out; --wrong checks them, too")
    if baseline is not None:
        console.note("\n".join(baseline.lines()))
    if outputs.wanted:
        run = run_of(
            [_noted(one, unjudged) for one in outcomes], command=_command(args), seconds=time.perf_counter() - started
        )
        write_outputs(_with_programs(run, programs, args), outputs, console)
    if args.write_baseline is not None:
        write(args, outcomes, console)
        return exit_code([one for one in outcomes if one.error] or [replace(outcomes[0], code=0)])
    return exit_code(outcomes)


def _tells_nothing(outcome: TaskOutcome, own_main: bool, programs: Sequence[ProgramCheck]) -> bool:
    """Whether what lies beside a kernel was not judged: a guess at it is of no use where its main has run. What there
    was no time for is not passed over: whether all is right would hang on the clock. Nor is what seems another version
    of a kernel that is right, unless its program launches it, comes to its end and finds no fault."""
    if not outcome.beside or outcome.left:
        return False
    if outcome.doubted:
        named = str(outcome.task.options["entry"])
        of_it = [one for one in programs if one.path == outcome.task.path]
        return any(one.clears(named) for one in of_it)
    if outcome.differs:
        return own_main
    return bool(outcome.error) or (own_main and outcome.code == UndecidedError.exit_code)


def _said_of(unjudged: Iterable[Task]) -> str:
    """What is said of kernels that were not judged; "" of none."""
    named = ", ".join(dict.fromkeys(str(one.options["entry"]) for one in unjudged))
    return f"not judged, and launched by the source, too: {named}; --entry NAME says why" if named else ""


def _note_unjudged(unjudged: Sequence[Task], console: Console) -> None:
    if said := _said_of(unjudged):
        console.note(said)


def _noted(outcome: TaskOutcome, unjudged: Sequence[Task]) -> TaskOutcome:
    """What files say of a source's first kernel, with those of the source that were not judged."""
    said = _said_of(one for one in unjudged if one.path == outcome.task.path)
    if not said or outcome.beside or outcome.report is None:
        return outcome
    return replace(outcome, report=replace(outcome.report, assumed=(*outcome.report.assumed, said)))


def _print_program(
    programs: list[ProgramCheck], judged: TaskOutcome, args: argparse.Namespace, console: Console
) -> None:
    """What the last of these did, with what the source alone led to; what was told of another kernel once alone."""
    from wmmadiag.cli.program_words import lines

    *before, last = programs
    again = any(one.own is last.own and one.path == last.path for one in before)
    if told := lines(last, judged, args.verbose, again=again):
        console.print("\n".join(told))


def _is_shown(outcome: TaskOutcome, args: argparse.Namespace, guessed: bool) -> bool:
    """Whether a report is printed: no guess where a main has run, and no right instantiation that another one names."""
    named = outcome.beside and "<" in str(outcome.task.options["entry"]) and not outcome.code
    return not (args.quiet and not outcome.code) and (args.verbose or not (guessed or named))


def _progress(tasks: Sequence[Task], console: Console) -> Callable[[Task, int, int, str], None]:
    def progress(task: Task, done: int, cases: int, what: str) -> None:
        number = f"{tasks.index(task) + 1}/{len(tasks)} " if len(tasks) > 1 and task in tasks else ""
        if cases and what and what.endswith(str(task.path)):  # told for all processes together
            console.progress(f"[{done}/{cases}] {what}")
        elif cases and what:
            place = f"case {done + 1}/{cases}" if done < cases else "diagnosis"
            console.progress(f"[{number}{place}] {what}")

    return progress


def _with_programs(run: Run, programs: list[ProgramCheck], args: argparse.Namespace) -> Run:
    whole_runs = {one.path: one for one in programs}.values()
    ran = [made for one in whole_runs if (made := one.run((args.arch or ["sm_90"])[0])) is not None]
    return replace(run, kernels=(*run.kernels, *ran))


def _bundled(args: argparse.Namespace, outputs: Outputs, console: Console) -> int:
    """Check one card and write its bundle."""
    from wmmadiag.bundle.write import write_bundle
    from wmmadiag.report import terminal
    from wmmadiag.subject.find_cards import find_subjects

    paths = find_subjects(map(Path, args.paths))
    arches = args.arch or [None]
    if len(paths) != 1 or len(arches) != 1:
        raise ConfigurationError(
            "--bundle takes one card and one architecture", hint="name the card, and --arch once at most"
        )
    for name in ("against", "baseline", "write_baseline", "diagnose", "resources"):
        if getattr(args, name):
            raise ConfigurationError(
                f"--{name.replace('_', '-')} and --bundle do not go together", hint="ask for one of them at a time"
            )
    if args.backend != "emulator":
        raise ConfigurationError(
            "a bundle holds what NVRTC compiled and the emulator ran",
            hint="leave --backend out with --bundle",
        )
    options = arguments.of_subject(args)
    for name in ("computes", "use_cache"):  # a bundle is of a card, compiled by NVRTC
        del options[name]
    options["include_paths"] = tuple(args.include)
    run = write_bundle(
        paths[0], Path(args.bundle), arch=arches[0], cases=args.case, variants=args.variant, checks=args.checks,
        schedules=args.schedules, provenance=args.provenance, **options,
    )  # fmt: skip
    if not outputs.to_stdout:
        console.print(terminal.render_run(run, colour=console.colour, verbose=args.verbose))
    if outputs.wanted:
        write_outputs(run, outputs, console)
    console.note(f"wrote {args.bundle}: repeat it anywhere with `wmmadiag replay {args.bundle}`")
    return run.exit_code


def _command(args: argparse.Namespace) -> str:
    """The command line, without the names of reports."""
    words = list(args.words)
    reports = {f"--{name}" for name in FORMATS}
    kept = []
    while words:
        word = words.pop(0)
        if word in reports:
            words = words[1:]
        elif word.split("=")[0] not in reports and word != "--github":
            kept.append(word)
    return shlex.join(["wmmadiag", "check", *kept])


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of `wmmadiag.check`."""
    from wmmadiag.backends import RunLimits

    return arguments.of_subject(args) | {
        "backend": args.backend,
        "limits": RunLimits(args.threads, args.budget_instructions, args.budget_seconds),
        "resources": args.resources or args.verbose,
        "against": args.against,
        "checks": args.checks,
        "schedules": args.schedules,
        "provenance": args.provenance,
    }


def _text(report: KernelReport, diagnoses: Sequence[Diagnosis], verbose: bool, console: Console) -> str:
    from wmmadiag.report import terminal, terminal_diagnosis

    parts = [terminal.render(report, colour=console.colour, verbose=verbose)]
    parts += [terminal_diagnosis.render(one, colour=console.colour, verbose=verbose) for one in diagnoses]
    return "\n".join(parts)


def _summary(outcomes: list[Any], *, known: bool) -> str:
    """How many are what; of many, those that are not right by name, since their texts are far above.

    Args:
        known: whether there is a list of known failures; else what is not passed and no failure is right by its main.
    """
    words = {"passed": "ok", "failed": "wrong", "undecided": "undecided", "error": "in error"}
    accepted = "wrong as known" if known else "ok by its own main"

    def word(outcome: Any) -> str:
        if outcome.code == 1:
            return words["failed"]  # by what its own main shows, too
        if outcome.status == "passed":
            return "ok"
        if not outcome.code:
            return accepted
        return "asked" if outcome.asked else words[outcome.status]

    found = [(word(one), one) for one in outcomes]
    counts = Counter(one for one, _ in found)
    parts = [f"{counts[one]} {one}" for one in (*words.values(), "asked", accepted) if counts[one]]
    listed = [f"  {one:<9}  {_named(other)}" for one, other in found if one not in ("ok", accepted)]
    lines = ["not right:", *listed] if listed and len(outcomes) > _FEW else []
    unchanged = sum(outcome.cached for outcome in outcomes)
    since = f" ({unchanged} unchanged since an earlier run)" if unchanged else ""
    return "\n".join([*lines, f"{len(outcomes)} checks: {', '.join(parts)}{since}"])


def _named(outcome: Any) -> str:
    entry = str(outcome.task.options.get("entry") or "")
    return f"{outcome.task.path}{f' --entry {shlex.quote(entry)}' if entry else ''}"
