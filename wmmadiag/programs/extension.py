"""A library of host functions in this process: its calls, the launches they make, and what was found, as an error."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wmmadiag.errors import WmmadiagError
from wmmadiag.programs.child import Served
from wmmadiag.programs.run import ProgramFinding, ProgramResult, take_record
from wmmadiag.programs.spec import ProgramSpec
from wmmadiag.results.finding_lines import finding_lines

LAUNCH_FAILURE = 719


class KernelFindings(WmmadiagError):
    """Checks found errors in the kernels that a call launched.

    Attributes:
        found: all of them, in the order in which they were met.
    """

    exit_code = 1

    def __init__(self, name: str, found: list[ProgramFinding]) -> None:
        errors = [one for one in found if one.finding.level == "error"]
        super().__init__(
            f"{name}: {len(errors)} error{'s' if len(errors) > 1 else ''} in its kernels", detail=told(found)
        )
        self.found = found


def told(found: list[ProgramFinding]) -> str:
    """Findings as the terminal shows them."""
    lines: list[str] = []
    for one in found:
        if one.finding.level != "advice":
            lines += [line.removeprefix("    ") for line in finding_lines([one.finding])]
            lines += [f"  {one.where}"] if one.where else []
    return "\n".join(lines)


class InProcess(Served):
    """Serves a library that this process has loaded: nothing ends the process, errors go to the caller."""

    # Torch's CUDA build has NVIDIA's runtime in everybody's reach: ours, and the library, look at their own first.
    mode = os.RTLD_NOW | os.RTLD_DEEPBIND

    def __init__(self, spec: ProgramSpec, folder: Path, runtime: Path) -> None:
        self.file = os.memfd_create("findings")  # as long as the library, which is never unloaded
        self.read = 0
        self.stopped: BaseException | None = None
        super().__init__(spec, folder, runtime, (), self.file)

    def begin(self) -> None:
        """Serve from now on: another library may have been served since the last call."""
        self.runtime.wmmadiag_serve(ctypes.byref(self.host))

    def guarded(self, function: Any) -> Any:
        """A callback whose exception is kept for the caller of the library."""

        def call(*arguments: Any) -> int:
            try:
                return int(function(*arguments))
            except BaseException as error:
                self.stopped = self.stopped or error
                return LAUNCH_FAILURE

        return call

    def found(self) -> list[ProgramFinding]:
        """What was found since the last time."""
        result, records = ProgramResult(0), dict[tuple[str, ...], ProgramFinding]()
        text = os.pread(self.file, os.fstat(self.file).st_size - self.read, self.read)
        self.read += len(text)
        for line in text.splitlines():
            take_record(json.loads(line), result, records, self.program)
        return list(records.values())

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, **words: Any) -> Any:
        """Call a function of the library.

        Raises:
            KernelFindings: a check found an error.
            WmmadiagError: the emulator could not go on.
        """
        self.begin()
        failure: BaseException | None = None
        answer = None
        try:
            answer = function(*arguments, **words)
        except Exception as error:
            failure = error
        self.runtime.cudaDeviceReset()  # waits; a fault ends with the call that is told of it
        found, stopped, self.stopped = self.found(), self.stopped, None
        if stopped is not None:
            raise stopped
        if any(one.finding.level == "error" for one in found):
            raise KernelFindings(name, found) from failure
        if any(one.finding.level == "warning" for one in found):
            warnings.warn(f"{name}:\n{told(found)}", stacklevel=3)
        if failure is not None:
            raise failure
        return answer


def wrapped(
    module: types.ModuleType, served: InProcess, before: Callable[[str, tuple[Any, ...]], None]
) -> types.ModuleType:
    """The module with its functions called through `served`; `before` sees the name and arguments of each call."""
    made = types.ModuleType(module.__name__, module.__doc__)
    for name, value in vars(module).items():
        if callable(value) and not isinstance(value, type):

            @functools.wraps(value)
            def call(*arguments: Any, _name: str = name, _value: Any = value, **words: Any) -> Any:
                before(_name, (*arguments, *words.values()))
                return served.call(_name, _value, *arguments, **words)

            value = call
        setattr(made, name, value)
    return made
