"""The parameters of a kernel: types as declared, what the compiler knows of them, and what pointers carry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wmmadiag.compile.ask.questions import Parameters, ParameterType, TypeOf
from wmmadiag.csource.nodes import descendants
from wmmadiag.csource.nodes import field as child
from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode.classes import bound_type, resolved_type
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.program import HostFunction
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.types import plain, scalar
from wmmadiag.hostcode.values import Pointer, Struct, Value
from wmmadiag.subject.drafts.code_facts import adds_to, card_type, cast_types, reads_one, without_comments
from wmmadiag.subject.drafts.guess import DraftParameter

if TYPE_CHECKING:
    from wmmadiag.compile.ask.answers import TypeFacts
    from wmmadiag.compile.ask.layout import ClassLayout
    from wmmadiag.subject.drafts.given_source import GivenSource


def parameters_of(machine: Machine, function: HostFunction, scope: Scope) -> list[DraftParameter]:
    found = []
    for index, one in enumerate(function.function.parameters):
        kind = resolved_type(machine, bound_type(machine, one.type, scope), scope)
        pointers = one.pointers + bool(one.dimensions) + kind.count("*")
        kind = kind.rstrip("*").strip()
        dtype, lanes = scalar(kind) if pointers <= 2 else ("", 1)
        const = "const" in one.type.split() or "const" in (scope.type(plain(one.type)) or "").split()
        found.append(
            DraftParameter(one.name or f"arg{index}", kind, pointers > 0, const, card_type(dtype), lanes or 1,
                      indirect=pointers == 2, remark="pointers to pointers" if pointers > 2 else "")
        )  # fmt: skip
    return found


def name_extents_of_accessors(machine: Machine, function: HostFunction, launch: HostLaunch) -> None:
    """The names that a kernel has for the extents of its accessors: `const int heads = q.size(1);`."""
    accessors = {
        parameter.name: value
        for parameter, value in zip(function.function.parameters, launch.arguments, strict=False)
        if isinstance(value, Struct)
    }
    body = function.function.body
    for one in descendants(body, "init_declarator") if accessors and body is not None else ():
        name, value = child(one, "declarator"), child(one, "value")
        if name is None or value is None:
            continue
        found = re.fullmatch(r"(\w+)\.size\((\d)\)", function.source.words(value).replace(" ", ""))
        cell = accessors[found[1]].members.get(f"size{found[2]}") if found and found[1] in accessors else None
        if cell is not None:
            machine.called(cell.value, function.source.text(name))


def typed(parameters: list[DraftParameter], kernel: str, source: GivenSource) -> list[DraftParameter]:
    """The parameters with the types that the compiler knows of those whose names do not tell."""
    from wmmadiag.compile.ask.elements import element

    if "{" in kernel or all(one.dtype is not None or not one.pointer or one.c_type == "void" for one in parameters):
        return parameters
    types = known_types(kernel, source)
    if types is None or len(types) != len(parameters):
        return parameters
    found = []
    for one, facts in zip(parameters, types, strict=True):
        target = element(facts) if facts.depth <= 1 + one.indirect else None
        if one.dtype is None and one.pointer and target is not None:
            dtype = {"bool": "u8"}.get(target[0], target[0])
            one = replace(one, c_type=facts.target, dtype=dtype, lanes=target[1], const=facts.const)
        found.append(one)
    return found


def known_types(kernel: str, source: GivenSource) -> Sequence[TypeFacts] | None:
    """The types of a kernel's parameters as the compiler knows it by its name expression; None where it does not."""
    from wmmadiag.compile.ask.answers import KernelParameters

    answer = source.answers([Parameters(kernel)]).get(Parameters(kernel))
    return answer.types if isinstance(answer, KernelParameters) else None


def laying(
    parameters: Sequence[DraftParameter], kernel: str, source: GivenSource
) -> Callable[[Sequence[int]], Mapping[int, ClassLayout | str]]:
    """Asks the compiler how structs lie."""

    def laid(indices: Sequence[int]) -> Mapping[int, ClassLayout | str]:
        from wmmadiag.compile.ask.answers import Unanswered
        from wmmadiag.compile.ask.layout import layouts

        roots = {index: ParameterType(kernel, index) for index in indices}
        expected: dict[ParameterType | TypeOf, str] = {root: parameters[index].c_type for index, root in roots.items()}
        try:
            found = layouts(source.compiled(), [*expected], expected)
        except WmmadiagError as error:
            return dict.fromkeys(indices, error.message)
        told = {index: found[root] for index, root in roots.items()}
        return {index: one.reason if isinstance(one, Unanswered) else one for index, one in told.items()}

    return laid


def carried(parameter: DraftParameter, passed: Value | None, code: str) -> DraftParameter:
    """A pointer that only carries narrower elements (`float4 *` for an array of half): what it is cast to, or made of.

    Without an element type where neither the kernel nor the host tells.
    """
    vector = parameter.lanes > 1 and parameter.dtype not in ("f16", "bf16")
    if not parameter.pointer or parameter.struct or not (vector or parameter.c_type == "void"):
        return parameter
    found = cast_types(code, rf"{re.escape(parameter.name)}\b")
    if len(found) == 1:
        kind, dtype = next(iter(found))
        return replace(parameter, c_type=kind, dtype=dtype, lanes=1)
    kind = passed.buffer.element if isinstance(passed, Pointer) else ""
    told, lanes = scalar(kind)
    if not told or (lanes > 1 and told not in ("f16", "bf16")):
        return replace(parameter, dtype=None)
    return replace(parameter, c_type=kind, dtype=card_type(told), lanes=lanes)


def spelled_out(code: str, scope: Scope) -> str:
    """Code with the types that an instantiation gives to names: of `static_cast<const T *>(p.q)` the element type."""
    known = {name: kind for name, kind in scope.types.items() if kind != name}
    if not known:
        return code
    return re.sub(rf"\b(?:{'|'.join(map(re.escape, known))})\b", lambda match: known[match[0]], code)


def used(parameter: DraftParameter, code: str) -> DraftParameter:
    name = parameter.own_name
    if not parameter.pointer:
        # Members are looked for in the whole source, since methods that are handed the struct read them, too.
        plain_number = parameter.dtype is not None and not parameter.value and not parameter.struct
        unread = plain_number and bool(code) and not re.search(rf"\b{re.escape(name)}\b", code)
        return replace(parameter, unread=parameter.unread or unread)
    added = not parameter.const and parameter.label != "data" and adds_to(code, name)
    single = parameter.const and bool(code) and reads_one(without_comments(code), name)
    return replace(parameter, added=added, single=single)
