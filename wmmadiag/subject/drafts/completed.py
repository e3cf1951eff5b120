"""Kernels with what their sources leave open: the arguments of templates, numbers that host code counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from wmmadiag.hostcode import terms
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.terms import Term
from wmmadiag.ops import OPERATIONS
from wmmadiag.ops.expressions import names_in
from wmmadiag.subject.drafts.draft import draft
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import value_for
from wmmadiag.subject.drafts.instantiated import instantiations
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.meanings import meanings
from wmmadiag.subject.drafts.model import TODO, CardDraft
from wmmadiag.subject.drafts.strangers import dialects

_SYMBOL, _COUNTS, _MOST_COUNTED = "--symbol ", (2, 4, 1), 2
_THREADS, _ELEMENTS = (256, 128, 64), (4096, 1024, 256)  # of a block; of dynamic shared memory


def completed(source: GivenSource, kernel: SourceKernel, operation: str) -> Iterator[tuple[str, SourceKernel]]:
    """The kernel with what the source leaves open of it: template arguments, numbers that host code counts."""
    if kernel.uninstantiated:
        before: list[str] = []  # a kernel that is wrong with most arguments is not hidden by one with which it is right
        for said, one in instantiations(source, kernel, operation):
            yield f"{said} (and not right with {'; '.join(before)})" if before else said, one
            before.append(said)
    else:
        yield from _in_dialects(kernel, operation)
        yield from _counted(source, kernel, operation)


def _in_dialects(kernel: SourceKernel, operation: str) -> Iterator[tuple[str, SourceKernel]]:
    """The kernel with its numbers by other names, where those that it has mean something else together."""
    for meant in dialects(kernel, operation):
        machine = kernel.machine
        if machine is not None:
            pairs = zip(kernel.parameters, kernel.passed, strict=True)
            symbols = {value.args[0]: [meant[one.name]] for one, value in pairs
                       if one.name in meant and isinstance(value, Term) and value.op == "symbol"}  # fmt: skip
            machine = replace(machine, names={**machine.names, **symbols})
        parameters = tuple(
            replace(one, name=meant.get(one.name, one.name), label=one.label or one.name) for one in kernel.parameters
        )
        said = ", ".join(f"{name} is {value_for(spelling, operation) or spelling}" for name, spelling in meant.items())
        yield said, replace(kernel, machine=machine, parameters=parameters)


def _counted(source: GivenSource, kernel: SourceKernel, operation: str) -> Iterator[tuple[str, SourceKernel]]:
    """The kernel; then with numbers for what host code counts and nobody says, in words: parts of a sum, processors.

    Where every extent of several launches is told, what is counted is none of them. A part of an extent is another
    one last: `K / splits` as K leaves the parts unseen.
    """
    kernel, said = with_given(source, kernel, operation)
    machine, drafted = kernel.machine, draft(kernel, operation, source.wishes)
    known = OPERATIONS[operation]
    extents = {name for name in known.cases[-1] if name in known.extents and name != known.optional}
    told = kernel.together is not None and extents <= {one.value for one in drafted.arguments} | {*drafted.fixed}
    counted = list(_with_counts(kernel, drafted, machine))
    part = bool(counted) and _is_part(kernel, operation, drafted)
    if not part and not (told and counted):
        yield said, kernel
    yield from counted
    if part and not told:
        yield said, kernel


def _is_part(kernel: SourceKernel, operation: str, drafted: CardDraft) -> bool:
    """Whether host code passes a part of an extent for a number that is open."""
    meant, extents = meanings(kernel, operation), {*OPERATIONS[operation].extents}
    open_ones = [one.passed for one in drafted.arguments if one.value == TODO and isinstance(one.passed, Term)]
    return any(_divides(meant.card(one), extents) for one in open_ones if isinstance(one, Term))


def _divides(term: Term, extents: Collection[str]) -> bool:
    """Whether an extent, or what follows from it, is divided somewhere in a term."""
    if term.op in ("//", "ceil_div", "/") and terms.symbols(term.args[0]) & {*extents}:
        return True
    return any(isinstance(one, Term) and _divides(one, extents) for one in term.args)


def with_given(source: GivenSource, kernel: SourceKernel, operation: str) -> tuple[SourceKernel, str]:
    """The kernel with what the user says of numbers that its host code counts, and that in words."""
    machine = kernel.machine
    symbols = source.options.symbols
    if machine is None or not symbols:
        return kernel, ""
    open_ones = {one.option for one in draft(kernel, operation, replace(source.wishes, symbols={})).open}
    given = {name: int(text) for name, text in symbols.items()
             if f"{_SYMBOL}{name}=" in open_ones and name in machine.names and text.isdecimal()}  # fmt: skip
    if not given:
        return kernel, ""
    said = ", ".join(f"{name} = {count}" for name, count in given.items())
    return replace(kernel, machine=replace(machine, usual={**machine.usual, **given}), counted=tuple(given)), said


def _with_counts(
    kernel: SourceKernel, drafted: CardDraft, machine: Machine | None
) -> Iterator[tuple[str, SourceKernel]]:
    marks = [one.option for one in drafted.open if one.option.startswith(_SYMBOL)]
    names = [one.removeprefix(_SYMBOL).rstrip("=") for one in marks]
    names = [one for one in names if machine is not None and one in machine.names and one not in machine.usual]
    if machine is None or not names or len(names) > _MOST_COUNTED:
        return
    for counts in zip(*(_numbers(drafted, one) for one in names), strict=True):
        found = dict(zip(names, counts, strict=True))
        said = ", ".join(f"{next(iter(machine.names[name]), name)} = {count}" for name, count in found.items())
        yield said, replace(kernel, machine=replace(machine, usual={**machine.usual, **found}), counted=tuple(names))


def _numbers(drafted: CardDraft, name: str) -> tuple[int, int, int]:
    """What is tried for a number of host code: as many threads, elements of shared memory, or parts as are usual."""
    if name in names_in(" + ".join(f"({one})" for one in drafted.block)):
        return _THREADS
    others = [*drafted.grid, *(one.value for one in drafted.arguments if not one.parameter.pointer and one.value)]
    if name in names_in(drafted.shared) and name not in names_in(" + ".join(f"({one})" for one in others)):
        return _ELEMENTS
    return _COUNTS
