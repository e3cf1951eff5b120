"""Statements of host code: what runs, in which order, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from wmmadiag.csource.nodes import Node, bare, descendants, field, operands
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable, declared
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.classes import constructed, default_value
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.machine import Machine, PathEnd
from wmmadiag.hostcode.names import parsed_expression, type_text
from wmmadiag.hostcode.places import assigned, converted, place_of
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Term, number
from wmmadiag.hostcode.types import bytes_of, plain
from wmmadiag.hostcode.values import Cell, Items, Pointer, Unknown, Value, as_condition, copied


@dataclass(frozen=True, slots=True)
class Returned:
    """A function returned this."""

    value: Value


Signal: TypeAlias = Returned | str | None
"""How a statement ended: "break", "continue", a return, or None for going on."""
Runner: TypeAlias = Callable[[Machine, "Node", Scope], Signal]
_RUNNERS: dict[str, Runner] = {}
_ENDING = frozenset({"exit", "_exit", "abort", "quick_exit", "terminate", "__builtin_trap"})


def runs(*types: str) -> Callable[[Runner], Runner]:
    def register(runner: Runner) -> Runner:
        _RUNNERS.update(dict.fromkeys(types, runner))
        return runner

    return register


def execute(machine: Machine, node: Node, scope: Scope) -> Signal:
    """Run one statement.

    Raises:
        PathEnd: it ends the program.
    """
    runner = _RUNNERS.get(node.type)
    return None if runner is None else runner(machine, node, scope)


def _in_order(machine: Machine, nodes: Iterator[Node] | list[Node], scope: Scope) -> Signal:
    for one in nodes:
        machine.step()
        signal = execute(machine, one, scope)
        if signal is not None:
            return signal
    return None


@runs("compound_statement", "translation_unit", "declaration_list", "else_clause", "labeled_statement", "ERROR")
def _block(machine: Machine, node: Node, scope: Scope) -> Signal:
    return _in_order(machine, node.named_children, scope.inner() if node.type == "compound_statement" else scope)


@runs("expression_statement", "init_statement")
def _expression(machine: Machine, node: Node, scope: Scope) -> Signal:
    for one in node.named_children:
        if one.type == "declaration":
            execute(machine, one, scope)
        else:
            evaluate(machine, one, scope)
    return None


@runs("declaration")
def _declaration(machine: Machine, node: Node, scope: Scope) -> Signal:
    bound = next((one for one in node.named_children if _binds(one)), None)
    if bound is not None:
        _structured_binding(machine, bound, scope)
        return None
    for variable in declared(scope.source, node):
        declare(machine, variable, scope)
    for one in node.children_by_field_name("declarator"):
        if one.type == "function_declarator":
            _vexing(machine, node, one, scope)
        elif one.type == "init_declarator" and (inner := field(one, "declarator")) is not None:
            _function_pointer(machine, one, inner, scope)
    return None


def _function_pointer(machine: Machine, node: Node, declarator: Node, scope: Scope) -> None:
    """`void (*kernel)(int) = mm<64>;`."""
    name = next(descendants(declarator, "identifier"), None)
    given = field(node, "value")
    if declarator.type == "function_declarator" and name is not None and given is not None:
        scope.variables[scope.source.text(name)] = Cell(evaluate(machine, given, scope))


def _vexing(machine: Machine, node: Node, declarator: Node, scope: Scope) -> None:
    """`dim3 grid(blocks, heads);` in a function: the grammar takes it for the declaration of a function."""
    name, listed, kind = field(declarator, "declarator"), field(declarator, "parameters"), field(node, "type")
    if name is None or listed is None or kind is None or name.type != "identifier":
        return
    values = [parsed_expression(machine, scope.source.words(one), scope) for one in listed.named_children]
    own = type_text(machine, kind, scope)
    called = scope.source.text(name)
    scope.variables[called] = Cell(Unknown(called), own)
    scope.variables[called].value = assigned(machine, called, own, constructed(machine, own, values, scope, None))


def declare(machine: Machine, variable: Variable, scope: Scope) -> None:
    """A variable of a function with its first value."""
    kind = type_text(machine, variable.node.child_by_field_name("type") or variable.node, scope)
    kind = ("const " if "const" in variable.type.split() else "") + kind + "*" * variable.pointers
    if variable.reference and variable.value is not None and not variable.dimensions:
        cell = place_of(machine, variable.value, scope)
        if cell is not None:
            scope.variables[variable.name] = cell
            return
    scope.variables[variable.name] = Cell(Unknown(variable.name), kind)
    value = initial_value(machine, variable, scope, kind)
    scope.variables[variable.name].value = value


def initial_value(machine: Machine, variable: Variable, scope: Scope, kind: str = "", *, named: bool = True) -> Value:
    """What a variable holds after its declaration; `named`: whether a plain number of it is a size of its name."""
    kind = kind or variable.type + "*" * variable.pointers
    given = variable.value
    if variable.dimensions:
        return _array(machine, variable, scope, kind)
    if given is None:
        return default_value(machine, kind, variable.name, scope)
    if given.type in ("argument_list", "initializer_list"):
        values = [evaluate(machine, one, scope) for one in given.named_children if one.type != "comment"]
        braces = given.type == "initializer_list"
        if braces and any(one.type == "initializer_pair" for one in given.named_children):
            held = evaluate(machine, given, scope)
            value: Value = constructed(machine, kind, [held], scope, given, braces=True)
        else:
            value = constructed(machine, kind, values, scope, given, braces=braces)
    else:
        value = copied(evaluate(machine, given, scope))
    if isinstance(value, Unknown) and "constexpr" in variable.words:
        value = machine.constant(scope, given) if given.type not in ("argument_list", "initializer_list") else value
    if isinstance(value, Items) and plain(kind) not in ("auto",) and not variable.dimensions:
        value = constructed(machine, kind, [one.value for one in value.cells], scope, given, braces=True)
    return assigned(machine, variable.name, kind, value) if named else converted(value, kind)


def _array(machine: Machine, variable: Variable, scope: Scope, kind: str) -> Value:
    """An array of a function: its elements where they are known, else memory."""
    extents = [evaluate(machine, one, scope) for one in variable.dimensions if one is not None]
    count: Term | None = terms.ONE
    for one in extents:
        count = terms.combined("*", count, one) if isinstance(one, Term) and count is not None else None
    known = machine.known(count) if len(extents) == len(variable.dimensions) == 1 else None
    given = Items([])
    if variable.value is not None and variable.value.type in ("initializer_list", "argument_list"):
        found = evaluate(machine, variable.value, scope)
        given = found if isinstance(found, Items) else given
        for cell in given.cells:
            cell.type = kind
            if isinstance(cell.value, Items):
                held = [one.value for one in cell.value.cells]
                cell.value = constructed(machine, kind, held, scope, None, braces=True)
        if isinstance(found, Items) and (not isinstance(known, int) or len(given.cells) >= known):
            return given
    if isinstance(known, int) and 0 < known <= 16:
        rest = range(len(given.cells), known)
        return Items([*given.cells, *(Cell(default_value(machine, kind, variable.name, scope), kind) for _ in rest)])

    each = bytes_of(kind)
    size = terms.combined("*", count, number(each)) if count is not None and each else None
    return Pointer(machine.buffer(variable.name, size, kind), terms.ZERO, kind)


def _binds(node: Node) -> bool:
    """`[a, b] = …`."""
    inner = field(node, "declarator") if node.type == "init_declarator" else None
    while inner is not None and inner.type == "reference_declarator":
        inner = next(iter(inner.named_children), None)
    return inner is not None and inner.type == "structured_binding_declarator"


def _structured_binding(machine: Machine, node: Node, scope: Scope) -> None:
    bound = next(descendants(node, "structured_binding_declarator"))
    names = [scope.source.text(one) for one in bound.named_children if one.type == "identifier"]
    given = field(node, "value")
    value = evaluate(machine, given, scope) if given is not None else Unknown()
    cells = value.cells if isinstance(value, Items) else list(getattr(value, "members", {}).values())
    for index, name in enumerate(names):
        cell = Cell(cells[index].value if index < len(cells) else Unknown(name))
        machine.called(cell.value, name)
        scope.variables[name] = cell


@runs("alias_declaration", "type_definition")
def _alias(machine: Machine, node: Node, scope: Scope) -> Signal:
    name, kind = field(node, "name"), field(node, "type")
    if node.type == "alias_declaration" and name is not None and kind is not None:
        scope.types[scope.source.text(name)] = type_text(machine, kind, scope)
    elif kind is not None:
        for one in declared(scope.source, node):
            scope.types[one.name] = type_text(machine, kind, scope) + "*" * one.pointers
    return None


@runs("if_statement")
def _if(machine: Machine, node: Node, scope: Scope) -> Signal:
    condition, then, other = (field(node, name) for name in ("condition", "consequence", "alternative"))
    inner = scope.inner()
    if condition is None or then is None:
        return None
    test = _condition(machine, condition, inner)
    if isinstance(test, Unknown) and any(one.type == "constexpr" for one in node.children):
        test = machine.constant(inner, bare(condition))
    sites = [machine.program.sites(scope.source, one) for one in (then, other)]
    ends = [_ends(scope, one) for one in (then, other)]
    if other is None and not any(sites) and ends[0]:
        # A check that ends the program: what it asks for holds.
        known = machine.known(test)
        # No program is run without the arguments that it asks for.
        if not known or (isinstance(test, Term) and "argc" in terms.symbols(test)):
            if isinstance(test, Term):
                machine.facts.append((test, False))
            return None
    if other is None and not any(sites) and machine.known(test) is None:
        return None
    taken = machine.decide((scope.source.name, node.start_byte), test, sites, ends)
    branch = (then, other)[taken]
    null = _null_in(scope.source, condition, taken == 0)
    seen = inner.variable(null) if null else None
    if seen is not None and isinstance(seen.value, Pointer):  # what launches here is given none
        (scope if branch is None else inner).variables[null] = Cell(number(0), seen.type)
    return None if branch is None else execute(machine, branch, inner)


def _null_in(source: Source, condition: Node, holds: bool) -> str:
    """The variable that is null where a condition holds, or does not: `p`, `!p`, `p == nullptr`; "" for none."""
    node = bare(condition)
    while node.type == "condition_clause" and (value := field(node, "value")) is not None:
        node = bare(value)
    sign, left, right = operands(node)
    if sign in ("==", "!=") and source.text(bare(right)) in ("nullptr", "NULL"):
        node, holds = bare(left), holds != (sign == "==")
    elif node.type == "unary_expression" and (negated := field(node, "argument")) is not None:
        if not source.text(node).startswith("!"):
            return ""
        node, holds = bare(negated), not holds
    return source.text(node) if node.type == "identifier" and not holds else ""


def _condition(machine: Machine, node: Node, scope: Scope) -> Value:
    for one in node.named_children:
        if one.type in ("init_statement", "declaration"):
            execute(machine, one, scope)
    value = node.child_by_field_name("value")
    if value is not None and value.type == "declaration":
        named = next(declared(scope.source, value), None)
        held = named is not None and named.name in scope.variables
        return as_condition(scope.variables[named.name].value) if named is not None and held else Unknown()
    return as_condition(evaluate(machine, value if value is not None else node, scope))


def _ends(scope: Scope, node: Node | None) -> bool:
    """Whether a branch only leaves: it returns, throws or exits at its end."""
    if node is None:
        return False
    last = node
    while last.type in ("compound_statement", "else_clause"):
        inner = [one for one in last.named_children if one.type != "comment"]
        if not inner:
            return False
        last = inner[-1]
    if last.type in ("return_statement", "throw_statement", "continue_statement"):
        return True
    if last.type == "expression_statement" and last.named_children:
        one = last.named_children[0]
        called = field(one, "function") if one.type == "call_expression" else None
        return one.type == "throw_expression" or (
            called is not None and scope.source.words(called).rpartition("::")[2] in _ENDING
        )
    return False


@runs("switch_statement")
def _switch(machine: Machine, node: Node, scope: Scope) -> Signal:
    condition, body = field(node, "condition"), field(node, "body")
    if condition is None or body is None:
        return None
    value = _condition(machine, condition, scope)
    cases = [one for one in body.named_children if one.type == "case_statement"]
    keys: list[Value | None] = []
    for one in cases:
        given = field(one, "value")
        keys.append(evaluate(machine, given, scope) if given is not None else None)
    sites = [machine.program.sites(scope.source, one) for one in cases]
    taken = machine.choose((scope.source.name, node.start_byte), keys, value, sites)
    if not 0 <= taken < len(cases):
        return None
    inner = scope.inner()
    for one in cases[taken:]:
        given = field(one, "value")
        statements = [child for child in one.named_children if given is None or child.start_byte != given.start_byte]
        signal = _in_order(machine, statements, inner)
        if signal is not None:
            return None if signal == "break" else signal
    return None


@runs("return_statement")
def _return(machine: Machine, node: Node, scope: Scope) -> Signal:
    given = next((one for one in node.named_children if one.type != "comment"), None)
    return Returned(evaluate(machine, given, scope) if given is not None else Unknown())


@runs("break_statement")
def _break(machine: Machine, node: Node, scope: Scope) -> Signal:
    return "break"


@runs("continue_statement")
def _continue(machine: Machine, node: Node, scope: Scope) -> Signal:
    return "continue"


@runs("throw_statement")
def _throw(machine: Machine, node: Node, scope: Scope) -> Signal:
    raise PathEnd


@runs("try_statement")
def _try(machine: Machine, node: Node, scope: Scope) -> Signal:
    body = field(node, "body")
    return execute(machine, body, scope) if body is not None else None
