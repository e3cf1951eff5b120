"""The numbers that a kernel's code knows by name: template parameters, constants of the files, members of classes."""

from __future__ import annotations

import re

from wmmadiag.hostcode.classes import chosen_class, class_scope, static_member
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import global_cell
from wmmadiag.hostcode.program import HostFunction
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Number
from wmmadiag.hostcode.types import plain, split_template


def known_constants(machine: Machine, function: HostFunction, scope: Scope, code: str) -> dict[str, Number]:
    """Numbers that the kernel's code knows by name: template parameters, constants, members of classes."""
    found: dict[str, Number] = {}
    for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", code)):
        cell = scope.variables.get(name) or global_cell(machine, name, scope)
        known = machine.known(cell.value) if cell is not None else None
        if known is not None:
            found[name] = known
    for one in function.function.template or ():
        cell = scope.variables.get(one.name)
        known = machine.known(cell.value) if cell is not None else None
        if known is not None:
            found[one.name] = known
        elif one.name in scope.types:
            members = _members_of(machine, scope.types[one.name], scope)
            found |= members | {f"{one.name}::{name}": number for name, number in members.items()}
    return found


def file_constants(machine: Machine, scope: Scope) -> dict[str, Number]:
    """The numbers among the constants of the files."""
    found: dict[str, Number] = {}
    macros = [name for name, one in machine.program.macros.items() if one.parameters is None and one.body]
    for name in (*machine.program.variables, *macros):
        cell = global_cell(machine, name, scope) if not name.startswith("__") else None
        known = machine.known(cell.value) if cell is not None else None
        if known is not None:
            found[name] = known
    return found


def _members_of(machine: Machine, kind: str, scope: Scope) -> dict[str, Number]:
    """The static constants of a class of constants, `Traits<64, 32>`."""

    classes = machine.program.classes.get(split_template(plain(kind))[0].rpartition("::")[2])
    if not classes:
        return {}
    one = chosen_class(classes, kind)
    inner = class_scope(machine, one, plain(kind), scope)
    found = {}
    for name, cell in inner.variables.items():
        known = machine.known(cell.value)
        if known is not None:
            found[name] = known
    for member in one.record.members:
        if {"static", "constexpr"} & member.words:
            value = static_member(machine, kind, member.name, one.record.node, scope)
            known = machine.known(value)
            if known is not None:
                found[member.name] = known
    return found


def threads_along_x(launch: HostLaunch | None, machine: Machine) -> int:
    """The threads of a block along x; 0 where they are not known."""
    cell = launch.block.members.get("x") if launch is not None else None
    return int((machine.known(cell.value) if cell is not None else None) or 0)
