"""A source as read for all its kernels: its functions, and what its host code does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wmmadiag.compile.ask.questions import ValueOf
from wmmadiag.hostcode.host import HostRun, runs
from wmmadiag.hostcode.program import HostProgram, read_program
from wmmadiag.hostcode.terms import Number
from wmmadiag.subject.drafts.code_facts import multiplied_types
from wmmadiag.subject.drafts.given_source import GivenSource

if TYPE_CHECKING:
    from wmmadiag.compile.ask.questions import AskScope
    from wmmadiag.subject.drafts.kernel import SourceKernel


_C_TYPES = {"f16": "half", "bf16": "__nv_bfloat16", "tf32": "float"}


@dataclass(frozen=True, slots=True, eq=False)
class HostRead:
    """A source as read: what is the same for all its kernels and their instantiations."""

    program: HostProgram
    whole: str  # its text with that of its own headers
    runs: tuple[HostRun, ...]  # of its host code; types: that these were given for templates that nobody instantiates
    types: Mapping[str, str] = field(default_factory=dict)
    # other files of its project that may say what its kernels compute, by the names that were looked for, and as read
    near: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    others: dict[Path, HostProgram] = field(default_factory=dict)
    # instantiations that nobody makes as read, None where that cannot be, each with the kernel that it is of: by the
    # entry, what the user says and the arguments
    instantiated: dict[tuple[object, ...], list[tuple[SourceKernel, SourceKernel | None]]] = field(default_factory=dict)


def read_host(source: GivenSource) -> HostRead:
    """A source as read for all its kernels."""
    options = source.options
    program = read_program(source.text, source.path.as_posix(), options.include_paths, options.defines)
    whole = "\n".join(one.data.decode("utf-8", "surrogateescape") for one in program.sources)
    return HostRead(program, whole, runs(program, _asking(source), _multiplied(whole)))


def runs_of(
    source: GivenSource, host: HostRead, function: str, types: Mapping[str, str] | None = None
) -> tuple[HostRun, ...]:
    """What one host function meets, called by whoever calls it.

    Args:
        function: its qualified name.
        types: of templates that nobody instantiates, in place of the host's own.
    """
    given = host.types if types is None else types
    return runs(host.program, _asking(source), _multiplied(host.whole), given, function)


def _multiplied(text: str) -> list[str]:
    return [_C_TYPES[one] for one in _C_TYPES if one in multiplied_types(text)]


def _asking(source: GivenSource) -> Callable[[Sequence[tuple[str, AskScope]]], Sequence[Number | None]]:
    """Asks the compiler for constants of a source."""

    def answer(questions: Sequence[tuple[str, AskScope]]) -> Sequence[Number | None]:
        from wmmadiag.compile.ask.answers import Constant

        asked = [ValueOf(text, scope) for text, scope in questions]
        answers = source.answers(asked)
        return [found.value if isinstance(found := answers.get(one), Constant) else None for one in asked]

    return answer
