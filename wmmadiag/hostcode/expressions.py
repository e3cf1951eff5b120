"""Expressions of host code: literals, operators, sizes, lists and calls."""

from __future__ import annotations

import re

from wmmadiag.csource.nodes import Node, arguments, bare, field
from wmmadiag.hostcode.evaluation import evaluate, handles
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import CONSTANTS, parsed_call, type_text
from wmmadiag.hostcode.places import operation, place_of
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ONE, ZERO, Term, combined, number
from wmmadiag.hostcode.types import bytes_of
from wmmadiag.hostcode.values import (
    Cell,
    CharacterText,
    Closure,
    HostAddress,
    Items,
    Pointer,
    TypeName,
    Unknown,
    Value,
    as_condition,
    copied,
)

_OPERATORS = {"&&": "and", "||": "or", "and": "and", "or": "or", "bitor": "|", "bitand": "&"}
_NUMBER = re.compile(
    r"([+-]?)\s*(0[xX][\da-fA-F]+|0[bB][01]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)([a-zA-Z]*)"
)


@handles("number_literal")
def _number(machine: Machine, node: Node, scope: Scope) -> Value:
    text = scope.source.text(node).replace("'", "")
    match = _NUMBER.fullmatch(text)
    if match is None:
        return Unknown(text)
    sign, digits, suffix = -1 if match[1] == "-" else 1, match[2], match[3].lower()
    if re.match(r"0[xX]|0[bB]", digits):
        return number(sign * int(digits, 0))
    if "f" in suffix or re.search(r"[.eE]", digits):
        return number(sign * float(digits))
    return number(sign * (int(digits, 8) if re.fullmatch(r"0[0-7]+", digits) else int(digits)))


@handles("true", "false", "null", "nullptr")
def _literal(machine: Machine, node: Node, scope: Scope) -> Value:
    return number(CONSTANTS.get(scope.source.text(node), 0))


@handles("char_literal")
def _character(machine: Machine, node: Node, scope: Scope) -> Value:
    text = scope.source.text(node)
    found = re.fullmatch(r"'([^\\'])'", text)
    return number(ord(found[1])) if found is not None else Unknown(text)


@handles("string_literal", "concatenated_string", "raw_string_literal")
def _string(machine: Machine, node: Node, scope: Scope) -> Value:
    return CharacterText(scope.source.text(node).strip("\"'"))


@handles("parenthesized_expression", "condition_clause")
def _parentheses(machine: Machine, node: Node, scope: Scope) -> Value:
    inner = [one for one in node.named_children if one.type not in ("comment", "init_statement", "declaration")]
    return evaluate(machine, inner[-1], scope) if inner else Unknown()


@handles("comma_expression")
def _comma(machine: Machine, node: Node, scope: Scope) -> Value:
    value: Value = Unknown()
    for one in node.named_children:
        value = evaluate(machine, one, scope)
    return value


@handles("binary_expression")
def _binary(machine: Machine, node: Node, scope: Scope) -> Value:
    left, right, sign = field(node, "left"), field(node, "right"), field(node, "operator")
    if left is None or right is None or sign is None:
        return Unknown(scope.source.words(node))
    op = scope.source.text(sign)
    if op == ">" and right.type == "parenthesized_expression" and left.end_byte == sign.start_byte:
        # `f<A<B<1>, C<2>>>(x)` is a call: the grammar takes what closes three lists for a comparison.
        return parsed_call(machine, f"{scope.source.text(left)}>", scope.source.text(right), scope)
    a, b = evaluate(machine, left, scope), evaluate(machine, right, scope)
    return operation(_OPERATORS.get(op, op), a, b, scope.source.words(node))


@handles("unary_expression")
def _unary(machine: Machine, node: Node, scope: Scope) -> Value:
    held, sign = field(node, "argument"), field(node, "operator")
    value = evaluate(machine, held, scope) if held is not None else Unknown()
    op = scope.source.text(sign) if sign is not None else ""
    if isinstance(value, Term):
        return value if op == "+" else combined({"-": "neg", "!": "not", "not": "not"}.get(op, op), value)
    if op in ("!", "not") and as_condition(value) is not value:
        return number(False)
    return Unknown(scope.source.words(node))


@handles("conditional_expression")
def _conditional(machine: Machine, node: Node, scope: Scope) -> Value:
    condition, then, other = (field(node, name) for name in ("condition", "consequence", "alternative"))
    if condition is None or then is None or other is None:
        return Unknown(scope.source.words(node))
    test = as_condition(evaluate(machine, condition, scope))
    sites = [machine.program.sites(scope.source, one) for one in (then, other)]
    if not any(sites) and machine.known(test) is None and isinstance(test, Term):
        one, another = evaluate(machine, then, scope), evaluate(machine, other, scope)
        if isinstance(one, Term) and isinstance(another, Term):
            return combined("if", test, one, another)
        return another if isinstance(one, Unknown) else one
    if not any(sites) and machine.known(test) is None:  # `argc > 1 ? atoi(argv[1]) : 4096`
        one, another = evaluate(machine, then, scope), evaluate(machine, other, scope)
        return one if machine.known(one) is not None and machine.known(another) is None else another
    taken = machine.decide((scope.source.name, node.start_byte), test, sites, (False, False))
    return evaluate(machine, (then, other)[taken], scope)


@handles("sizeof_expression")
def _sizeof(machine: Machine, node: Node, scope: Scope) -> Value:
    kind, held = field(node, "type"), field(node, "value")
    if kind is None and held is not None:
        inner = bare(held)
        if inner.type in ("identifier", "subscript_expression", "pointer_expression", "field_expression"):
            value = evaluate(machine, inner, scope)
            if isinstance(value, TypeName):
                return _size(machine, value.text, node, scope)
            cell = place_of(machine, inner, scope)
            if isinstance(value, Items) and not (cell is not None and cell.type.endswith("*")):
                size = bytes_of(value.cells[0].type) if value.cells else None
                return combined("*", number(size or 4), number(len(value.cells)))
            # An array of a function, and no pointer to it: both lead to its memory.
            if cell is not None and isinstance(value, Pointer) and cell.type == value.element and value.buffer.size:
                return value.buffer.size
            if cell is not None and cell.type:
                return _size(machine, cell.type, node, scope)
            if inner.type == "subscript_expression" or scope.source.words(inner).startswith("*"):
                whole = field(inner, "argument")
                found = evaluate(machine, whole, scope) if whole is not None else None
                if isinstance(found, Pointer) and found.element:
                    return _size(machine, found.element, node, scope)
        kind = held
    if kind is None:
        kind = next(iter(node.named_children), None)
    if kind is None:
        return Unknown(scope.source.words(node))
    return _size(machine, type_text(machine, bare(kind), scope), node, scope)


def _size(machine: Machine, kind: str, node: Node, scope: Scope) -> Value:
    seen = 0
    while bytes_of(kind) is None and seen < 6:
        alias = machine.program.aliases.get(plain_name(kind))
        if alias is None or alias.parameters or "<" in kind:
            break
        kind, seen = alias.text, seen + 1
    known = bytes_of(kind)
    return number(known) if known is not None else machine.constant(scope, node, f"sizeof({kind})")


@handles("lambda_expression")
def _lambda(machine: Machine, node: Node, scope: Scope) -> Value:
    made = Closure(node, scope)
    if machine.program.sites(scope.source, node):
        machine.waiting.setdefault((scope.source.name, node.start_byte), made)
    return made


@handles("initializer_list")
def _list(machine: Machine, node: Node, scope: Scope) -> Value:
    cells: list[Cell] = []
    for one in node.named_children:
        if one.type == "initializer_pair":
            held, name = field(one, "value"), field(one, "designator")
            if held is not None and name is not None:
                cell = Cell(evaluate(machine, held, scope), "." + scope.source.text(name).lstrip("."))
                cells.append(cell)
        elif one.type != "comment":
            cells.append(Cell(copied(evaluate(machine, one, scope))))
    return Items(cells)


@handles("compound_literal_expression")
def _compound(machine: Machine, node: Node, scope: Scope) -> Value:
    from wmmadiag.hostcode.classes import constructed

    kind, listed = field(node, "type"), field(node, "value")
    held = evaluate(machine, listed, scope) if listed is not None else Items([])
    values = [one.value for one in held.cells] if isinstance(held, Items) else [held]
    return constructed(machine, type_text(machine, kind, scope) if kind else "", values, scope, node, braces=True)


@handles("new_expression")
def _new(machine: Machine, node: Node, scope: Scope) -> Value:
    kind, declarator = field(node, "type"), field(node, "declarator")
    element = type_text(machine, kind, scope) if kind is not None else ""
    size: Value = ONE
    if declarator is not None:
        inner = list(declarator.named_children)
        size = evaluate(machine, inner[0], scope) if inner else ONE
        each = bytes_of(element)
        total = combined("*", size, number(each)) if isinstance(size, Term) and each else None
        return Pointer(machine.buffer("", total, element), ZERO, element)
    from wmmadiag.hostcode.classes import constructed

    listed = field(node, "arguments")
    values = [evaluate(machine, one, scope) for one in listed.named_children] if listed is not None else []
    return HostAddress(Cell(constructed(machine, element, values, scope, node)))


@handles("call_expression")
def _call(machine: Machine, node: Node, scope: Scope) -> Value:
    from wmmadiag.hostcode.calls import call

    return call(machine, node, scope)


def argument_values(machine: Machine, node: Node, scope: Scope) -> list[Value]:
    """The values of a call's arguments; packs are spread."""
    found: list[Value] = []
    for one in arguments(node):
        if one.type == "parameter_pack_expansion":
            inner = field(one, "pattern") or next(iter(one.named_children), None)
            value = evaluate(machine, inner, scope) if inner is not None else Unknown()
            if inner is not None and inner.type == "call_expression":  # std::forward<Args>(args)...
                value = next((evaluate(machine, each, scope) for each in arguments(inner)), value)
            found += [cell.value for cell in value.cells] if isinstance(value, Items) else [value]
        else:
            found.append(evaluate(machine, one, scope))
    return found
