"""Calls in host code: launches, functions of the program, lambdas, and what libraries do."""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.csource.nodes import Node, arguments, field
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.hostcode.classes import (
    DIMENSIONS,
    bind_parameters,
    chosen_class,
    class_scope,
    constructed,
    from_braces,
    static_member,
    with_members,
)
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.expressions import argument_values
from wmmadiag.hostcode.launching import deduce, launched
from wmmadiag.hostcode.library import function_of, method_of
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import template_values, type_text
from wmmadiag.hostcode.places import assigned, converted, place_of
from wmmadiag.hostcode.program import HostFunction, plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Term
from wmmadiag.hostcode.types import bytes_of, plain, pointee
from wmmadiag.hostcode.values import (
    Cell,
    Closure,
    FunctionName,
    HostAddress,
    Items,
    KernelName,
    Pointer,
    Struct,
    TypeName,
    Unknown,
    Value,
    copied,
)

_CASTS = ("static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "safe_cast", "bit_cast")


def call(machine: Machine, node: Node, scope: Scope) -> Value:
    """A call, a construction that looks like one, or a launch."""
    machine.step()
    called = field(node, "function")
    if called is None:
        return Unknown(scope.source.words(node))
    chevrons = next((one for one in node.children if one.type == "kernel_call_syntax"), None)
    if chevrons is not None:
        return launched(machine, node, called, chevrons, scope)
    if called.type == "template_function":
        cast = _cast(machine, node, called, scope)
        if cast is not None:
            return cast
    if called.type == "field_expression":
        return _method(machine, node, called, scope)
    target = evaluate(machine, called, scope)
    if isinstance(target, HostAddress):
        target = target.cell.value
    if isinstance(target, KernelName) and (named := machine.host_functions(plain_name(target.name))):
        target = FunctionName(named)  # without <<<…>>> it is no kernel that is called
    if isinstance(target, Closure):
        values = argument_values(machine, node, scope)
        return run_closure(machine, target, values, _cells(machine, node, scope))
    if isinstance(target, FunctionName) and (answer := _called(machine, node, target, scope)) is not None:
        return answer
    if isinstance(target, Unknown | TypeName | FunctionName):
        name = plain_name(scope.source.words(called))
        model = function_of(name)
        if model is not None:
            return model(machine, node, scope)
        if isinstance(target, TypeName) or bytes_of(scope.source.words(called)) is not None:
            values = argument_values(machine, node, scope)
            kind = target.text if isinstance(target, TypeName) else scope.source.words(called)
            return constructed(machine, kind, values, scope, node)
        if name in machine.program.classes or name in DIMENSIONS or scope.type(name) is not None:
            kind = type_text(machine, called, scope)
            return constructed(machine, kind, argument_values(machine, node, scope), scope, node)
    return unknown_call(machine, node, scope)


def _called(machine: Machine, node: Node, target: FunctionName, scope: Scope) -> Value | None:
    """What a function of the program returns, or a constructor makes; None where none takes so many arguments."""
    values = argument_values(machine, node, scope)
    if _constructs(target):
        return constructed(machine, target.found[0].function.name, values, scope, node)
    found = _overload(target.found, len(values), len(target.arguments))
    if found is None:
        return None
    return run_function(machine, found, values, target.arguments, scope, _cells(machine, node, scope), target.this)


def _constructs(called: FunctionName) -> bool:
    """Whether what is called is a constructor: `Shape(2, 3)` as a value of its own."""
    return bool(called.found) and all(
        one.function.scope.rpartition("::")[2].partition("<")[0] == one.function.name for one in called.found
    )


def unknown_call(machine: Machine, node: Node, scope: Scope) -> Value:
    """A call of what nobody knows: lambdas that it is given run once."""
    for value in argument_values(machine, node, scope):
        if isinstance(value, Closure):
            run_closure(machine, value, [], [])
    return Unknown(scope.source.words(node))


def _cells(machine: Machine, node: Node, scope: Scope) -> list[Cell | None]:
    """The variables that a call's arguments name, for parameters that are references; of `scalar_t{}` one that says its
    type, which its value does not."""
    found: list[Cell | None] = []
    for one in arguments(node):
        kind = field(one, "type") if one.type == "compound_literal_expression" else None
        if kind is not None:
            found.append(Cell(evaluate(machine, one, scope), type_text(machine, kind, scope)))
        else:
            found.append(place_of(machine, one, scope) if one.type in ("identifier", "field_expression") else None)
    return found


def _cast(machine: Machine, node: Node, called: Node, scope: Scope) -> Value | None:
    name, listed = field(called, "name"), field(called, "arguments")
    if name is None or scope.source.text(name) not in _CASTS or listed is None:
        return None
    kinds = [one for one in listed.named_children if one.type != "comment"]
    values = argument_values(machine, node, scope)
    return converted(values[0], type_text(machine, kinds[0], scope)) if values and kinds else None


def _method(machine: Machine, node: Node, called: Node, scope: Scope) -> Value:
    held, name_node = field(called, "argument"), field(called, "field")
    whole = evaluate(machine, held, scope) if held is not None else Unknown()
    if isinstance(whole, HostAddress):
        whole = whole.cell.value
    if name_node is None or held is None:
        return Unknown(scope.source.words(node))
    explicit: tuple[Value, ...] = ()
    if name_node.type in ("template_method", "template_function"):
        explicit = template_values(machine, field(name_node, "arguments"), scope)
        name_node = field(name_node, "name") or name_node
    name = scope.source.text(name_node)
    if isinstance(whole, Struct):
        own = whole.members.get(name)
        if own is not None and isinstance(own.value, Closure):
            return run_closure(machine, own.value, argument_values(machine, node, scope), [])
        found = static_member(machine, whole.type, name, called, scope)
        if isinstance(found, FunctionName):
            values = argument_values(machine, node, scope)
            chosen = _overload(found.found, len(values), len(explicit))
            if chosen is not None:
                return run_function(machine, chosen, values, explicit, scope, _cells(machine, node, scope), whole)
    model = method_of(name)
    if model is not None:
        answer = model(machine, whole, node, scope)
        if answer is not None:
            return answer
    return unknown_call(machine, node, scope)


def _overload(found: Sequence[HostFunction], count: int, explicit: int) -> HostFunction | None:
    """The function that takes so many arguments and explicit template arguments."""
    open_ones = [one for one in found if one.function.body is not None]
    fitting = []
    for one in open_ones:
        parameters = one.function.parameters
        required = sum(each.value is None and not _is_pack(each) for each in parameters)
        packed = any(_is_pack(each) for each in parameters)
        if required <= count and (packed or count <= len(parameters)):
            fitting.append(one)
    fitting.sort(key=lambda one: len(one.function.template or ()) < explicit)
    return next(iter(fitting), None) or next(iter(open_ones), None)


def _is_pack(parameter: Variable) -> bool:
    return parameter.node.type.startswith("variadic")


def run_function(
    machine: Machine,
    found: HostFunction,
    values: Sequence[Value],
    explicit: Sequence[Value],
    scope: Scope,
    cells: Sequence[Cell | None] = (),
    this: Struct | None = None,
) -> Value:
    """Run a function of the program: what it returns.

    Args:
        cells: the variables that the arguments name, None where they name none.
        this: the object that a method is called on.
    """
    from wmmadiag.hostcode.statements import Returned, execute

    function = found.function
    inner = Scope(found.source, function=function.qualified)
    owner = function.scope.rpartition("::")[2].partition("<")[0]
    classes = machine.program.classes.get(owner, ())
    if classes:
        kind = this.type if this is not None and plain_name(this.type) == owner else owner
        own = chosen_class(classes, kind)
        inner = Scope(found.source, with_members(machine, own, class_scope(machine, own, kind, scope)), this=this)
        inner.function = function.qualified
    values, cells = list(values), [*cells, *[None] * (len(values) - len(cells))]
    bind_parameters(machine, function.template or (), explicit, inner)
    deduce(found, values, cells, inner)
    machine.depth += 1
    try:
        _bind(machine, found, values, cells, inner)
        for one in _initialisers(function.node):
            _initialised(machine, one, inner, this)
        signal = execute(machine, function.body, inner) if function.body is not None else None
    finally:
        machine.depth -= 1
    return signal.value if isinstance(signal, Returned) else Unknown()


def _initialisers(node: Node) -> list[Node]:
    """The member initialisers of a constructor."""
    listed = next((one for one in node.named_children if one.type == "field_initializer_list"), None)
    return [] if listed is None else [one for one in listed.named_children if one.type == "field_initializer"]


def _initialised(machine: Machine, node: Node, scope: Scope, this: Struct | None) -> None:
    named = [one for one in node.named_children if one.type != "comment"]
    if this is None or len(named) < 2:
        return
    name = scope.source.text(named[0])
    values = [evaluate(machine, one, scope) for one in named[1].named_children if one.type != "comment"]
    cell = this.members.setdefault(name, Cell(Unknown(name)))
    value = constructed(machine, cell.type, values, scope, node) if cell.type else next(iter(values), Unknown(name))
    cell.value = assigned(machine, name, cell.type, value)


def _bind(
    machine: Machine, found: HostFunction, values: Sequence[Value], cells: Sequence[Cell | None], scope: Scope
) -> None:
    owner = found.function.scope.rpartition("::")[2].partition("<")[0]
    launches = bool(machine.program.sites(found.source, found.function.body)) or owner in machine.program.classes
    for index, parameter in enumerate(found.function.parameters):
        kind = parameter.type + "*" * parameter.pointers
        if _is_pack(parameter):
            rest = [Cell(copied(one)) for one in values[index:]]
            scope.variables[parameter.name] = Cell(Items(rest))
            return
        if index < len(values):
            cell = cells[index]
            if parameter.reference and cell is not None and "const" not in parameter.type.split():
                scope.variables[parameter.name] = cell
                continue
            value = values[index]
            if parameter.pointers == 0 and isinstance(value, Items) and not parameter.dimensions:
                value = from_braces(machine, kind, value, scope)
        elif parameter.value is not None:
            value = evaluate(machine, parameter.value, scope)
        else:
            value = Unknown(parameter.name)
        if parameter.dimensions and isinstance(value, Pointer):
            kind = f"{kind}*"
        own = type_text_of(kind, scope)
        # The parameters of a helper, `ceil_div(int a, int b)`, are no names of what it is called with.
        held = assigned(machine, parameter.name, own, value) if launches else converted(value, own)
        scope.variables[parameter.name] = Cell(copied(held), own)


def type_text_of(kind: str, scope: Scope) -> str:
    """A type's text with the names that stand for others in a scope replaced."""
    inner = pointee(kind)
    stars = ""
    while inner:
        kind, stars = inner, stars + "*"
        inner = pointee(kind)
    own = scope.type(plain(kind))
    return (own or kind) + stars


def run_closure(machine: Machine, closure: Closure, values: Sequence[Value], cells: Sequence[Cell | None]) -> Value:
    """Run a lambda: what it returns."""
    from wmmadiag.hostcode.statements import Returned, execute

    body = field(closure.node, "body")
    inner = closure.scope.inner()
    machine.waiting.pop((inner.source.name, closure.node.start_byte), None)
    launches = bool(machine.program.sites(inner.source, body))
    declarator = field(closure.node, "declarator")
    listed = field(declarator, "parameters") if declarator is not None else None
    position = 0
    for one in listed.named_children if listed is not None else ():
        for parameter in declared(inner.source, one, "parameter"):
            if _is_pack(parameter):
                inner.variables[parameter.name] = Cell(Items([Cell(each) for each in values[position:]]))
                continue
            value = values[position] if position < len(values) else Unknown(parameter.name)
            cell = cells[position] if position < len(cells) else None
            kind = parameter.type + "*" * parameter.pointers
            if cell is not None and plain(kind) == "auto" and isinstance(value, Term) and cell.type:
                kind = cell.type
            if parameter.reference and cell is not None and "const" not in parameter.type.split():
                inner.variables[parameter.name] = cell
            else:
                held = assigned(machine, parameter.name, kind, value) if launches else converted(value, kind)
                inner.variables[parameter.name] = Cell(copied(held), kind)
            position += 1
    machine.depth += 1
    try:
        machine.step()
        signal = execute(machine, body, inner) if body is not None else None
    finally:
        machine.depth -= 1
    return signal.value if isinstance(signal, Returned) else Unknown()
