"""What each launch of a host function does with each buffer, as its compiled code shows, and which belong together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.values import Buffer, Pointer
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import DraftParameter, role_remark
from wmmadiag.subject.drafts.kernel import SourceKernel

if TYPE_CHECKING:
    from wmmadiag.ptx.parameter_uses import ParameterUse


@dataclass(slots=True)
class _Use:
    """What one launch does with one buffer."""

    read: bool = False
    written: bool = False
    written_first: bool = False  # as the kernel's code goes


@dataclass(slots=True)
class Step:
    """One launch of the host's function, with its kernel as it is launched so."""

    launch: HostLaunch
    kernel: SourceKernel
    uses: dict[int, _Use] = field(default_factory=dict)  # by the buffer's id
    parameters: dict[int, DraftParameter] = field(default_factory=dict)  # … the kernel's own parameter for it


def note_uses(steps: Sequence[Step], source: GivenSource) -> bool:
    """Fill in what each launch reads and writes, as its compiled code shows; False where it does not compile."""
    from wmmadiag.compile.driver import compile_source
    from wmmadiag.ptx.parameter_uses import parameter_uses
    from wmmadiag.ptx.parser import parse

    entries = [step.kernel.entry for step in steps]
    named = tuple(dict.fromkeys(one for one in entries if "<" in one))
    try:
        compiled = compile_source(source.path, replace(source.options.compilation(), name_expressions=named))
        for step in steps:
            name = compiled.entry(step.kernel.entry).name
            uses = parameter_uses(parse(compiled.ptx, name=source.path.as_posix(), entry=name), name)
            _note_step(step, uses)
    except WmmadiagError:
        return False
    return True


def _note_step(step: Step, uses: Sequence[ParameterUse]) -> None:
    index = -1
    for struct, run in groupby(zip(step.kernel.parameters, step.kernel.passed, strict=True), lambda one: one[0].struct):
        index += bool(struct)
        for parameter, value in run:
            index += not struct
            if not isinstance(value, Pointer) or not parameter.pointer:
                continue
            used = uses[index] if index < len(uses) and not uses[index].indexed else None
            members = [one for one in used.members if one.offset == parameter.offset] if used is not None else []
            if struct and used is not None and used.members and not members:
                continue  # a kernel is handed all of a struct, and leaves this member alone
            own_first = len(members) == 1 and members[0].written_first
            known_before = step.uses.get(id(value.buffer))
            use = step.uses.setdefault(id(value.buffer), _Use())
            # What is read through another pointer is read first, perhaps.
            use.written_first = own_first and (known_before is None or known_before.written_first)
            step.parameters.setdefault(id(value.buffer), parameter)
            # What is not followed may be done.
            known = bool(members) and all(one.pointer for one in members)
            use.read |= any(one.read or one.added for one in members) if known else True
            use.written |= any(one.written or one.added for one in members) if known else not parameter.const


def buffers_of(step: Step) -> Iterator[Buffer]:
    for value in step.kernel.passed:
        if isinstance(value, Pointer):
            yield value.buffer


def handed_on(steps: Sequence[Step], buffers: Mapping[int, Buffer]) -> list[int]:
    """The buffers that a launch writes first and a later one reads, and that are no result of the last one.

    What the host sets to zero before is written first, whatever is added to it; so is what its name says is no operand
    of anything; and what its kernel reads behind a store of its own, that of the whole row as a rule.
    """
    last = {one for one, use in steps[-1].uses.items() if use.written}
    found = []
    for one in buffers:
        using = [step for step in steps if one in step.uses]
        first = using[0].uses[one]
        cleared = using[0].launch.contents.get(one, ("", None))[0] == "zero" or bool(role_remark(buffers[one].name))
        cleared |= first.written_first
        for_later = first.written and (cleared or not first.read) and any(step.uses[one].read for step in using[1:])
        if for_later and one not in last:
            found.append(one)
    return found


def are_of_one(steps: Sequence[Step]) -> bool:
    """Whether launches that need nothing of one another are parts of one result: each writes what no other touches, and
    reads what another reads."""
    for at, step in enumerate(steps):
        others = [one.uses for other, one in enumerate(steps) if other != at]
        written = [one for one, use in step.uses.items() if use.written]
        read = [one for one, use in step.uses.items() if use.read and not use.written]
        if not written or any(one in uses for one in written for uses in others):
            return False
        if not any(one in uses for one in read for uses in others):
            return False
    return True
