"""Names in host code: variables, constants, kernels, functions, types, and template arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from wmmadiag.csource.nodes import Node, descendants, field
from wmmadiag.csource.tree import parse
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.evaluation import evaluate, handles
from wmmadiag.hostcode.machine import Machine
from wmmadiag.hostcode.program import plain_name
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import ONE, ZERO, Term, combined, number
from wmmadiag.hostcode.types import bytes_of, plain, split_template
from wmmadiag.hostcode.values import Cell, CharacterText, FunctionName, KernelName, Struct, TypeName, Unknown, Value

# <climits>, <cmath>, <cfloat>, math_constants.h.
CONSTANTS = {
    "INFINITY": float("inf"), "HUGE_VALF": float("inf"), "CUDART_INF_F": float("inf"), "M_LOG2E": 1.4426950408889634,
    "CUDART_L2E_F": 1.4426950408889634, "M_LN2": 0.6931471805599453, "M_PI": 3.141592653589793, "true": True,
    "false": False, "NULL": 0, "nullptr": 0, "FLT_MAX": 3.4028234663852886e38, "INT_MAX": 2**31 - 1,
    "C10_WARP_SIZE": 32,
    "M_SQRT1_2": 0.7071067811865476, "cudaSuccess": 0, "CUBLAS_STATUS_SUCCESS": 0, "EXIT_SUCCESS": 0,
    "EXIT_FAILURE": 1,
}  # fmt: skip


def parsed_expression(machine: Machine, text: str, scope: Scope) -> Value:
    """The value of an expression that stands in no file of the program: a macro's, a template argument."""
    source = parse(f"auto x = {text};", scope.source.name)
    held = next((one for one in source.root.named_children if one.type == "declaration"), None)
    declarator = field(held, "declarator") if held is not None else None
    value = field(declarator, "value") if declarator is not None else None
    if value is None or source.root.has_error:
        return Unknown(text)
    inner = scope.inner(source)
    return evaluate(machine, value, inner)


def parsed_call(machine: Machine, called: str, given: str, scope: Scope) -> Value:
    """What `called(given)` returns, where template arguments of what is called are templates themselves.

    These are types of names of their own in it, so that the grammar has no lists within lists to tell from comparisons.
    """
    head, arguments = split_template(called)
    inner = scope.inner()
    names = []
    for at, one in enumerate(arguments):
        source = parse(f"using x = {one};", scope.source.name)
        alias = next(descendants(source.root, "type_descriptor"), None)
        if "<" in one and alias is not None and not source.root.has_error:
            names.append(f"argument_{at}")
            inner.types[names[-1]] = type_text(machine, alias, scope.inner(source))
        else:
            names.append(one)
    return parsed_expression(machine, f"{head}<{', '.join(names)}>{given}", inner)


def global_cell(machine: Machine, name: str, scope: Scope) -> Cell | None:
    """A variable, an enumerator or a macro of the file; evaluated when it is first asked for."""
    if name in machine.globals:
        return machine.globals[name]
    from wmmadiag.hostcode.statements import initial_value

    outer = scope
    while outer.parent is not None:
        outer = outer.parent
    if name in machine.program.variables:
        source, variable = machine.program.variables[name]
        cell = machine.globals[name] = Cell(Unknown(name), variable.type + "*" * variable.pointers)
        cell.value = initial_value(machine, variable, Scope(source))
        return cell
    if name in machine.program.enumerators:
        source, node = machine.program.enumerators[name]
        machine.globals[name] = Cell(Unknown(name))
        given = field(node, "value")
        if given is not None:
            value = evaluate(machine, given, Scope(source))
        else:
            before = node.prev_named_sibling
            while before is not None and before.type != "enumerator":
                before = before.prev_named_sibling
            named = field(before, "name") if before is not None else None
            earlier = global_cell(machine, source.text(named), scope) if named is not None else None
            value = ZERO if before is None else Unknown(name)
            if earlier is not None and isinstance(earlier.value, Term):
                value = combined("+", earlier.value, ONE)
        machine.globals[name].value = value
        return machine.globals[name]
    macro = machine.program.macros.get(name)
    if macro is not None and macro.parameters is None and macro.body:
        cell = machine.globals[name] = Cell(Unknown(name))
        value = parsed_expression(machine, macro.body, outer)
        if isinstance(value, Term) and value.op == "number" and isinstance(value.args[0], int):
            value = machine.symbol(name, value.args[0])
        cell.value = value
        return cell
    return None


@handles("identifier", "type_identifier", "field_identifier")
def _identifier(machine: Machine, node: Node, scope: Scope) -> Value:
    return named(machine, scope.source.text(node), node, scope)


def named(machine: Machine, name: str, node: Node, scope: Scope) -> Value:
    """What a plain name means."""
    cell = scope.variable(name)
    if cell is not None:
        return cell.value
    if (meant := scope.type(name)) is not None:
        return TypeName(meant)
    if machine.program.is_kernel(name):
        machine.sites.add((scope.source.name, node.start_byte))
        return KernelName(_qualified_kernel(machine, name), (), node)
    cell = global_cell(machine, name, scope)
    if cell is not None and not isinstance(cell.value, Unknown):
        return cell.value
    functions = machine.found(name)
    if functions:
        return FunctionName(functions, (), scope.this)
    if name in CONSTANTS:
        return number(CONSTANTS[name])
    if name in machine.program.aliases or name in machine.program.classes or bytes_of(name) is not None:
        return TypeName(name)
    return Unknown(name)


def _qualified_kernel(machine: Machine, name: str) -> str:
    return machine.program.kernels(name)[0].function.qualified


@handles("qualified_identifier")
def _qualified(machine: Machine, node: Node, scope: Scope) -> Value:
    inner = node
    path: list[Node] = []
    while inner.type == "qualified_identifier":
        space, name = field(inner, "scope"), field(inner, "name")
        if space is not None:
            path.append(space)
        if name is None:
            return Unknown(scope.source.words(node))
        inner = name
    text = scope.source.text(inner)
    last = path[-1] if path else None
    if last is not None:
        from wmmadiag.hostcode.classes import static_member

        kind = type_text(machine, path[0], scope)
        for one in path[1:]:  # `Policy::BlockShape::kM`: a class's own name for another
            held = static_member(machine, kind, scope.source.text(one), one, scope)
            kind = held.text if isinstance(held, TypeName) else type_text(machine, one, scope)
        found = static_member(machine, kind, text, inner, scope)
        if found is not None:
            return found
    if inner.type in ("template_function", "template_type", "template_method"):
        return evaluate(machine, inner, scope)
    own = scope.source.text(inner)
    functions = [one for one in machine.found(own) if last is None or _in_scope(one.function.scope, scope, last)]
    if functions and not machine.program.is_kernel(own):
        return FunctionName(tuple(functions))
    value = named(machine, own, inner, scope)
    if isinstance(value, Unknown | TypeName):
        text = "::".join([*(type_text(machine, one, scope) for one in path), own])
        return TypeName(text) if isinstance(value, TypeName) or bytes_of(text) is not None else Unknown(text)
    return value


def _in_scope(own: str, scope: Scope, last: Node) -> bool:
    name = plain_name(scope.source.words(last))
    return not own or own.rpartition("::")[2].partition("<")[0] == name or name not in ("std", "torch", "at", "thrust")


@handles("template_function", "template_method", "template_type")
def _template(machine: Machine, node: Node, scope: Scope) -> Value:
    name_node, listed = field(node, "name"), field(node, "arguments")
    if name_node is None:
        return Unknown(scope.source.words(node))
    name = scope.source.text(name_node)
    values = template_values(machine, listed, scope)
    if machine.program.is_kernel(name):
        machine.sites.add((scope.source.name, name_node.start_byte))
        return KernelName(_qualified_kernel(machine, name), _kernel_arguments(machine, name, values), node)
    functions = machine.found(name)
    if functions:
        machine.sites.add((scope.source.name, name_node.start_byte))
        return FunctionName(functions, values, scope.this)
    return TypeName(f"{name}<{', '.join(template_text(machine, one) for one in values)}>")


def template_values(machine: Machine, listed: Node | None, scope: Scope) -> tuple[Value, ...]:
    """The values of a template argument list: numbers and types."""
    if listed is None:
        return ()
    found: list[Value] = []
    for one in listed.named_children:
        if one.type == "comment":
            continue
        if one.type == "type_descriptor":
            inner = one.named_children[0] if len(one.named_children) == 1 else None
            if inner is not None and inner.type in ("type_identifier", "qualified_identifier", "template_type"):
                value = evaluate(machine, inner, scope)
                if isinstance(value, Unknown):
                    value = TypeName(type_text(machine, one, scope))
            else:
                value = TypeName(type_text(machine, one, scope))
        else:
            value = evaluate(machine, one, scope)
            if isinstance(value, Unknown):
                value = machine.constant(scope, one)
        found.append(value)
    return tuple(found)


def _kernel_arguments(machine: Machine, name: str, values: Sequence[Value]) -> tuple[str, ...]:
    """Template arguments of a kernel as C++; a number that is an enumerator there as one."""
    function = machine.program.kernels(name)[0].function
    kinds = [one.type for one in function.template or ()]
    found = []
    for index, value in enumerate(values):
        text = template_text(machine, value)
        kind = plain(kinds[index]) if index < len(kinds) else "auto"
        if re.fullmatch(r"-?\d+", text) and bytes_of(kind) is None and kind not in ("auto", "bool", "typename"):
            scope = f"{function.scope}::" if function.scope and "::" not in kind else ""
            text = f"static_cast<{scope}{kind}>({text})"
        found.append(_at_file_scope(machine, text))
    return tuple(found)


def _at_file_scope(machine: Machine, text: str) -> str:
    """C++ with the types of namespaces as they are called outside."""

    classes, aliases = machine.program.classes, machine.program.aliases

    def outside(path: str) -> str:
        name, end = path.rpartition("::")[2], f"::{path}"
        for one in classes.get(name, ())[:1]:
            if "<" not in one.record.qualified and one.record.name and f"::{one.record.qualified}".endswith(end):
                return one.record.qualified
        alias = aliases.get(name)
        if alias is not None and f"::{alias.qualified}".endswith(end) and "<" not in alias.qualified:
            within = classes.get(alias.qualified.rpartition("::")[0].rpartition("::")[2], ())
            if not any(one.record.template for one in within):  # of a class template it is no type without arguments
                return alias.qualified
        return machine.program.enums.get(path, path)

    def qualified(match: re.Match[str]) -> str:
        """The whole path, or the longest beginning of it that is known: `Mask::none` is one of an enumeration's."""
        parts = match[0].split("::")
        paths = ["::".join(parts[:count]) for count in range(len(parts), 0, -1)]
        found = next((path for path in paths if outside(path) != path), None)
        return match[0] if found is None else outside(found) + match[0].removeprefix(found)

    return re.sub(r"(?<![\w:.])[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*", qualified, text)


def template_text(machine: Machine, value: Value) -> str:
    """A template argument as C++ that means the same at file scope."""
    known = machine.known(value)
    if known is not None:
        return (
            ("false", "true")[known]
            if isinstance(known, bool)
            else f"{known:g}"
            if isinstance(known, float)
            else str(known)
        )
    if isinstance(value, TypeName | Unknown | CharacterText):
        return value.text
    if isinstance(value, KernelName):
        return value.name + (f"<{', '.join(value.arguments)}>" if value.arguments else "")
    if isinstance(value, Struct):
        return f"{value.type}{{}}"
    if isinstance(value, Term):
        try:
            return f"{{{terms.text(value)}}}"
        except terms.NotWritten:
            return "?"
    return "?"


# ATen/AccumulateType.h, ATen/OpMathType.h: the type in which sums of a type are kept on a device.
_SUMS = re.compile(r"(?:\b\w+::)*\b(?:acc_type|acc_type_device|opmath_type)\s*<\s*([\w:]+)[^<>]*>")


_DECLTYPE = re.compile(r"\bdecltype\s*\(\s*(\w+)\s*\)")


def _type_of(match: re.Match[str], scope: Scope) -> str:
    """`decltype(x)` as the type of that variable, where it is known."""
    cell = scope.variable(match[1])
    kind = plain(cell.type) if cell is not None else ""
    return kind if kind and "auto" not in kind.split() else match[0]


def type_text(machine: Machine, node: Node, scope: Scope) -> str:
    """A type as written, with the names that stand for others replaced by those."""
    text = re.sub(r"\btypename\s+", "", scope.source.words(node))
    text = _DECLTYPE.sub(lambda match: _type_of(match, scope), text)

    def meant(match: re.Match[str]) -> str:
        name = match[0]
        found = scope.type(name)
        if found is not None and found != name:
            return found
        cell = scope.variable(name)
        known = machine.known(cell.value) if cell is not None else None
        if known is not None and cell is not None:
            number = ("false", "true")[known] if isinstance(known, bool) else str(known)
            kind = machine.program.enums.get(plain(cell.type).rpartition("::")[2])
            return number if kind is None else f"static_cast<{kind}>({number})"
        macro = machine.program.macros.get(name)
        if macro is not None and macro.parameters is None and re.fullmatch(r"[\w:]+", macro.body):
            return macro.body
        return name

    text = re.sub(r"(?<![\w:.])[A-Za-z_]\w*(?!\s*\()", meant, text)
    return _SUMS.sub(lambda match: "double" if match[1] == "double" else "float", text) if "_type" in text else text


@handles("primitive_type", "sized_type_specifier", "type_descriptor", "dependent_type")
def _type(machine: Machine, node: Node, scope: Scope) -> Value:
    return TypeName(type_text(machine, node, scope))


@handles("decltype")
def _decltype(machine: Machine, node: Node, scope: Scope) -> Value:
    return TypeName(scope.source.words(node))
