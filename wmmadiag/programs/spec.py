"""How a program is run, as its caller says it and as the process that serves it gets it."""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.compile.options import CompileOptions


@dataclass(frozen=True)
class ProgramSpec:
    """How a program's kernels are compiled, watched and limited (0: not).

    Raises:
        ConfigurationError: there is no check of some name.
        UnsupportedError: an architecture that is not emulated.
    """

    options: CompileOptions  # how its kernels are compiled
    checks: str = "default"  # what watches its launches, as `--checks` has it
    schedules: int = 0  # other orders that each launch is tried in
    every_launch: bool = False  # whether launches that are like an earlier one are watched, too
    threads: int = 0  # of the host
    use_cache: bool = True  # for what is compiled
    # of one launch: warp instructions, wall time
    instructions: int = 0
    seconds: float = 0.0
    capture: bool = False  # whether launches are described for cards
    sample: int = 0  # blocks of a launch that are watched
    memory: int = 0  # bytes that the device has
    leaks: bool = False  # whether memory that is never freed is told
    per_thread: bool = False  # whether each thread's default stream is its own
    keep_going: bool = False  # whether a launch that dies is told and nothing more: the program sees no error
    idle: str = ""  # the plain name of a kernel that does nothing, or an instantiation without blanks; "*": all
    halves: bool = False  # whether it does half of what it does instead
    hastened: bool = False  # whether kernels take next to no time by the events around them

    def __post_init__(self) -> None:
        # What is as it is by default needs no look at what there is: that imports the emulator, and compilers can
        # begin before. Nor is anything made anew where a program is served.
        if self.checks != "default":
            from wmmadiag.checks.registry import select

            select(self.checks)
        if self.options.arch != CompileOptions().arch:
            from wmmadiag.emulator.limits import limits

            limits(self.options.arch)
        object.__setattr__(self, "options", self.options.of_a_program())
