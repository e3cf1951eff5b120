"""The signature of a compiled kernel: names from the source's tree, types from the compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from wmmadiag.compile.ask.answers import TypeFacts, Unanswered
from wmmadiag.compile.ask.asking import ask
from wmmadiag.compile.ask.elements import element
from wmmadiag.compile.ask.questions import AskedSource, Parameters
from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.model import Compilation, Entry
from wmmadiag.compile.names import parameter_types
from wmmadiag.compile.read import read_text
from wmmadiag.csource.declarations import Function, declarations
from wmmadiag.csource.tree import Source, parse
from wmmadiag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One parameter of a kernel's instantiation."""

    name: str  # "" when it has none
    type: str  # as written ("const T *"), or the compiler's name where no declaration is to be read
    facts: TypeFacts  # what the type is: its size, alignment, what it points to

    @property
    def pointer(self) -> bool:
        """Whether it is a pointer."""
        return self.facts.depth > 0

    @property
    def const(self) -> bool:
        """Whether what it points to is const."""
        return self.pointer and self.facts.const

    @property
    def dtype(self) -> str | None:
        """Number format of the value, or of what it points to; None: a struct, void, a pointer to a pointer."""
        known = element(self.facts) if self.facts.depth <= 1 else None
        return None if known is None else known[0]

    @property
    def lanes(self) -> int:
        """Numbers in one element: 2 for half2."""
        known = element(self.facts) if self.facts.depth <= 1 else None
        return 1 if known is None else known[1]


def signature(compilation: Compilation, entry: Entry | str) -> tuple[KernelParameter, ...]:
    """The parameters of one kernel of a compiled CUDA source, in order.

    Args:
        entry: an entry, or a name as `Compilation.entry` takes it.

    Raises:
        ConfigurationError: no such kernel, PTX, or a kernel whose type cannot be named outside its source.
        CompileError: as `ask`.
    """
    if isinstance(entry, str):
        entry = compilation.entry(entry)
    if is_ptx(compilation.source):
        raise ConfigurationError(
            f"{compilation.source}: PTX keeps no types of parameters",
            hint="give the CUDA source, or a card that says them",
        )
    named = entry.name_expression or entry.demangled
    overloaded = sum(one.demangled == entry.demangled for one in compilation.entries) > 1
    declared = declared_kernel(compilation, entry)
    several = declared is not None and declared[2] > 1
    # An extern "C" kernel has no overloads, and its name tells no types.
    types = parameter_types(entry.name) if overloaded or several else None
    question = Parameters(named, types)
    options = replace(compilation.options, name_expressions=())
    answer = ask(AskedSource(compilation.text, compilation.source, options), [question])[question]
    if isinstance(answer, Unanswered):
        raise ConfigurationError(
            f"the parameters of {entry.demangled} are not known",
            place=entry.place,
            detail=answer.reason,
            hint="say them in a card: `wmmadiag init` drafts one",
        )
    if declared is None:
        return tuple(KernelParameter("", facts.type, facts) for facts in answer.types)
    return tuple(_parameter(declared[1], index, facts) for index, facts in enumerate(answer.types))


def declared_kernel(compilation: Compilation, entry: Entry) -> tuple[Source, Function, int] | None:
    """The declaration of a compiled kernel, with its file and how many of its name there are; None: a macro made it."""
    file = entry.place.file if entry.place is not None else compilation.source
    try:
        text = compilation.text if file == compilation.source else read_text(Path(file))
    except ConfigurationError:
        return None
    source, every = _kernels(text, file)
    found = [one for one in every if one.name == entry.base_name]
    if not found:
        return None
    line = entry.place.line if entry.place is not None else 0
    nearest = min(found, key=lambda one: (one.body is None, abs(source.place(one.node).line - line)))
    return source, nearest, len({_written(one) for one in found})


@lru_cache(maxsize=4)
def _kernels(text: str, file: str) -> tuple[Source, tuple[Function, ...]]:
    source = parse(text, file)
    return source, tuple(one for one in declarations(source).functions if one.kernel)


def _written(function: Function) -> tuple[str, ...]:
    """What tells overloads apart: the types of the parameters as written."""
    return (function.scope, *(f"{one.type}{'*' * one.pointers}" for one in function.parameters))


def _parameter(function: Function, index: int, facts: TypeFacts) -> KernelParameter:
    if index >= len(function.parameters):  # of a pack
        return KernelParameter("", facts.type, facts)
    one = function.parameters[index]
    stars = "*" * (one.pointers + bool(one.dimensions))
    return KernelParameter(one.name, f"{one.type} {stars}".strip(), facts)
