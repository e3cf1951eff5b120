"""A source with a `main`, checked as the program that it is: its own launches, under all checks, and its own verdict.

Each launch is judged as the operation that its kernel was taken for, where it was; else the program's own comparison
decides, if it makes one: then its exit status is another one where its kernels do nothing, and where they do half of
what they do, or it prints otherwise whether all is right. Both are said.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.cli.arguments import definitions
from wmmadiag.cli.own_comparison import (
    COMPILING,
    SOON,
    TriedRuns,
    called_otherwise,
    compares,
    launches,
    of_what_it_launches,
    passes_without,
    praised,
)
from wmmadiag.cli.own_failure import Silence, about_no_kernel, thrown_by_the_library
from wmmadiag.cli.own_lines import said_wrong
from wmmadiag.errors import UndecidedError, WmmadiagError
from wmmadiag.programs.kernel_names import base_name
from wmmadiag.programs.own_choices import chooses_wrong

if TYPE_CHECKING:
    from wmmadiag.gate.task import Task, TaskOutcome
    from wmmadiag.programs.build import BuiltProgram
    from wmmadiag.programs.run import ProgramResult
    from wmmadiag.programs.spec import ProgramSpec
    from wmmadiag.results.model import KernelReport
    from wmmadiag.results.run import KernelRun

SECONDS = 30.0
"""A program may take so long under `check`, with all that is judged of it; `run` has no such limit."""
_SWITCHES = {0, 1}  # numbers of a launch that are no sizes
_ALL = 3.0  # times that, for all that is tried of a program in other ways, for whichever of its kernels


@dataclass
class ProgramCheck:
    """What a program did, and said."""

    path: Path  # the source
    result: ProgramResult | None = None  # of its run; None where it could not be built, for which see `why`
    why: str = ""
    # by the captured launch that they are about: as the operation that its kernel was taken for
    judged: list[tuple[str, TaskOutcome]] = field(default_factory=list)
    # whether it says otherwise, by its exit status or in words, where its kernels do nothing, and half; None where that
    # was not tried
    compares: bool | None = None
    partly: bool = False  # whether it does where they do nothing, and not where they do half: it looks at a part alone
    compared: str = ""  # the kernel that did nothing then, "" for all of them
    own: ProgramResult | None = None  # of its run at its own sizes
    says_wrong: bool = False  # whether it printed the wrong one of two words that it chooses between
    backwards: bool = False  # whether it says that something is wrong, and no more where its kernels do nothing
    cleared: tuple[str, ...] = ()  # instantiations that it says to be right, whatever else it says to be wrong
    refuted: tuple[str, ...] = ()  # smaller sizes at which it says of this kernel alone that it is wrong
    silent: Silence | None = None  # why what it says to be wrong may be about no kernel
    launches_it: bool = True  # whether it launches the kernel that the user names, if any
    otherwise: str = ""  # how it was called then, and at which smaller sizes, in words; "" for as it is
    tried: TriedRuns | None = None  # what was tried of it in other ways, if that was needed
    limit: float = 0.0  # seconds that its own run had; `seconds`: that all of it took
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it launched something and ran to its end, with exit status 0, and no check found an error."""
        return self.result is not None and self._said_something and self.result.exit_code == 0

    @property
    def _said_something(self) -> bool:
        """Whether its status is about its kernels: one that launches none has told how it is to be called."""
        one = self.result
        ran = one is not None and not one.ended and (one.launches > 0 or bool(one.found))
        return ran and self.launches_it

    def clears(self, kernel: str) -> bool:
        """Whether it launched a kernel, came to its end and found no fault."""
        return self.passed and not self.code and self.result is not None and launches(self.result, base_name(kernel))

    @property
    def launched(self) -> bool:
        """Whether it launched a kernel: else what the source alone leaves to be asked is all that there is."""
        return self.result is not None and self.result.launches > 0

    @property
    def errors(self) -> bool:
        """Whether a check found an error."""
        return self.result is not None and any(one.finding.level == "error" for one in self.result.found)

    @property
    def failed(self) -> bool:
        """Whether its own exit status, or signal, says that something is wrong."""
        return self.result is not None and self._said_something and self.result.status != 0

    @property
    def crashed(self) -> bool:
        """Whether host code died, and not by an abort of its own, as an assertion says that something is wrong."""
        one = self.result
        if one is None or one.ended or one.status >= 0:
            return False
        return one.status != -signal.SIGABRT or thrown_by_the_library(one.output)

    @property
    def code(self) -> int:
        """1: a check found an error, or its own comparison did, or a launch is wrong as the operation."""
        return 1 if self.errors or self._says_so or self._judged_wrong or self.refuted else 0

    @property
    def _says_so(self) -> bool:
        """Whether its own comparison says that something is wrong."""
        wrong = (self.failed and not self.crashed) or (self.says_wrong and self._said_something)
        return wrong and not self.backwards and not self.silent

    @property
    def _judged_wrong(self) -> bool:
        return any(one.code == 1 for _, one in self.judged)

    @property
    def _judged_right(self) -> bool:
        return any(settled(one) and not one.code for _, one in self.judged)

    @property
    def unset(self) -> bool:
        """Whether all that was found is that kernels read arrays which the program never fills, as benchmarks do."""
        ends_wrong = self.result is not None and self.result.status and not self.result.ended  # not by a limit of ours
        if self.result is None or ends_wrong or self._judged_wrong:
            return False
        errors = [one.finding.check for one in self.result.found if one.finding.level == "error"]
        return bool(errors) and set(errors) == {"uninitialised"}

    def code_with(self, outcome: TaskOutcome) -> int:
        """The exit code of both.

        A kernel that is right as the operation that somebody said is so whatever its program's own comparison says, and
        where its main leaves arrays unset. What the operation was guessed to be does not outweigh that comparison; and
        of an instantiation that gives other numbers the comparison alone speaks.
        """
        if self.never_so(outcome) or self.right_in_part(outcome):
            return UndecidedError.exit_code
        if settled(outcome) and not outcome.code:
            if (self.errors and not self.unset) or self._judged_wrong:
                return 1
            if self.blames(outcome):
                return 1
            fails = self.failed and not (self.silent and self.silent.sure)
            return UndecidedError.exit_code if fails and guessed(outcome) else 0
        if self.code == 1 or settled(outcome) or not self.passed:
            return 1 if self.code == 1 else outcome.code
        return 0 if self.compares or self._judged_right else UndecidedError.exit_code

    def blames(self, outcome: TaskOutcome) -> list[str]:
        """Instantiations beside the right one that its comparison may speak of, since it launches them."""
        launched = (
            {one["kernel"].replace(" ", "") for one in self.result.captured} if self.result is not None else set()
        )
        apart = [one for one in outcome.apart if one not in self.cleared]
        return [one for one in apart if self._says_so and one.replace(" ", "") in launched]

    def right_in_part(self, outcome: TaskOutcome) -> bool:
        """Whether a guess is right at some sizes and wrong at others, which this program says nothing of.

        One that is wrong with a launch's own numbers is no more than a guess: what the program says of it decides.
        """
        from wmmadiag.subject.settling import fits_in_part, fits_nowhere

        if self.code or settled(outcome) or outcome.report is None or not fits_in_part(outcome.report):
            return False
        sized = [one for _, one in self.judged if {*one.task.options["symbols"].values()} - _SWITCHES]
        return not any(one.report is not None and fits_nowhere(one.report) for one in sized)

    def never_so(self, outcome: TaskOutcome) -> bool:
        """Whether an instantiation is wrong with real numbers alone that this program, which is right, never gives it.

        Its host code may launch that one for these numbers, and another one for others.
        """
        said = outcome.task.options.get("entry") and outcome.task.options.get("computes")
        if outcome.code != 1 or outcome.report is None or said or not guessed(outcome):
            return False
        if not self.passed or self.code or self.result is None:
            return False
        own = {one.entry.replace(" ", "") for one in outcome.report.compiled if "<" in one.entry}
        plain = {*map(base_name, own)}
        alike = [one for one in self.result.captured if base_name(one["kernel"]) in plain]
        # Others of its template are for other numbers; where none is spelled so, any of them may be it.
        launches = [one for one in alike if one["kernel"].replace(" ", "") in own] or alike
        return bool(launches) and not any(_has_its_numbers(outcome, one) for one in launches)

    def run(self, arch: str) -> KernelRun | None:
        """For reports; None where there was none."""
        from wmmadiag.programs.report import kernel_run

        return kernel_run(self.result, [self.path], arch, self.seconds) if self.result is not None else None


def settled(outcome: TaskOutcome) -> bool:
    """Whether the source alone led to a verdict, rather than to a guess at what it computes that fits nothing."""
    return outcome.report is not None and not (outcome.code == 3 and outcome.report.assumed)


def guessed(outcome: TaskOutcome) -> bool:
    """Whether something was taken so that nobody said."""
    return outcome.report is not None and bool(outcome.report.assumed)


def check_program(
    task: Task, outcome: TaskOutcome, args: argparse.Namespace, earlier: Sequence[ProgramCheck] = ()
) -> ProgramCheck:
    """Run a source's `main` under the checks, and judge its launches.

    Args:
        task: the check of the source; `outcome`: what became of it, from the source alone.
        args: the command's.
        earlier: what its program did, where that was run for others of its kernels; all of them share the time.
    """
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.compile.sources import read_text
    from wmmadiag.programs.ahead import build_with_device
    from wmmadiag.programs.run import run_program
    from wmmadiag.programs.smaller import host_of
    from wmmadiag.programs.spec import ProgramSpec

    own = base_name(str(task.options.get("entry") or ""))
    made = ProgramCheck(task.path, compared=own)
    begun = time.perf_counter()
    # What is right without its program needs that as a second look alone: less of a long one is enough, which is said.
    known = settled(outcome) and not outcome.code
    limit = args.budget_seconds or SECONDS * (SOON if known else 1.0)
    ran, spent = max(earlier, key=lambda one: one.limit, default=None), sum(one.seconds for one in earlier)
    own_run = ran.own if ran is not None else None
    if ran is None or own_run is None or (own_run.ended and ran.limit < limit):
        ran, own_run = None, None  # or it had less time, as a second look at what is right without it
    made.limit = limit if ran is None else ran.limit
    options = CompileOptions(
        arch=task.arch or "sm_90", macros=definitions(args.define), include_paths=tuple(map(Path, args.include)),
        **({"std": args.std} if args.std else {}),
    )  # fmt: skip
    try:
        program = build_with_device(task.path, options, use_cache=not args.no_cache)
        spec = ProgramSpec(
            options, checks=args.checks, capture=True, schedules=args.schedules, threads=args.threads,
            use_cache=not args.no_cache, instructions=args.budget_instructions or 0,
        )  # fmt: skip
        if ran is None or own_run is None:
            own_name = str(task.path.with_suffix(""))
            more = 0.0 if args.budget_seconds or known else COMPILING * limit
            ran_so = run_program(program, spec, own_name, [], seconds=limit, compiling=more, early=True, quiet=True)
            made.result = of_what_it_launches(ran_so)
        else:
            made.result, made.compares = own_run, ran.compares if ran.compared == own else None
    except WmmadiagError as error:
        made.why = str(error).partition("\n")[0]
        return made
    made.own = made.result
    made.says_wrong = chooses_wrong(made.result.output, read_text(task.path))
    made.launches_it = not own or launches(made.result, own)
    idle = replace(spec, checks="none", capture=False, schedules=0, idle=own or "*")
    _weigh_failure(made, outcome, program, idle, ran)
    for launch in _of_kernels(made.result.captured, outcome):
        if own and base_name(launch["kernel"]) != own:
            continue
        if time.perf_counter() - begun < limit + made.result.compiling and _has_its_numbers(
            it := _judged(task, launch, limit), launch
        ):
            made.judged.append((launch["where"], it))
    if made.passed and not (settled(outcome) or made.right_in_part(outcome)) and made.compares is None:
        name = str(task.path.with_suffix(""))
        # Without any kernel there may be nothing to compare: inputs are made by kernels, too.
        for kernel in (own or "*", *([] if own else _taken(outcome, made.result))):
            made.compares, made.partly = compares(program, replace(idle, idle=kernel), name, [], made.result, limit)
            made.compared = kernel.strip("*")
            if made.compares or made.partly:
                break
    if not settled(outcome) and not made.errors and (made.result.ended or not made.launches_it):
        left = max(limit, _ALL * limit - spent)
        made.tried = next((one.tried for one in earlier if one.tried is not None), None)
        made.tried = made.tried or TriedRuns(host_of(task.path, options))
        found = called_otherwise(task, own, spec, made.tried, limit, left, at_its_own=not made.result.ended)
        if found is not None:
            made.result, made.otherwise = found
            made.compares = made.launches_it = True
        elif own and outcome.report is not None and _fits_no_launch(outcome.report):
            made.refuted = said_wrong(task, own, spec, made.tried, limit)
    made.seconds = time.perf_counter() - begun
    return made


def _weigh_failure(
    made: ProgramCheck, outcome: TaskOutcome, program: BuiltProgram, idle: ProgramSpec, earlier: ProgramCheck | None
) -> None:
    """What it is worth that a program says that something is wrong, and of which instantiations it does not say so.

    Args:
        idle: in which the kernel that is asked about does nothing.
        earlier: what was found of the same run for another kernel.
    """
    from wmmadiag.compile.sources import read_text

    if made.code != 1 or made.errors or made.result is None:
        return
    name = str(made.path.with_suffix(""))
    if earlier is not None:
        made.silent = earlier.silent
    else:
        made.silent = about_no_kernel(
            program, replace(idle, idle="*"), name, made.result, read_text(made.path), made.limit,
            chosen=made.says_wrong,
        )  # fmt: skip
    if made.silent is None:
        made.backwards = passes_without(program, idle, name, made.result, made.limit)
    if settled(outcome) and not outcome.code:
        blamed = made.blames(outcome)
        made.cleared = tuple(one for one in blamed if praised(program, idle, name, made.result, made.limit, one))


def _fits_no_launch(report: KernelReport) -> bool:
    """Whether numbers are right in no case, and wrong at the sizes of a launch of the source's."""
    from wmmadiag.subject.drafts.sizes import OTHER_SHAPE
    from wmmadiag.subject.settling import fits_nowhere

    return fits_nowhere(report) and any(one.case == OTHER_SHAPE and one.observations for one in report.cases)


def _taken(outcome: TaskOutcome, result: ProgramResult) -> list[str]:
    """The plain name of the one kernel that the source's check is about, if the program launches others, too."""
    taken = {base_name(one.entry) for one in outcome.report.compiled} if outcome.report is not None else set()
    launched = {base_name(one["kernel"]) for one in result.captured}
    return list(taken) if len(taken) == 1 and taken < launched else []


def _of_kernels(captured: Sequence[Mapping[str, Any]], outcome: TaskOutcome) -> list[Mapping[str, Any]]:
    """The launches to judge: the first one of each kernel that was taken for something, or of each where none was."""
    first = {launch["kernel"]: launch for launch in reversed(captured)}
    if outcome.report is None or not settled(outcome):
        return list(first.values())[::-1]
    known = {base_name(one.entry) for one in outcome.report.compiled}
    return [launch for name, launch in reversed(first.items()) if base_name(name) in known]


def _judged(task: Task, launch: Mapping[str, Any], seconds: float) -> TaskOutcome:
    """The check of the source with the geometry and the numbers of a launch, which may take so long."""
    from wmmadiag.backends import RunLimits
    from wmmadiag.gate.batch import run_task

    numbers = {
        one["name"]: one["value"] for one in launch["arguments"] if isinstance(one.get("value"), int) and one["value"]
    }
    limits = task.options.get("limits") or RunLimits()
    options = {
        **task.options, "limits": replace(limits, seconds=limits.seconds or seconds),
        "entry": launch["kernel"], "grid": tuple(launch["grid"]), "block": tuple(launch["block"]),
        "shared": launch["shared"], "symbols": {**numbers, **task.options["symbols"]},
    }  # fmt: skip
    return run_task(replace(task, options=options, record=False, diagnose=False))


def _has_its_numbers(outcome: TaskOutcome, launch: Mapping[str, Any]) -> bool:
    """Whether what is wrong, if anything is, is so with the real numbers of a launch: a card may try others."""
    reals = {one["name"]: one["value"] for one in launch["arguments"] if isinstance(one.get("value"), float)}
    failed = [one for one in (outcome.report.cases if outcome.report is not None else ()) if one.status == "failed"]
    return not failed or any(all(one.symbols.get(name, real) == real for name, real in reals.items()) for one in failed)
