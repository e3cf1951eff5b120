"""Run a CUDA program, its own main and host code, on a machine without a GPU, under all checks.

  wmmadiag run program.cu                      its output is its own; findings come after, on standard error
  wmmadiag run main.cu kernels.cu -I include -- --size 128
  wmmadiag run program.cu --checks races,memory -D N=256
  wmmadiag run -O3 -arch=sm_80 -std=c++17 main.cu -lcublas      options as they are written for nvcc are taken, too

Exit codes: 1 a check found an error; 2 usage, or it does not compile; 3 the emulator could not go on; else the
program's own.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.cli import arguments
from wmmadiag.cli.console import Console
from wmmadiag.cli.outputs import FORMATS, STDOUT, add_json, chosen_outputs, write_json, write_outputs
from wmmadiag.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wmmadiag.compile.own_files import OwnFiles
    from wmmadiag.programs.progress import Reached
    from wmmadiag.programs.run import ProgramResult

TAKES_ARGUMENTS_OF_OTHERS = True
"""What stands behind `--` is the program's."""
TAKES_WORDS_OF_NVCC = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Define the command's arguments."""
    parser.add_argument("sources", metavar="PROGRAM.cu", nargs="+", help="its sources; -- begins its own arguments")
    parser.add_argument("--arch", metavar="SM", default="sm_90", help="the device that it sees (default: sm_90)")
    arguments.add_macros(parser)
    parser.add_argument("--std", metavar="STD", default="c++17", help="C++ standard (default: c++17)")
    parser.add_argument(
        "-X", "--host-option", action="append", metavar="WORD", default=[], help="a word for the C++ compiler: -X=-lm"
    )
    parser.add_argument("--use-fast-math", action="store_true", help="compile kernels as nvcc --use_fast_math does")
    arguments.add_checks(parser)
    arguments.add_schedules(parser)
    parser.add_argument(
        "--every-launch", action="store_true",
        help="watch also launches that are like an earlier one: same kernel, grid, block and arguments",
    )  # fmt: skip
    parser.add_argument(
        "--default-stream", choices=("legacy", "per-thread"), default="legacy", help="as nvcc has it (default: legacy)"
    )
    parser.add_argument(
        "--keep-going", action="store_true",
        help="a launch that dies is told, and the program goes on as if it had not (else it gets CUDA's sticky error)",
    )  # fmt: skip
    parser.add_argument("--leaks", action="store_true", help="tell of memory that is never freed")
    arguments.add_budget(parser, "each launch")
    parser.add_argument("--timeout", type=arguments.seconds, metavar="S", default=None, help="wall time of the program")
    parser.add_argument(
        "--memory", type=arguments.size, metavar="SIZE", default=0,
        help="memory of the device, such as 4G; the process may take four times that and 1G (default: the machine's)",
    )  # fmt: skip
    parser.add_argument(
        "--sample-blocks", type=arguments.natural, metavar="N", default=0,
        help="watch N blocks of each launch, spread over its grid, and run the others bare",
    )  # fmt: skip
    group = parser.add_argument_group("reports (FILE '-': standard output, and nothing else there)")
    add_json(group, "what was found")
    for name, (_, what) in FORMATS.items():
        if name != "json":
            group.add_argument(f"--{name}", metavar="FILE", default=None, help=what)
    group.add_argument("--github", action="store_true", help="annotations for GitHub Actions, on standard output")
    arguments.add_no_cache(parser)
    arguments.add_detail(parser)
    arguments.add_colour(parser)


def _without_main(sources: Sequence[Path]) -> ConfigurationError:
    if empty := [str(one) for one in sources if not one.read_bytes().strip()]:
        what = "the file is empty" if len(empty) == 1 else "the files are empty"
        return ConfigurationError(
            f"{', '.join(empty)}: {what}", hint="give the program's sources, with a main function"
        )
    return ConfigurationError(
        f"{', '.join(map(str, sources))}: no main function",
        hint="give all sources of the program; kernels alone: `wmmadiag check`",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Run the command; returns the exit code."""
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.programs.ahead import Ahead
    from wmmadiag.programs.build import build
    from wmmadiag.programs.run import run_program
    from wmmadiag.programs.spec import ProgramSpec
    from wmmadiag.programs.start import load

    words: list[str] = args.words
    own = words[words.index("--") + 1 :] if "--" in words else []
    sources = [Path(one) for one in args.sources]
    extra = ("--use_fast_math",) if args.use_fast_math else ()
    macros = arguments.definitions(args.define)
    # nvcc's option defines it, too; it gives functions of the runtime other names, which ours do not need.
    per_thread = macros.pop("CUDA_API_PER_THREAD_DEFAULT_STREAM", "0") != "0" or args.default_stream == "per-thread"
    options = CompileOptions(
        arch=args.arch, macros=macros, include_paths=tuple(map(Path, args.include)), std=args.std,
        extra=extra,
    )  # fmt: skip
    spec = ProgramSpec(
        options, checks=args.checks, schedules=args.schedules, every_launch=args.every_launch, threads=args.threads,
        use_cache=not args.no_cache, instructions=args.budget_instructions or 0, seconds=args.budget_seconds or 0.0,
        sample=args.sample_blocks, memory=args.memory, leaks=args.leaks, per_thread=per_thread,
        keep_going=args.keep_going,
    )  # fmt: skip
    loading, ahead = threading.Thread(target=load), Ahead(options.of_a_program())

    def beside(files: Sequence[OwnFiles]) -> None:
        loading.start()
        if not args.no_cache:
            ahead.begin(files)

    try:
        program = build(sources, options, host_options=args.host_option, beside=beside)
        ahead.end(program.units, registers=program.registers)
    finally:
        ahead.leave()
        if loading.ident is not None:
            loading.join()
    if program.main is None:
        raise _without_main(sources)
    outputs = chosen_outputs(args, without="json")
    begun = time.perf_counter()
    sys.stdout.flush()
    taken = outputs.to_stdout or args.json == STDOUT  # then what the program prints goes to standard error
    result = run_program(
        program, spec, str(sources[0].with_suffix("")), own, seconds=args.timeout or 0.0, output=2 if taken else None,
        copied=True, advise=None if console.quiet else partial(_advise, console, time.perf_counter()),
    )  # fmt: skip
    if outputs.wanted:
        from wmmadiag.programs.report import kernel_run
        from wmmadiag.recording import run_of

        took = time.perf_counter() - begun
        made = kernel_run(result, sources, options.arch, took)
        write_outputs(run_of([made], command=shlex.join(["wmmadiag", *words]), seconds=took), outputs, console)
    if args.json:
        write_json(_record(result), args.json, console)
    if result.exit_code or not console.quiet:
        _tell(result, console, args.verbose)
    return result.exit_code


def _advise(console: Console, begun: float, reached: Reached, left: float) -> None:
    """Say of a program that takes very long what it would take, and what takes less."""
    from wmmadiag.programs.pace import lasting

    console.note(
        f"wmmadiag: after {time.perf_counter() - begun:.0f} s {reached.begun:,} of {reached.blocks:,} blocks of launch"
        f" {reached.launches}, of {reached.kernel}, have begun: this launch alone takes {lasting(left)} more\n"
        "next: smaller sizes, by its arguments or -D; --checks none where they take the time, or --sample-blocks 8;"
        " --timeout S ends it"
    )


def _tell(result: ProgramResult, console: Console, verbose: bool) -> None:
    for line in found_lines(result, verbose):
        console.note(line)
    console.note(summary(result))


def found_lines(result: ProgramResult, verbose: bool) -> list[str]:
    """What was found, and why it ended where it did not end by itself."""
    from wmmadiag.results.finding_lines import finding_lines

    paragraphs = []
    for one in result.found:
        if one.finding.level == "advice" and not verbose:
            continue
        lines = finding_lines([one.finding], verbose=verbose)
        if one.where:
            more = f"; in {one.launches} launches" if one.launches > 1 else ""
            lines.append(f"      {one.where}{more}")
        paragraphs.append("\n".join(line.removeprefix("    ") for line in lines))
    hidden = sum(one.finding.level == "advice" for one in result.found) if not verbose else 0
    paragraphs += [f"note: {hidden} advice: --verbose tells"] * bool(hidden)
    paragraphs += [f"note: {one}" for one in result.notes]
    if result.crash:
        paragraphs.append(f"error: {result.crash}")
    if result.ended:
        paragraphs.append(f"could not go on: {result.ended}")
    if result.internal:
        paragraphs.append(f"internal error, a bug of wmmadiag:\n{result.internal}")
    return paragraphs


def summary(result: ProgramResult) -> str:
    """One line: launches, what was watched, what was found, how it ended."""
    levels = [one.finding.level for one in result.found]
    counted = [(levels.count(level), level) for level in ("error", "warning", "advice")]
    found = (
        ", ".join(f"{n} {level}{'s' if n > 1 and level != 'advice' else ''}" for n, level in counted if n)
        or "nothing found"
    )
    same = result.launches - result.watched - result.repeated
    how = [f"{result.watched} watched"] * bool(result.watched)
    how += [f"{same} like one of these ran bare"] * bool(same and result.watched)
    how += [f"{result.repeated} did the same again to the same contents: not run"] * bool(result.repeated)
    watched = f" ({'; '.join(how)})" if len(how) > 1 or result.repeated else ""
    if result.sampled:
        watched += f", of {result.sampled} a sample of blocks alone"
    launches = f"{result.launches} launch{'es' if result.launches != 1 else ''}"
    if result.settled:
        watched += f", {result.settled} ended when its blocks, all alike, changed nothing more"
    if result.unfollowed:
        watched += f", {result.unfollowed} too large to be compared with work in other streams"
    ended = f"exit status {result.status}" if result.status >= 0 else f"signal {-result.status}"
    how_ended = "the program was ended" if result.ended else f"the program's {ended}"
    return f"wmmadiag: {launches}{watched}, {found}; {how_ended}"


def _record(result: ProgramResult) -> dict[str, object]:
    record = dataclasses.asdict(result)
    record["exit_code"] = result.exit_code
    return record
