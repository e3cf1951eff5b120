"""Arrays that a kernel reads and writes over: an output that it adds to, an input that a result takes the place of."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wmmadiag.hostcode.values import Pointer, Value
from wmmadiag.ops import OPERATIONS
from wmmadiag.subject.drafts.code_facts import may_add_to, passed_on, writes_to
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.model import TODO, CardDraft


def written_over(result: CardDraft, role: str, factor: str, named: bool, kernel: SourceKernel) -> None:
    """An output that the kernel reads, too: it gets a factor for it, or adds to what somebody has put there."""
    over = {name for name, one in OPERATIONS[result.operation].roles.items() if one.updates == role}
    argument = next((one for one in result.arguments if one.role in over and not one.parameter.const), None)
    if argument is None or not (named or argument.parameter.added):
        return
    if not named and _is_made_empty(argument.passed, kernel):
        return
    argument.role, argument.direction = role, "inout"
    if not named:
        result.computes[factor] = "1"
        result.remarks.append(f"the result is added to '{argument.parameter.name}', which the kernel reads")


def _is_made_empty(passed: Value | None, kernel: SourceKernel) -> bool:
    """Whether host code makes the memory and puts nothing there before the launch: `torch::empty`."""
    machine, launch = kernel.machine, kernel.launch
    if machine is None or launch is None or not isinstance(passed, Pointer):
        return False
    made = any(one.buffer is passed.buffer and one.fill == "empty" for one in machine.tensors)
    return made and launch.contents.get(id(passed.buffer), ("", None)) == ("", None)


def mark_updated(result: CardDraft, code: str) -> None:
    """Inputs that the code stores to, where a result of the operation may take their place and has no array."""
    roles = OPERATIONS[result.operation].roles
    present = {one.role for one in result.arguments}
    inputs = {one.updates for name, one in roles.items() if one.updates and name not in present}
    _take_places(result, code, present)
    for argument in result.arguments:
        parameter = argument.parameter
        if argument.role not in inputs or argument.direction or not parameter.pointer or parameter.const:
            continue
        if may_write(code, parameter.own_name):
            argument.direction = "inout"
            result.remarks.append(f"'{parameter.own_name}' is read, and written over with what becomes of it")


def _take_places(result: CardDraft, code: str, present: Collection[str]) -> None:
    """Let outputs be the inputs that they take the place of and that have no array, where the code reads them, too."""
    roles = OPERATIONS[result.operation].roles
    for argument in result.arguments:
        known = roles.get(argument.role)
        over = known.updates if known is not None else ""
        if over not in roles or not roles[over].required or {over, TODO} & {*present} or argument.direction:
            continue
        name = argument.parameter.own_name
        if not argument.parameter.const and writes_to(code, name) and may_add_to(code, name):
            argument.role, argument.direction = over, "inout"
            result.remarks.append(f"'{name}' is read, and written over with what becomes of it")


def may_write(code: str, name: str) -> bool:
    """Whether code stores to the array of that name, or hands it to what may."""
    return writes_to(code, name) or passed_on(code, name)


def replaced_roles(
    operation: str, pointers: Sequence[DraftParameter], roles: Sequence[str | None], code: str
) -> set[str]:
    """The outputs that have no array of their own, and take the place of an input that the code stores to."""
    known = OPERATIONS[operation].roles
    over = {role for one, role in zip(pointers, roles, strict=True) if not one.const and may_write(code, one.name)}
    return {name for name, one in known.items() if one.updates and one.updates in over and name not in roles}


def updated_roles(result: CardDraft) -> set[str]:
    """The outputs that take the place of inputs."""
    over = {one.role for one in result.arguments if one.direction == "inout"}
    return {name for name, one in OPERATIONS[result.operation].roles.items() if one.updates in over}
