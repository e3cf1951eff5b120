"""Places in host code: what can be assigned to, what is at an address, and a value as a type holds it."""

from __future__ import annotations

from wmmadiag.csource.nodes import Node, bare, field
from wmmadiag.hostcode.evaluation import evaluate, handles
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import global_cell, type_text
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ONE, ZERO, Term, combined, number
from wmmadiag.hostcode.types import bytes_of, is_integer, is_real, plain, pointee, scalar
from wmmadiag.hostcode.values import (
    Cell,
    CharacterText,
    Closure,
    FunctionName,
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
)


def place_of(machine: Machine, node: Node, scope: Scope) -> Cell | None:
    """The variable, member or element that an expression names; None where it is none."""
    node = bare(node)
    if node.type == "identifier":
        return scope.variable(scope.source.text(node)) or global_cell(machine, scope.source.text(node), scope)
    if node.type == "field_expression":
        held, name = field(node, "argument"), field(node, "field")
        whole = evaluate(machine, held, scope) if held is not None else None
        if isinstance(whole, HostAddress):
            whole = whole.cell.value
        if isinstance(whole, Struct) and name is not None:
            return whole.members.setdefault(scope.source.text(name), Cell(Unknown(scope.source.words(node))))
        return None
    if node.type == "pointer_expression" and scope.source.text(node)[:1] == "*":
        held = field(node, "argument")
        whole = evaluate(machine, held, scope) if held is not None else None
        return whole.cell if isinstance(whole, HostAddress) else None
    if node.type == "subscript_expression":
        return _element(machine, node, scope)
    return None


def _element(machine: Machine, node: Node, scope: Scope) -> Cell | None:
    held, index = field(node, "argument"), _index(node)
    whole = evaluate(machine, held, scope) if held is not None else None
    where = machine.known(evaluate(machine, index, scope)) if index is not None else None
    if isinstance(whole, Items) and isinstance(where, int) and 0 <= where < len(whole.cells):
        return whole.cells[where]
    if isinstance(whole, Items) and where is None and whole.cells:
        return whole.cells[0]  # a table of choices: the first stands for all
    return None


def _index(node: Node) -> Node | None:
    listed = field(node, "indices") or field(node, "index")
    if listed is None:
        return None
    return listed.named_children[0] if listed.type == "subscript_argument_list" and listed.named_children else listed


@handles("subscript_expression")
def _subscript(machine: Machine, node: Node, scope: Scope) -> Value:
    held, index = field(node, "argument"), _index(node)
    whole = evaluate(machine, held, scope) if held is not None else None
    where = evaluate(machine, index, scope) if index is not None else None
    if isinstance(whole, Items) and isinstance(where, Term):
        known = machine.known(where) or 0  # of a table of choices the first stands for all
        if isinstance(known, int) and whole.cells:
            return whole.cells[max(-len(whole.cells), min(known, len(whole.cells) - 1))].value
    if isinstance(whole, Pointer) and isinstance(where, Term) and scalar(whole.element)[0]:
        return machine.loaded(whole, where)
    return Unknown(scope.source.words(node))


@handles("field_expression")
def _field(machine: Machine, node: Node, scope: Scope) -> Value:
    held, name = field(node, "argument"), field(node, "field")
    whole = evaluate(machine, held, scope) if held is not None else Unknown()
    if isinstance(whole, HostAddress):
        whole = whole.cell.value
    text = scope.source.text(name) if name is not None else ""
    if isinstance(whole, Struct):
        if text in whole.members:
            return whole.members[text].value
        from wmmadiag.hostcode.classes import static_member

        found = static_member(machine, whole.type, text, node, scope)
        if found is not None:
            return found
    if isinstance(whole, Items) and text in ("x", "y", "z"):
        return whole.cells["xyz".index(text)].value if len(whole.cells) > "xyz".index(text) else ONE
    return Unknown(scope.source.words(node))


@handles("this")
def _this(machine: Machine, node: Node, scope: Scope) -> Value:
    return HostAddress(Cell(scope.this)) if scope.this is not None else Unknown("this")


def operation(op: str, a: Value, b: Value, text: str) -> Value:
    """An operator on two values."""
    if isinstance(a, Term) and isinstance(b, Term):
        return combined(op, a, b)
    if isinstance(a, Pointer) and isinstance(b, Term) and op in ("+", "-"):
        return Pointer(a.buffer, combined(op, a.offset, b), a.element)
    if isinstance(b, Pointer) and isinstance(a, Term) and op == "+":
        return Pointer(b.buffer, combined(op, b.offset, a), b.element)
    if op in ("==", "!=") and isinstance(a, CharacterText | TypeName) and type(a) is type(b):
        return number((a == b) is (op == "=="))
    if (
        op in ("==", "!=")
        and isinstance(a, Pointer | HostAddress | KernelName | Closure)
        and b in (ZERO, number(False))
    ):
        return number(op == "!=")
    if op in ("and", "or"):
        known = [one for one in (a, b) if isinstance(one, Term)]
        if len(known) == 1 and known[0].op == "number" and bool(known[0].args[0]) is (op == "or"):
            return known[0]
    return Unknown(text)


@handles("pointer_expression")
def _pointer(machine: Machine, node: Node, scope: Scope) -> Value:
    held = field(node, "argument")
    if held is None:
        return Unknown()
    if scope.source.text(node)[:1] == "&":
        value = evaluate(machine, held, scope)
        if isinstance(value, KernelName | FunctionName):
            return value
        if bare(held).type == "subscript_expression":
            element = bare(held)
            inner, index = field(element, "argument"), _index(element)
            whole = evaluate(machine, inner, scope) if inner is not None else None
            where = evaluate(machine, index, scope) if index is not None else None
            if isinstance(whole, Pointer) and isinstance(where, Term):
                return Pointer(whole.buffer, combined("+", whole.offset, where), whole.element)
        cell = place_of(machine, held, scope)
        return HostAddress(cell) if cell is not None else Unknown(scope.source.words(node))
    value = evaluate(machine, held, scope)
    if isinstance(value, HostAddress):
        return value.cell.value
    known = KernelName | FunctionName | Closure | Tensor | Term  # the last two of what is optional
    return value if isinstance(value, known) else Unknown(scope.source.words(node))


@handles("assignment_expression")
def _assignment(machine: Machine, node: Node, scope: Scope) -> Value:
    left, right, sign = field(node, "left"), field(node, "right"), field(node, "operator")
    if left is None or right is None:
        return Unknown()
    value = evaluate(machine, right, scope)
    op = scope.source.text(sign)[:-1] if sign is not None else ""
    if op:
        value = operation(op, evaluate(machine, left, scope), value, scope.source.words(node))
    cell = place_of(machine, left, scope)
    if cell is None:
        _stored(machine, left, value, scope)
        return value
    name = scope.source.text(left) if left.type == "identifier" else ""
    name = name or plain_name(scope.source.words(left).replace(".", "::"))
    if isinstance(value, Items) and isinstance(cell.value, Struct | Unknown):
        from wmmadiag.hostcode.classes import constructed

        kind = cell.type or (cell.value.type if isinstance(cell.value, Struct) else "")
        value = constructed(machine, kind, [one.value for one in value.cells], scope, node, braces=True)
    cell.value = copied(assigned(machine, name, cell.type, value))
    return cell.value


def assigned(machine: Machine, name: str, kind: str, value: Value) -> Value:
    """A value as a variable of a type holds it; a plain number in an integer is a size of the variable's name."""
    if kind and not isinstance(value, Items):
        value = converted(value, kind)
    whole = value.args[0] if isinstance(value, Term) and value.op == "number" else None
    if type(whole) is int and whole and (is_integer(kind) or plain(kind) == "auto"):
        return machine.symbol(name, whole)
    if isinstance(value, Unknown) and is_integer(kind) and name and value.text != name:
        return machine.symbol(name)  # whatever it is, other expressions are over it
    machine.called(value, name)
    return value


def _stored(machine: Machine, left: Node, value: Value, scope: Scope) -> None:
    """An element of memory is given a value."""
    left = bare(left)
    inner = field(left, "argument")
    whole = evaluate(machine, inner, scope) if inner is not None else None
    if not isinstance(whole, Pointer):
        return
    index = _index(left) if left.type == "subscript_expression" else None
    where = evaluate(machine, index, scope) if index is not None else ZERO
    whole.buffer.content = whole.buffer.content or "values"
    if isinstance(where, Term):
        machine.stores.append((whole.buffer, combined("+", whole.offset, where), value))


@handles("update_expression")
def _update(machine: Machine, node: Node, scope: Scope) -> Value:
    held = field(node, "argument")
    cell = place_of(machine, held, scope) if held is not None else None
    text = scope.source.text(node)
    if cell is None:
        return Unknown(text)
    before = cell.value
    cell.value = operation("+" if "++" in text else "-", before, ONE, text)
    return cell.value if text[:1] in "+-" else before


def recast(pointer: Pointer, element: str) -> Pointer:
    """A pointer to the same place, of another element type."""
    own, new = bytes_of(pointer.element), bytes_of(element)
    if element == "void" or element == pointer.element:
        return pointer
    offset = pointer.offset
    if own and new and own != new and offset != ZERO:
        offset = combined("/", combined("*", offset, number(own)), number(new))
    if not pointer.buffer.element or pointer.buffer.element in ("void", "char"):
        pointer.buffer.element = element
    return Pointer(pointer.buffer, offset, element)


def converted(value: Value, kind: str) -> Value:
    """A value as another type."""
    if isinstance(value, Term):
        if is_real(kind):
            return combined("float", value)
        if plain(kind) == "bool":
            return combined("bool", value)
        return combined("int", value) if value.real and is_integer(kind) else value
    if isinstance(value, Pointer) and (inner := pointee(kind)):
        return recast(value, inner)
    return value


@handles("cast_expression")
def _cast(machine: Machine, node: Node, scope: Scope) -> Value:
    kind, held = field(node, "type"), field(node, "value")
    if kind is None or held is None:
        return Unknown(scope.source.words(node))
    return converted(evaluate(machine, held, scope), type_text(machine, kind, scope))
