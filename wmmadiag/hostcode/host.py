"""Runs of host code: from its functions to the launches that they make, over every branch that may make another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import wmmadiag.hostcode.loops  # noqa: F401 - what runs them is registered
from wmmadiag.csource.declarations import TemplateParameter
from wmmadiag.csource.nodes import Node, descendants, field
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.calls import run_closure, run_function
from wmmadiag.hostcode.classes import bind_parameters, constructed, default_argument, resolved_type
from wmmadiag.hostcode.events import Event, HostLaunch
from wmmadiag.hostcode.machine import Machine, PathEnd, SupposedAnswer
from wmmadiag.hostcode.names import template_values
from wmmadiag.hostcode.program import HostFunction, HostProgram, Site, plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.types import is_integer, is_real, plain, split_template
from wmmadiag.hostcode.values import Cell, HostAddress, Items, Pointer, Struct, TypeName, Unknown, Value

_MOST_INSTANCES = 6  # instantiations of one function template that are run
_MOST_RUNS = 48
_DEEPEST_AGAIN = 12  # decisions before one whose branches launch the same


@dataclass(frozen=True, slots=True)
class HostRun:
    """What one run of a function met."""

    machine: Machine  # with the launches, the usual values of symbols, and their names
    complete: bool  # whether it came to its end

    @property
    def launches(self) -> Sequence[HostLaunch]:
        """In their order."""
        return self.machine.launches

    @property
    def events(self) -> Sequence[Event]:
        """Launches and products of libraries, in their order."""
        return self.machine.events


def runs(
    program: HostProgram,
    answer: SupposedAnswer | None = None,
    multiplied: Sequence[str] = (),
    types: Mapping[str, str] = MappingProxyType({}),
    only: str = "",
) -> tuple[HostRun, ...]:
    """Runs that together make every launch which the host code can make, as far as it is understood.

    `main` comes first: what it launches has sizes. Then come functions that nobody calls, then what is left.

    Args:
        answer: asks the compiler for the values of constant expressions.
        multiplied: C types that tensor-core operations of the source name.
        types: what parameters of function templates that nobody instantiates stand for, by name.
        only: the qualified name of the one function to run.
    """
    covered: set[Site] = set()
    found: list[HostRun] = []
    for root in _roots(program):
        if only and root.function.qualified != only:
            continue
        sites = program.sites(root.source, root.function.body)
        if sites <= covered:
            continue
        before = frozenset(covered)
        for instance in range(min(max(1, len(_instantiations(program, root))), _MOST_INSTANCES)):
            for one in _runs_of(program, root, answer, multiplied, types, before, instance):
                covered |= one.machine.sites
                found.append(one)
    return tuple(found)


def _roots(program: HostProgram) -> Iterator[HostFunction]:
    """Host functions in the order in which they are worth running."""
    every = list(program.host_functions())
    called: set[str] = set()
    for one in every:
        for node in descendants(one.function.node, "identifier", "field_identifier"):
            name = (node.text or b"").decode("utf-8", "replace")
            if name != one.function.name:
                called.add(name)

    def rank(one: HostFunction) -> tuple[bool, bool, bool]:
        return one.function.name != "main", one.function.name in called, bool(one.function.template)

    return iter(sorted(every, key=rank))


def _runs_of(
    program: HostProgram,
    root: HostFunction,
    answer: SupposedAnswer | None,
    multiplied: Sequence[str],
    types: Mapping[str, str],
    covered: Collection[Site],
    instance: int,
) -> Iterator[HostRun]:
    """Runs of one function: as its conditions usually are, then for every branch that may launch something else.

    Args:
        instance: which of the instantiations that the source asks for.

    Last come branches that launch the same with other template arguments, of which each may make one of its own.
    """
    waiting: list[tuple[int, ...]] = [()]
    later: list[tuple[int, ...]] = []
    tried: set[tuple[int, ...]] = set()
    seen = set(covered)
    gone: set[tuple[Site, int]] = set()
    made: set[tuple[str, tuple[str, ...]]] = set()
    while (waiting or later) and len(tried) < _MOST_RUNS:
        again = not waiting
        script = (later if again else waiting).pop(0)
        if script in tried or (again and len(script) > _DEEPEST_AGAIN):
            continue
        tried.add(script)
        name = root.function.qualified
        machine = Machine(
            program, script, answer=answer, multiplied=multiplied, types=types, root=name, instance=instance
        )
        complete = _run(machine, root)
        seen |= machine.sites
        named = {(one.kernel.name, one.kernel.arguments) for one in machine.launches}
        if not again or named - made:
            yield HostRun(machine, complete)
        made |= named
        taken = tuple(one.taken for one in machine.decisions)
        gone |= {(one.place, one.taken) for one in machine.decisions}
        for position, decision in enumerate(machine.decisions):
            for number, sites in decision.others.items() if position >= len(script) else ():
                if sites - seen and (decision.place, number) not in gone:
                    gone.add((decision.place, number))
                    waiting.append((*taken[:position], number))
            for number in decision.alike if position >= len(script) and any(one for _, one in named) else ():
                if (decision.place, number) not in gone:
                    gone.add((decision.place, number))
                    later.append((*taken[:position], number))


def _run(machine: Machine, root: HostFunction) -> bool:
    scope = Scope(root.source)
    function = root.function
    try:
        explicit = _instantiated(machine, root, scope) or _template_arguments(machine, function.template or (), scope)
        typed = Scope(root.source)
        bind_parameters(machine, function.template or (), explicit, typed)
        values = [parameter_value(machine, one, typed, function.name == "main") for one in function.parameters]
        run_function(machine, root, values, explicit, scope, this=_object_of(machine, root, scope))
        _call_back(machine)
    except PathEnd:
        return False
    except RecursionError:
        return False
    return True


def _call_back(machine: Machine) -> None:
    """Run the lambdas that somebody else calls: a table of kernels, a benchmark."""
    while machine.waiting:
        closure = machine.waiting.pop(next(iter(machine.waiting)))
        declarator = field(closure.node, "declarator")
        listed = field(declarator, "parameters") if declarator is not None else None
        parameters = [
            one
            for node in (listed.named_children if listed is not None else ())
            for one in declared(closure.scope.source, node, "parameter")
        ]
        values = [parameter_value(machine, one, closure.scope, False) for one in parameters]
        run_closure(machine, closure, values, [])


def _object_of(machine: Machine, root: HostFunction, scope: Scope) -> Struct | None:
    """The object whose method a run begins with, its members as if they were parameters."""
    owner = root.function.scope.rpartition("::")[2].partition("<")[0]
    if owner not in machine.program.classes:
        return None
    found = _symbolic(machine, owner, owner, scope)
    return found if isinstance(found, Struct) else None


def _instantiations(program: HostProgram, root: HostFunction) -> list[Node]:
    """The instantiations of a function template that the source asks for: `template void launch<half>(…);`."""
    found = []
    for one in program.instantiations(root.source) if root.function.template else ():
        declarator = next(descendants(one, "function_declarator"), None)
        called = field(declarator, "declarator") if declarator is not None else None
        if declarator is not None and called is not None and _plain(root, called) == root.function.name:
            found.append(declarator)
    return found


def _plain(root: HostFunction, called: Node) -> str:
    return plain_name(root.source.words(called))


def _instantiated(machine: Machine, root: HostFunction, scope: Scope) -> list[Value]:
    """The arguments of the instantiation that is run; none where the source asks for none."""
    for declarator in _instantiations(machine.program, root)[machine.instance :]:
        named = next(descendants(declarator, "template_function"), None)
        if named is not None and named.end_byte <= _end_of_name(declarator):
            return list(template_values(machine, field(named, "arguments"), scope))
        return _deduced(root, field(declarator, "parameters"))
    return []


def _end_of_name(declarator: Node) -> int:
    called = field(declarator, "declarator")
    return called.end_byte if called is not None else 0


def _deduced(root: HostFunction, listed: Node | None) -> list[Value]:
    """The template arguments that the types of an instantiation's parameters tell: `template void f(const A&);`."""
    nodes = [one for one in listed.named_children if "parameter" in one.type] if listed is not None else []
    types: dict[str, str] = {}
    for parameter, node in zip(root.function.parameters, nodes, strict=False):
        kind = field(node, "type")
        if kind is not None:
            types.setdefault(plain(parameter.type), root.source.words(kind))
    template = root.function.template or ()
    told = [types.get(one.name, "") for one in template]
    return [TypeName(one) for one in told] if all(told) else []


def _template_arguments(machine: Machine, template: Sequence[TemplateParameter], scope: Scope) -> list[Value]:
    """What is taken for the parameters of a template that nobody instantiates, defaults behind the last one aside."""
    open_ones = [index for index, one in enumerate(template) if not one.default]
    return [
        default_argument(machine, one, scope) if one.default else _template_argument(machine, one.name, one.type)
        for one in template[: max(open_ones, default=-1) + 1]
    ]


def _template_argument(machine: Machine, name: str, kind: str) -> Value:
    if kind == "bool" or is_integer(kind):
        return machine.symbol(name)
    if name in machine.types:
        return TypeName(machine.types[name])
    if kind == "typename" and len(machine.multiplied) == 1:
        return TypeName(machine.multiplied[0])
    return Unknown(name)


def parameter_value(machine: Machine, parameter: Variable, scope: Scope, program: bool) -> Value:
    """What a function gets that nobody calls here."""
    name, kind = parameter.name, plain(parameter.type)
    if program:
        if is_integer(kind) and not parameter.pointers:
            machine.names[name], machine.usual[name] = [name], 1
            return terms.symbol(name)
        return Unknown(name)
    if parameter.pointers or parameter.dimensions:
        return _memory(machine, parameter)
    return _symbolic(machine, name, kind, scope)


def _memory(machine: Machine, parameter: Variable) -> Value:
    kind = plain(parameter.type)
    if parameter.pointers == 1 and kind in machine.program.classes:
        return HostAddress(
            Cell(_symbolic(machine, parameter.name, kind, Scope(machine.program.classes[kind][0].source)))
        )
    element = kind + "*" * (parameter.pointers - 1)
    return Pointer(machine.buffer(parameter.name, None, element), terms.ZERO, element)


def _symbolic(machine: Machine, name: str, kind: str, scope: Scope) -> Value:
    from wmmadiag.hostcode.library.torch import tensor

    own = resolved_type(machine, kind, scope)
    head, inner = split_template(own)
    if head.rpartition("::")[2] == "optional" and inner:  # what may be left out is there
        return _symbolic(machine, name, inner[0], scope)
    head = head.rpartition("::")[2]
    if is_integer(own) or own == "bool":
        return machine.symbol(name)
    if is_real(own):
        found = machine.symbol(name)
        return terms.Term("symbol", found.args, real=True)
    if head == "Tensor":
        return tensor(machine, name)
    if own.endswith("*"):
        return Pointer(machine.buffer(name, None, own[:-1]), terms.ZERO, own[:-1])
    if head in ("vector", "ArrayRef", "IntArrayRef"):
        return Items([])
    if head in machine.program.classes:
        made = constructed(machine, own, [], scope, None)
        if isinstance(made, Struct):
            for member, cell in made.members.items():
                if isinstance(cell.value, Unknown | Struct) or cell.type.endswith("*"):
                    cell.value = _symbolic(machine, member, cell.type, scope)
        return made
    if head == "dim3":
        return Unknown(name)
    return Unknown(name)
