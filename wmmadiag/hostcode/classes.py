"""Objects of host code: construction, members, static constants of class templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmmadiag.csource.declarations import TemplateParameter
from wmmadiag.csource.nodes import Node, descendants, field
from wmmadiag.csource.variables import Variable
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.evaluation import evaluate
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.names import parsed_expression, template_text, template_values, type_text
from wmmadiag.hostcode.places import assigned, converted
from wmmadiag.hostcode.program import Class, plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Term, number
from wmmadiag.hostcode.types import bytes_of, is_integer, is_real, plain, split_template
from wmmadiag.hostcode.values import Cell, FunctionName, Items, Pointer, Struct, TypeName, Unknown, Value, copied, dim3

_VECTORS = ("std::vector", "vector", "thrust::device_vector", "thrust::host_vector", "device_vector", "host_vector",
            "std::array", "array", "thrust::universal_vector")  # fmt: skip
DIMENSIONS = ("dim3", "uint3", "int3")
_DEEPEST = 12


def default_value(machine: Machine, kind: str, name: str, scope: Scope) -> Value:
    """What a variable of a type holds that is given nothing."""
    own = resolved_type(machine, kind, scope)
    if own.endswith("*"):
        return Pointer(machine.buffer(name, None, own[:-1].strip()), terms.ZERO, own[:-1].strip())
    head = split_template(own)[0]
    if own in DIMENSIONS:
        return dim3()
    if head in _VECTORS:
        return _vector(machine, own, [], name)
    if head.rpartition("::")[2] in machine.program.classes:
        return constructed(machine, own, [], scope, None)
    if own in ("auto", "bool", "") or bytes_of(own) is not None or is_real(own):
        return Unknown(name)
    return constructed(machine, own, [], scope, None)


def resolved_type(machine: Machine, kind: str, scope: Scope) -> str:
    """A type with aliases replaced by what they stand for."""
    own = plain(kind)
    for _ in range(_DEEPEST):
        stars = len(own) - len(own.rstrip("*"))
        head, arguments = split_template(own.rstrip("*").strip())
        name = head.rpartition("::")[2]
        meant = scope.type(head)
        if meant is not None and meant != head:
            own = plain(meant) + "*" * stars
            continue
        if bytes_of(head) is not None or name in machine.program.classes:
            break
        alias = machine.program.aliases.get(name)
        if alias is None or plain(alias.text) == own:
            break
        text = alias.text
        if alias.parameters:
            inner = Scope(scope.source)
            inner.types.update(zip(alias.parameters, arguments, strict=False))
            text = _with_types(text, inner.types)
        own = plain(text) + "*" * stars
    return own


def bound_type(machine: Machine, text: str, scope: Scope) -> str:
    """A type's text with what names in it stand for: "Accessor<T, D>" → "Accessor<half, 4>"."""
    import re

    def meant(match: re.Match[str]) -> str:
        own = scope.type(match[0])
        if own is not None:
            return own
        cell = scope.variable(match[0])
        known = machine.known(cell.value) if cell is not None else None
        return match[0] if known is None else ("false", "true")[known] if isinstance(known, bool) else str(known)

    return re.sub(r"(?<![\w:])[A-Za-z_]\w*", meant, text)


def _with_types(text: str, types: Mapping[str, str]) -> str:
    import re

    return re.sub(r"(?<![\w:])[A-Za-z_]\w*", lambda match: types.get(match[0], match[0]), text)


def constructed(
    machine: Machine, kind: str, values: Sequence[Value], scope: Scope, node: Node | None, *, braces: bool = False
) -> Value:
    """`T(values…)` or `T{values…}`."""
    own = resolved_type(machine, kind, scope)
    head, _ = split_template(own)
    if own in DIMENSIONS or own.rpartition("::")[2] in DIMENSIONS:
        return dim3(values)
    if own.endswith("*") or bytes_of(own) is not None or is_real(own) or own in ("auto", "bool", ""):
        if not values:
            return number(0) if not own.endswith("*") else Unknown("nullptr")
        return converted(values[0], own) if len(values) == 1 else Items([Cell(one) for one in values])
    if head in _VECTORS:
        return _vector(machine, own, values, "", braces)
    found = machine.program.classes.get(head.rpartition("::")[2])
    if not found:
        if len(values) == 1 and isinstance(values[0], Struct) and values[0].type == own:
            return values[0].copy()
        from wmmadiag.hostcode.library import made

        answer = made(machine, own, values, node, scope)
        return answer if answer is not None else Struct(own, {})
    if len(values) == 1 and isinstance(values[0], Struct) and plain_name(values[0].type) == plain_name(own):
        return values[0].copy()
    return _object(machine, chosen_class(found, own), own, values, scope)


def from_braces(machine: Machine, kind: str, items: Items, scope: Scope) -> Value:
    """What `{2, 3}` makes that is passed for a parameter: an object's members, or elements."""
    named = any(one.type.startswith(".") for one in items.cells)
    head = split_template(resolved_type(machine, kind, scope))[0].rpartition("::")[2]
    values = [one.value for one in items.cells] if head in machine.program.classes and not named else [items]
    return constructed(machine, kind, values, scope, None, braces=True)


def chosen_class(found: Sequence[Class], kind: str) -> Class:
    """The specialisation with these very arguments, else the template."""
    own = plain(kind)
    exact = next((one for one in found if plain(one.record.name) == own), None)
    return exact or next((one for one in found if "<" not in one.record.name), found[0])


def class_scope(machine: Machine, one: Class, kind: str, scope: Scope) -> Scope:
    """The scope of a class's body, its template parameters bound."""
    inner = Scope(one.source)
    bind_parameters(machine, one.record.template or (), arguments_of(machine, kind, scope), inner)
    body = field(one.record.node, "body")
    for alias in body.named_children if body is not None else ():
        name, held = field(alias, "name"), field(alias, "type")
        if alias.type == "alias_declaration" and name is not None and held is not None:
            inner.types[one.source.text(name)] = type_text(machine, held, inner)
    inner.function = one.record.qualified
    return inner


def arguments_of(machine: Machine, kind: str, scope: Scope) -> tuple[Value, ...]:
    """The values of the template arguments in a type's text."""
    found: list[Value] = []
    for text in split_template(plain(kind))[1]:
        value: Value = TypeName(text)
        if bytes_of(text) is None and not text.endswith("*"):
            answer = parsed_expression(machine, text, scope)
            value = answer if isinstance(answer, Term | TypeName) else value
        found.append(value)
    return tuple(found)


def bind_parameters(
    machine: Machine, parameters: Sequence[TemplateParameter], values: Sequence[Value], scope: Scope
) -> None:
    """Give template parameters their arguments in a scope, or their defaults."""
    given = list(values)
    for one in parameters:
        if one.pack:
            rest, given = given, []
            scope.variables[one.name] = Cell(Items([Cell(value) for value in rest]))
            continue
        if given:
            value = given.pop(0)
        elif one.default:
            value = default_argument(machine, one, scope)
        else:
            continue
        if one.type in ("typename", "template") and isinstance(value, TypeName | Unknown):
            scope.types[one.name] = value.text
        else:
            scope.variables[one.name] = Cell(value, one.type)
        scope.bindings[one.name] = template_text(machine, value)


def default_argument(machine: Machine, parameter: TemplateParameter, scope: Scope) -> Value:
    """What a template parameter is that is given nothing."""
    value = parsed_expression(machine, parameter.default, scope)
    if isinstance(value, Unknown) and parameter.type in ("typename", "template"):
        return TypeName(parameter.default)
    return value


def _object(machine: Machine, one: Class, kind: str, values: Sequence[Value], scope: Scope) -> Value:
    """An object of a class of the program's own."""
    inner = class_scope(machine, one, kind, scope)
    made = Struct(kind, {})
    inner.this = made
    if machine.depth > _DEEPEST:
        return made
    machine.depth += 1
    try:
        for base in _bases(machine, one, inner):
            for name, cell in base.members.items():
                made.members.setdefault(name, cell)
        for member in one.record.members:
            if "static" in member.words:
                continue
            from wmmadiag.hostcode.statements import initial_value

            cell = made.members[member.name] = Cell(Unknown(member.name), member.type + "*" * member.pointers)
            unnamed = None if member.pointers else _unnamed_class(machine, one, member)
            if unnamed is not None:
                cell.value = _object(machine, unnamed, "", (), inner)
            elif member.value is not None or member.dimensions:
                cell.value = initial_value(machine, member, inner)
            elif cell.type.endswith("*") or not is_integer(cell.type):
                cell.value = default_value(machine, cell.type, member.name, inner)
        constructors = [
            each
            for each in machine.program.functions.get(plain_name(one.record.name), ())
            if each.function.scope.rpartition("::")[2] == plain_name(one.record.name)
            and len(each.function.parameters) >= len(values) > 0
        ]
        if constructors:
            from wmmadiag.hostcode.calls import run_function

            run_function(machine, constructors[0], list(values), (), inner, this=made)
        else:
            _filled(machine, made, values)
    finally:
        machine.depth -= 1
    return made


def _unnamed_class(machine: Machine, one: Class, member: Variable) -> Class | None:
    """`struct { int rows, columns; } shape;` as a member."""
    kind = field(member.node, "type")
    if kind is None or field(kind, "body") is None or field(kind, "name") is not None:
        return None
    unnamed = machine.program.classes.get("", ())
    return next(
        (each for each in unnamed if each.source is one.source and each.record.node.start_byte == kind.start_byte), None
    )


def _bases(machine: Machine, one: Class, scope: Scope) -> list[Struct]:
    clause = next((child for child in one.record.node.named_children if child.type == "base_class_clause"), None)
    found = []
    for base in clause.named_children if clause is not None else ():
        if base.type in ("type_identifier", "template_type", "qualified_identifier"):
            value = constructed(machine, type_text(machine, base, scope), [], scope, None)
            if isinstance(value, Struct):
                found.append(value)
    return found


def _filled(machine: Machine, made: Struct, values: Sequence[Value]) -> None:
    """The members of an aggregate, in order or by name."""
    if len(values) == 1 and isinstance(values[0], Items) and any(one.type.startswith(".") for one in values[0].cells):
        for cell in values[0].cells:
            name = cell.type.lstrip(".")
            if name in made.members:
                made.members[name].value = assigned(machine, name, made.members[name].type, cell.value)
        return
    for (name, cell), value in zip(made.members.items(), values, strict=False):
        if isinstance(value, Items) and isinstance(cell.value, Struct):
            _filled(machine, cell.value, [one.value for one in value.cells])
        else:
            cell.value = assigned(machine, name, cell.type, copied(value))


def _vector(machine: Machine, kind: str, values: Sequence[Value], name: str, braces: bool = False) -> Value:
    """`std::vector<T> v(n, x)` is memory; `{a, b, c}` are elements."""
    _, arguments = split_template(kind)
    element = arguments[0] if arguments else ""
    single = len(values) == 1 and (isinstance(values[0], Items) or not is_integer(element))
    if braces and values and not single:
        return Items([Cell(one, element) for one in values])
    if values and isinstance(values[0], Items):
        return values[0]
    count = values[0] if values else None
    if len(arguments) > 1 and kind.startswith(("std::array", "array")) and arguments[1].isdecimal():
        count = number(int(arguments[1]))
    each = bytes_of(element)
    size = terms.combined("*", count, number(each)) if isinstance(count, Term) and each else None
    buffer = machine.buffer(name, size, element)
    if count is not None:
        filled = values[1] if len(values) > 1 else number(0)
        buffer.content = "zero" if machine.known(filled) == 0 else "set"
    return Struct(kind, {".data": Cell(Pointer(buffer, terms.ZERO, element)), ".size": Cell(count or number(0))})


def static_member(machine: Machine, kind: str, name: str, node: Node, scope: Scope) -> Value | None:
    """`Traits<64>::kBlockM`: a constant, an enumerator, a type or a function of a class; None where it has no such."""
    own = resolved_type(machine, kind, scope)
    head = split_template(own)[0].rpartition("::")[2]
    found = machine.program.classes.get(head)
    if not found or machine.depth > _DEEPEST:
        return None
    one = chosen_class(found, own)
    machine.depth += 1
    try:
        inner = class_scope(machine, one, own, scope)
        if name in inner.types:
            return TypeName(inner.types[name])
        member = next((each for each in one.record.members if each.name == name), None)
        if member is not None and member.value is not None and {"static", "constexpr"} & member.words:
            from wmmadiag.hostcode.statements import initial_value

            value = initial_value(machine, member, with_members(machine, one, inner), named=False)
            if isinstance(value, Unknown):
                value = machine.constant(scope, node, f"{own}::{name}")
            return value
        body = field(one.record.node, "body")
        for each in descendants(body, "enumerator") if body is not None else ():
            called, given = field(each, "name"), field(each, "value")
            if called is not None and given is not None and one.source.text(called) == name:
                return evaluate(machine, given, inner)
        methods = tuple(
            each for each in machine.found(name) if each.function.scope.rpartition("::")[2].partition("<")[0] == head
        )
        if methods:
            held = Struct(own, {}) if scope.this is None else scope.this
            arguments: tuple[Value, ...] = ()
            if node.type in ("template_function", "template_method"):
                arguments = template_values(machine, field(node, "arguments"), scope)
            return FunctionName(methods, arguments, Struct(own, dict(held.members)))
        clause = next((each for each in one.record.node.named_children if each.type == "base_class_clause"), None)
        for base in clause.named_children if clause is not None else ():
            if base.type in ("type_identifier", "template_type", "qualified_identifier"):
                answer = static_member(machine, type_text(machine, base, inner), name, node, inner)
                if answer is not None:
                    return answer
    finally:
        machine.depth -= 1
    return None


def with_members(machine: Machine, one: Class, scope: Scope) -> Scope:
    """A class's scope in which its static constants are found when they are asked for."""
    from wmmadiag.hostcode.statements import initial_value

    for member in one.record.members:
        if member.value is not None and {"static", "constexpr"} & member.words and member.name not in scope.variables:
            cell = scope.variables[member.name] = Cell(Unknown(member.name), member.type)
            cell.value = initial_value(machine, member, scope, named=False)
    return scope
