"""Launches of host code: kernels with their geometry, their arguments, and the types that calls leave to be deduced."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.csource.nodes import Node, bare
from wmmadiag.csource.variables import Variable
from wmmadiag.hostcode.classes import bind_parameters, from_braces
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.events import HostLaunch
from wmmadiag.hostcode.expressions import argument_values
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.places import converted, recast
from wmmadiag.hostcode.program import HostFunction, plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ZERO, Term
from wmmadiag.hostcode.types import bytes_of, plain
from wmmadiag.hostcode.values import (
    Buffer,
    Cell,
    Closure,
    HostAddress,
    Items,
    KernelName,
    Pointer,
    Struct,
    Tensor,
    TypeName,
    Unknown,
    Value,
    copied,
    dim3,
)


def deduce(found: HostFunction, values: Sequence[Value], cells: Sequence[Cell | None], scope: Scope) -> None:
    """Template parameters from the types of arguments."""
    open_ones = {
        one.name
        for one in found.function.template or ()
        if one.type == "typename" and one.name not in scope.types and not one.pack
    }
    for parameter, value, cell in zip(found.function.parameters, values, cells, strict=False):
        name = plain(parameter.type)
        if name not in open_ones:
            continue
        kind = ""
        if isinstance(value, Pointer) and parameter.pointers:
            kind = value.element
        elif isinstance(value, Pointer):
            kind = value.element + "*"
        elif cell is not None and not parameter.pointers and not isinstance(value, KernelName | Closure):
            kind = plain(cell.type)
        elif isinstance(value, Struct):
            kind = value.type
        if kind and kind != "auto":
            scope.types[name] = plain(kind)
            scope.bindings[name] = plain(kind)
            open_ones.discard(name)


def launched(machine: Machine, node: Node, called: Node, chevrons: Node, scope: Scope) -> Value:
    """`kernel<<<grid, block, shared, stream>>>(arguments)`."""
    kernel = evaluate(machine, bare(called), scope)
    if isinstance(kernel, HostAddress):
        kernel = kernel.cell.value
    configuration = [evaluate(machine, one, scope) for one in chevrons.named_children if one.type != "comment"]
    grid, block, *rest = [*configuration, ZERO, ZERO][: max(2, len(configuration))]
    values = argument_values(machine, node, scope)
    if isinstance(kernel, KernelName):
        record_launch(machine, kernel, grid, block, rest[0] if rest else ZERO, values, called, scope)
    return Unknown()


def as_dim3(value: Value) -> Struct:
    """A grid or a block as `dim3`."""
    if isinstance(value, Struct) and {"x", "y", "z"} <= set(value.members):
        return value.copy()
    if isinstance(value, Items):
        return dim3([one.value for one in value.cells])
    return dim3([value])


def record_launch(
    machine: Machine,
    kernel: KernelName,
    grid: Value,
    block: Value,
    shared: Value,
    values: Sequence[Value],
    node: Node,
    scope: Scope,
    *,
    cooperative: bool = False,
) -> None:
    """Note a launch."""
    contents = {id(one): (one.content, one.copied) for value in values for one in _buffers(value)}
    held = tuple(copied(one.cell.value if isinstance(one, HostAddress) else one) for one in values)
    held = tuple(_passed(machine, kernel, index, one) for index, one in enumerate(held))
    root = scope
    while root.parent is not None:
        root = root.parent
    launch = HostLaunch(
        _deduced(machine, kernel, held),
        as_dim3(grid),
        as_dim3(block),
        shared,
        held,
        scope.source.place(node),
        scope.function,
        machine.root,
        tuple(machine.facts),
        contents,
        cooperative,
        _numbers(scope),
        machine.repeating > 0,
    )
    if machine.further_turn:
        machine.further.append(launch)
        return
    machine.launches.append(launch)
    machine.events.append(launch)
    for value, parameter in zip(held, _parameters(machine, kernel), strict=False):
        if isinstance(value, Pointer) and "const" not in parameter.type.split():
            value.buffer.content, value.buffer.copied = "computed", None


def _numbers(scope: Scope) -> dict[str, Term]:
    """The numbers that the function around has by name, the inner one of two."""
    found: dict[str, Term] = {}
    one: Scope | None = scope
    while one is not None and one.function == scope.function:
        for name, cell in one.variables.items():
            if isinstance(cell.value, Term):
                found.setdefault(name, cell.value)
        one = one.parent
    return found


def _parameters(machine: Machine, kernel: KernelName) -> Sequence[Variable]:
    found = machine.program.kernels(plain_name(kernel.name))
    return found[0].function.parameters if found else ()


def _passed(machine: Machine, kernel: KernelName, index: int, value: Value) -> Value:
    """An argument as the kernel's parameter takes it."""
    parameters = _parameters(machine, kernel)
    if index >= len(parameters):
        return value
    parameter = parameters[index]
    if isinstance(value, Items) and not parameter.pointers:
        scope = Scope(machine.program.kernels(plain_name(kernel.name))[0].source)
        return from_braces(machine, parameter.type, value, scope)
    if isinstance(value, Term):
        return converted(value, parameter.type)
    if isinstance(value, Pointer) and parameter.pointers == 1 and bytes_of(plain(parameter.type)):
        return recast(value, plain(parameter.type))
    return value


def _deduced(machine: Machine, kernel: KernelName, values: Sequence[Value]) -> KernelName:
    """A kernel's name with the template arguments that its call leaves to be deduced."""
    found = machine.program.kernels(plain_name(kernel.name))
    template = found[0].function.template if found else None
    if not template or len(kernel.arguments) >= len(template):
        return kernel
    scope = Scope(found[0].source)
    given = [TypeName(one) for one in kernel.arguments]
    bind_parameters(machine, template[: len(given)], given, scope)
    deduce(found[0], values, [None] * len(values), scope)
    arguments_ = list(kernel.arguments)
    for one in template[len(given) :]:
        if one.name not in scope.types:
            break
        arguments_.append(scope.types[one.name])
    return KernelName(kernel.name, tuple(arguments_), kernel.place)


def _buffers(value: Value) -> list[Buffer]:
    if isinstance(value, Pointer):
        return [value.buffer]
    if isinstance(value, Tensor):
        return [value.buffer]
    if isinstance(value, Struct):
        return [each for cell in value.members.values() for each in _buffers(cell.value)]
    return []
