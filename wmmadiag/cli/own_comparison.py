"""What a program's own comparison is worth: what it says where its kernels do nothing, or half of what they do."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.errors import WmmadiagError
from wmmadiag.programs.kernel_names import base_name
from wmmadiag.programs.own_words import praises_less, says_right, says_wrong

if TYPE_CHECKING:
    from wmmadiag.gate.task import Task
    from wmmadiag.programs.build import BuiltProgram
    from wmmadiag.programs.run import ProgramResult
    from wmmadiag.programs.spec import ProgramSpec
    from wmmadiag.subject.drafts.host_read import HostRead

COMPILING = 3.0
"""Times what a program may take that its kernels may take to compile besides."""
SOON = 0.4
"""Of that, what one takes at first that is called otherwise, and one whose kernel is right without it."""


def of_what_it_launches(result: ProgramResult) -> ProgramResult:
    """The result, in which a kernel that is called as a function is no error: it says nothing of what is launched."""
    found = [
        replace(one, finding=replace(one.finding, level="warning"))
        if (one.finding.check, one.finding.kind) == ("launch", "called")
        else one
        for one in result.found
    ]
    return replace(result, found=found)


def compares(
    program: BuiltProgram, idle: ProgramSpec, name: str, words: list[str], own: ProgramResult, seconds: float
) -> tuple[bool, bool]:
    """Whether a program says that all is right, and says otherwise where kernels do nothing, and where they do half;
    whether in the first alone. What it says where it does not come to its end is not known.

    Args:
        own: of its run as it is.
    """
    from wmmadiag.programs.run import run_program

    if says_wrong(own.output):
        return False, False

    def says_so(spec: ProgramSpec) -> bool:
        other = run_program(program, spec, name, words, seconds=seconds, quiet=True)
        return bool(other.ended) or (other.status == own.status and not says_right(own.output, other.output))

    if says_so(idle):
        return False, False
    partly = says_so(replace(idle, halves=True))
    return not partly, partly


def passes_without(program: BuiltProgram, idle: ProgramSpec, name: str, own: ProgramResult, seconds: float) -> bool:
    """Whether a program that says that something is wrong says so no more once its kernels do nothing, and none of them
    alone: no comparison of what they compute does that, and nothing is known of them.

    Args:
        own: of its run as it is.
    """
    from wmmadiag.programs.run import run_program

    # Without any kernel there may be nothing to compare: inputs are made by kernels, too.
    several = dict.fromkeys(base_name(one["kernel"]) for one in own.captured)
    for kernel in (idle.idle, *(several if len(several) > 1 and idle.idle == "*" else ())):
        other = run_program(program, replace(idle, idle=kernel), name, [], seconds=seconds, quiet=True)
        if other.ended or other.status != 0 or (own.status == 0 and says_wrong(other.output)):
            return False
    return True


def praised(
    program: BuiltProgram, idle: ProgramSpec, name: str, own: ProgramResult, seconds: float, instantiation: str
) -> bool:
    """Whether a program that says that something is wrong says of this instantiation that it is right: a line for right
    is gone once that does nothing.

    Args:
        own: of its run as it is.
    """
    from wmmadiag.programs.run import run_program

    without = replace(idle, idle=instantiation.replace(" ", ""))
    other = run_program(program, without, name, [], seconds=seconds, quiet=True)
    return not other.ended and praises_less(own.output, other.output)


def launches(result: ProgramResult, kernel: str) -> bool:
    """Whether a program launched a kernel, by its plain name."""
    return any(base_name(one["kernel"]) == kernel for one in result.captured)


@dataclass
class TriedRuns:
    """What was tried of a program in other ways, for whichever of its kernels.

    Attributes:
        host: its host code as read, if that can be.
        runs: by its library and arguments: what part of the time such a run had, and what came of it.
    """

    host: HostRead | None
    runs: dict[tuple[Path, tuple[str, ...]], tuple[float, ProgramResult]] = field(default_factory=dict)


def called_otherwise(
    task: Task, kernel: str, spec: ProgramSpec, tried: TriedRuns, limit: float, left: float, *, at_its_own: bool
) -> tuple[ProgramResult, str] | None:
    """A run of the program that launches the kernel and is right by its own comparison, with what is other in words.

    None if none is: what it says at sizes that nobody made it for, or called anyhow, is no more than that.

    Args:
        tried: what other kernels of the program led to, which is added to.
        limit: seconds of a run. left: of all of them.
        at_its_own: whether it ends at its own sizes; then these are tried first.
    """
    from wmmadiag.compile.read import read_bytes
    from wmmadiag.programs.build import build
    from wmmadiag.programs.run import run_program
    from wmmadiag.programs.smaller import arguments_for, smaller

    ways = arguments_for(kernel, tried.host) if tried.host is not None and kernel else [[]]
    idle = replace(spec, checks="none", capture=False, schedules=0, idle=kernel or "*")
    name = str(task.path.with_suffix(""))
    until = time.perf_counter() + left
    others: list[list[str]] = []  # ways in which it launches other kernels alone, at whatever sizes
    for one in smaller(read_bytes(task.path), host=tried.host, unchanged=at_its_own and ways != [[]]):
        if time.perf_counter() > until:
            break
        try:
            program = build([task.path], spec.options, texts={task.path: one.text}, host_only=one.host_only)
        except WmmadiagError:
            continue
        gone: list[list[str]] = []
        for share, words in product((SOON, 1.0), ways):
            if words in gone or words in others or time.perf_counter() > until:
                continue
            key = program.library, tuple(words)
            had, result = tried.runs.get(key, (0.0, None))
            if result is None or (result.ended and had < share):
                more = COMPILING * share * limit
                result = run_program(
                    program, spec, name, words, seconds=share * limit, compiling=more, early=True, quiet=True
                )
                result = of_what_it_launches(result)
                tried.runs[key] = share, result
            if result.ended and share < 1:
                continue  # another way may end sooner
            gone.append(words)
            if result.ended or result.exit_code or not result.launches:
                continue
            if kernel and not launches(result, kernel):
                others.append(words)
                continue
            if compares(program, idle, name, words, result, limit)[0]:
                called = f"called with {' '.join(words)}" if words else ""
                return result, ", ".join(filter(None, [called, one.said()]))
    return None
