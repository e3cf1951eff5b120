"""Runs a program in a process of its own, and gathers what it says of itself until it ends, however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wmmadiag.compile.toolchain import toolchain
from wmmadiag.processes.life import end_group
from wmmadiag.programs.build import BuiltProgram
from wmmadiag.programs.pace import PaceWatch
from wmmadiag.programs.progress import SHARED_BYTES, Reached, spent_compiling
from wmmadiag.programs.spec import ProgramSpec
from wmmadiag.programs.start import anew, as_copy, may_copy
from wmmadiag.results.model import ReportedFinding

UNDECIDED = 3


@dataclass(frozen=True, slots=True)
class ProgramFinding:
    """A finding, and where it was met first."""

    finding: ReportedFinding  # as reported; its count is the sum over launches
    launches: int = 0  # in how many it was found; 0: it is about host code
    where: str = ""  # "3rd launch, of attn<64, 128>, grid 8 × 2 × 1 of 128 × 1 × 1 threads, at main.cu:31", or ""


@dataclass
class ProgramResult:
    """How a program ended."""

    status: int  # its exit status, or minus the signal that ended it
    found: list[ProgramFinding] = field(default_factory=list)  # what was found, in the order in which it was met
    # launches, watched: how many there were, and how many the checks watched
    launches: int = 0
    watched: int = 0
    sampled: int = 0  # of how many of these only a sample of blocks was watched
    repeated: int = 0  # how many did what an earlier one did to the same contents, and were not emulated
    unfollowed: int = 0  # how many touched too much to be compared with work in other streams
    settled: int = 0  # of how many the blocks were left out that could not change anything any more
    ended: str = ""  # why the emulator could not go on, "" where it could
    internal: str = ""  # a mistake of wmmadiag's own
    # launches for `capture.card_text`, each with `source` and `where`, if that was asked for
    captured: list[dict[str, Any]] = field(default_factory=list)
    crash: str = ""  # what is known of the signal that ended it
    output: str = ""  # what it printed, if it was run quietly
    shown: bool = True  # whether host code may have looked at what a kernel computed
    refused: str = ""  # the error of a call after which nothing was done any more; "": none
    compiling: float = 0.0  # seconds in which its kernels were compiled
    notes: list[str] = field(default_factory=list)  # what the user should know of how kernels were compiled

    @property
    def exit_code(self) -> int:
        """1 where a check found an error; else the program's own, 128 + signal as a shell has it."""
        if self.internal:
            return 70
        if any(one.finding.level == "error" for one in self.found):
            return 1
        if self.ended:
            return self.status if self.status in (2, UNDECIDED) else UNDECIDED
        return self.status if self.status >= 0 else 128 - self.status


def run_program(
    program: BuiltProgram,
    spec: ProgramSpec,
    name: str,
    arguments: Sequence[str],
    *,
    seconds: float = 0.0,
    compiling: float = 0.0,
    early: bool = False,
    advise: Callable[[Reached, float], None] | None = None,
    quiet: bool = False,
    output: int | None = None,
    copied: bool = False,
) -> ProgramResult:
    """Run a built program; its standard streams are this process's.

    Args:
        name, arguments: its `argv`.
        seconds: after which it is ended; 0: never.
        compiling, early, advise: as of `wmmadiag.programs.pace.PaceWatch`.
        quiet: what it prints is kept in the result, and it reads nothing.
        output: the file descriptor that takes the place of its standard output.
        copied: its process may be a copy of this one, which has run nothing else.
    """
    served = (spec, program.library.parent, program.runtime, toolchain().includes)
    result = ProgramResult(0)
    records: dict[tuple[str, ...], ProgramFinding] = {}
    with (
        tempfile.NamedTemporaryFile(suffix=".pickle") as file,
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as shared,
    ):
        shared.truncate(SHARED_BYTES)
        pickle.dump(served, file)
        file.flush()
        ours, theirs = os.pipe()
        watched, life = os.pipe()
        handed = [theirs, watched, shared.fileno()]
        words = [file.name, *map(str, handed), name, *arguments]
        process = (
            as_copy(words, (ours, life), output)
            if copied and not quiet and may_copy()
            else anew(words, handed, said if quiet else output, quiet=quiet)
        )
        watch = PaceWatch(process, shared.fileno(), seconds, compiling, early, advise)
        watch.begin()
        os.close(theirs)
        os.close(watched)
        try:
            with os.fdopen(ours, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    with contextlib.suppress(json.JSONDecodeError):  # cut off by the end
                        take_record(json.loads(line), result, records, program)
            result.status = process.wait()
        finally:
            watch.end()
            end_group(process.pid)
            process.wait()
            os.close(life)
        said.seek(0)
        result.output = said.read().decode("utf-8", "replace")
        shared.seek(0)
        state = shared.read()
        reached, result.compiling = Reached.of(state), spent_compiling(state)
    if watch.cut_off:
        result.ended = f"the program {watch.cut_off} {reached}"
        result.launches = max(result.launches, reached.launches)
    result.found = list(records.values())
    if result.status < 0 and not result.crash and not watch.cut_off:
        result.crash = f"ended by {_signal(-result.status)}"
    return result


def take_record(
    record: Mapping[str, Any],
    result: ProgramResult,
    records: dict[tuple[str, ...], ProgramFinding],
    program: BuiltProgram,
) -> None:
    """Add what a process that serves a program says to the result and to what was found."""
    if "launches" in record:
        (result.launches, result.watched, result.sampled, result.unfollowed, result.repeated,
         result.settled) = record["launches"]  # fmt: skip
    if "ended" in record:
        result.ended = record["ended"]
    result.shown, result.refused = record.get("shown", result.shown), record.get("refused", result.refused)
    if "note" in record:
        result.notes.append(record["note"])
    if "internal" in record:
        result.internal = record["internal"]
    if "signal" in record:
        lines = _host_lines(record["frames"], program)
        shown = [f"  at {line}" for line in lines]
        result.crash = "\n".join([f"host code was ended by {_signal(record['signal'])}", *shown])
        if _runs_what_is_launched(record, program):
            where = f"{record['file']}:{record['line']}"
            result.ended = f"{where}: {record['launch']} is launched, and is not recognised as a kernel"
        elif record["memory"]:
            message = f"host code touches device memory: {record['memory']}"
            hint = "copy it with cudaMemcpy, or allocate it with cudaMallocManaged"
            place = lines[0] if lines else ""
            _add(records, ReportedFinding("memory", "host-access", "error", message, place, hint=hint), "")
    if "captured" in record:
        result.captured.append({**record, "arguments": record["captured"], "where": _where(record)})
    for one in result.captured if record.get("left") else ():
        if one["number"] != record["number"]:
            continue
        one["arguments"] = [
            {**each, "left": True} if each["name"] in record["left"] else each for each in one["arguments"]
        ]
    if "findings" in record:
        where = _where(record)
        for one in record["findings"]:
            _add(records, ReportedFinding(**{**one, "detail": tuple(one["detail"])}), where)
    elif "check" in record:
        place = f"{record['file']}:{record['line']}" if record["file"] else ""
        if record.get("frames"):
            lines = _host_lines(record["frames"], program, inlined=True)
            place = next((one for one in lines if not one.startswith("/usr/")), place)
        finding = ReportedFinding(
            record["check"],
            record["kind"],
            record["level"],
            record["message"],
            place,
            record["other"],
            hint=record["hint"],
        )
        _add(records, finding, "")


def _add(records: dict[tuple[str, ...], ProgramFinding], finding: ReportedFinding, where: str) -> None:
    key = (finding.check, finding.kind, finding.level, finding.message, finding.place, finding.other)
    seen = records.get(key)
    if seen is None:
        records[key] = ProgramFinding(finding, 1 if where else 0, where)
    else:
        counted = replace(seen.finding, count=seen.finding.count + finding.count)
        records[key] = replace(seen, finding=counted, launches=seen.launches + (1 if where else 0))


def _where(record: Mapping[str, Any]) -> str:
    grid, block = (" × ".join(map(str, record[one])) for one in ("grid", "block"))
    place = f", at {record['place']}" if record["place"] else ""
    return f"{ordinal(record['number'])} launch, of {record['kernel']}, grid {grid} of {block} threads{place}"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, …, 11th, …"""
    last = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{last}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _host_lines(frames: Sequence[Mapping[str, Any]], program: BuiltProgram, *, inlined: bool = False) -> list[str]:
    """The lines of the program in a stack of calls, the innermost first; `inlined`: those of inlined calls, too."""
    found: list[str] = []
    interrupted = _interrupted(frames, program)
    for number, one in enumerate(frames):
        if one["file"] != str(program.library):
            continue
        at = one["offset"] - (number != interrupted)  # other frames hold where their call returns to
        asked = ["addr2line", *(["-i"] if inlined else []), "-e", str(program.library), hex(at)]
        with contextlib.suppress(OSError):
            said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
            for place in (line.split(" ")[0] for line in said.splitlines()):
                if place and not place.startswith("?"):
                    place = os.path.normpath(place)
                    found.append(os.path.relpath(place) if Path(place).is_relative_to(Path.cwd()) else place)
    return found


def _runs_what_is_launched(record: Mapping[str, Any], program: BuiltProgram) -> bool:
    """Whether a signal came while a function ran on the host that a launch names."""
    named = re.search(r"(\w+)\s*(?:<.*)?$", record.get("launch", ""))
    if named is None:
        return False
    at = [hex(one["offset"]) for one in record["frames"] if one["file"] == str(program.library)]
    asked = ["addr2line", "-f", "-C", "-e", str(program.library), *at]
    with contextlib.suppress(OSError):
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        return any(re.search(rf"\b{named[1]}\b", one.partition("(")[0]) for one in said.splitlines()[::2])
    return False


def _interrupted(frames: Sequence[Mapping[str, Any]], program: BuiltProgram) -> int:
    """Which frame a signal interrupted, if one did: behind the runtime's handler, and what the system calls that by."""
    ours = next((number for number, one in enumerate(frames) if one["file"] != str(program.runtime)), 0)
    return ours + 1 if ours and frames[ours]["file"] != str(program.library) else -1
