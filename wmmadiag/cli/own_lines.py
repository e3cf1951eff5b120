"""Of which kernel a program says that it is wrong, at sizes at which it ends: by the lines that hang on it alone.

At sizes that nobody made it for a kernel may fail for its own reasons, and so may a comparison. But where lines for
wrong are gone or others once a kernel does nothing, and stay once any other one does nothing, of which one adds lines
of its own, the program says so of that kernel, and calls another one right; if that is so at more sizes than one, with
each of its own sizes, too, and the kernel is not what its names tell in any shape in which host code launches it, it is
wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from wmmadiag.cli.own_comparison import TriedRuns, launches
from wmmadiag.errors import WmmadiagError
from wmmadiag.programs.kernel_names import base_name
from wmmadiag.programs.own_words import lines_for_wrong

if TYPE_CHECKING:
    from wmmadiag.gate.task import Task
    from wmmadiag.programs.build import BuiltProgram
    from wmmadiag.programs.run import ProgramResult
    from wmmadiag.programs.smaller import Smaller
    from wmmadiag.programs.spec import ProgramSpec

_SIZES = 2  # at which it must say so
_MOST = 8  # kernels of a program


def said_wrong(task: Task, kernel: str, spec: ProgramSpec, tried: TriedRuns, limit: float) -> tuple[str, ...]:
    """The smaller sizes at which a program says of this kernel that it is wrong; none where these are fewer than two.

    Args:
        kernel: its plain name.
        tried: what was tried of the program for it.
        limit: seconds of a run; of all of them, twice that.
    """
    name = str(task.path.with_suffix(""))
    idle = replace(spec, checks="none", capture=False, schedules=0)
    until = time.perf_counter() + 2 * limit
    found: list[str] = []
    sizes: dict[tuple[tuple[str, int], ...], None] = {}
    for one, program in _programs(task, spec, tried):
        runs = [(key[1], ran) for key, (_, ran) in tried.runs.items() if key[0] == program.library and not ran.ended]
        runs = [(words, ran) for words, ran in runs if launches(ran, kernel)]
        if not runs:
            continue
        words, own = runs[0]
        if time.perf_counter() > until or not all(_fails(ran) for _, ran in runs):
            return ()
        if not _speaks_of(program, idle, name, list(words), own, kernel, limit):
            return ()
        sizes[one.sizes] = None
        found.append(", ".join(filter(None, [f"called with {' '.join(words)}" * bool(words), one.said()])))
        if len(found) == _SIZES:
            names = dict.fromkeys(name for each in sizes for name, _ in each)
            each = (_with_own(task, idle, name, list(words), kernel, tried, limit, kept=kept) for kept in names)
            return tuple(found) if all(each) else ()
    return ()


def _with_own(
    task: Task,
    idle: ProgramSpec,
    name: str,
    words: list[str],
    kernel: str,
    tried: TriedRuns,
    limit: float,
    *,
    kept: str,
) -> bool:
    """Whether the program says so with one of its own sizes, too: the kernel may be made for that one alone."""
    from wmmadiag.programs.run import run_program

    for _, program in islice(_programs(task, idle, tried, kept), 1):
        own = run_program(program, idle, name, words, seconds=limit, quiet=True)
        without = run_program(program, replace(idle, idle=kernel), name, words, seconds=limit, quiet=True)
        lines = lines_for_wrong(own.output) - lines_for_wrong(without.output)
        return not own.ended and not without.ended and own.status > 0 and bool(lines)
    return False


def _speaks_of(
    program: BuiltProgram, idle: ProgramSpec, name: str, words: list[str], own: ProgramResult, kernel: str, limit: float
) -> bool:
    """Whether lines for wrong of a run hang on this kernel and on no other, and others are there once another one does
    nothing, which is right so."""
    from wmmadiag.programs.run import run_program

    lines = lines_for_wrong(own.output)
    several = dict.fromkeys(base_name(one["kernel"]) for one in own.captured)
    if not lines or not 1 < len(several) <= _MOST:
        return False
    without = {}
    for one in several:
        other = run_program(program, replace(idle, idle=one), name, words, seconds=limit, quiet=True)
        if other.ended:
            return False
        without[one] = lines_for_wrong(other.output)
    own_lines = lines - without.pop(kernel)
    if not own_lines or any(own_lines - one for one in without.values()):
        return False
    return any(one - lines and not lines - one for one in without.values())


def _programs(
    task: Task, spec: ProgramSpec, tried: TriedRuns, kept: str = ""
) -> Iterator[tuple[Smaller, BuiltProgram]]:
    """The program at smaller sizes, one of which may stay as it is."""
    from wmmadiag.compile.read import read_bytes
    from wmmadiag.programs.build import build
    from wmmadiag.programs.smaller import smaller

    for one in smaller(read_bytes(task.path), host=tried.host, kept=kept):
        try:
            yield one, build([task.path], spec.options, texts={task.path: one.text}, host_only=one.host_only)
        except WmmadiagError:
            continue


def _fails(result: ProgramResult) -> bool:
    """Whether a program says by its exit status that something is wrong, once it has seen what its kernels computed."""
    found = any(one.finding.level == "error" for one in result.found)
    return result.status > 0 and result.shown and not result.refused and not found
