"""From a place in a source to what the compiler must be told so that an expression means there what it says."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from wmmadiag.compile.ask.questions import AskScope
from wmmadiag.csource.declarations import TemplateParameter, template_parameters
from wmmadiag.csource.nodes import Node, ancestors, descendants, field
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import declared

_BLOCKS = frozenset({"compound_statement", "case_statement"})
_RECORDS = frozenset({"struct_specifier", "class_specifier", "union_specifier"})
_TYPES = _RECORDS | {"enum_specifier"}
_ALIASES = frozenset({"alias_declaration", "type_definition", "namespace_alias_definition"})
_CONDITIONALS = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"})
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Surrounding:
    """Something around a place: "namespace", "class", "template", "parameters", "block", "using", "directive",
    "meaning" (of a name that is no variable) or "variable"; `names` are those that it declares."""

    kind: str
    text: str
    names: frozenset[str] = frozenset()
    constant: bool = True
    default: str = ""
    pointer: bool = False


def scope_at(
    source: Source,
    node: Node,
    mentioned: str,
    bindings: Mapping[str, str] = MappingProxyType({}),
    *,
    every: bool = False,
    unchanged: bool = False,
    fixed: Mapping[str, str] = MappingProxyType({}),
) -> AskScope:
    """The scope of a node for an expression or type that is asked there.

    Put before it are the declarations of the functions around it that it needs, as written and in their order:
    constants, type aliases, enumerations, local classes, and the template parameters that have a binding or a default.

    Args:
        source: the file that the node is of.
        mentioned: the text of the expression.
        bindings: template parameter → its argument as written, in the scope of the file.
        every: also variables and parameters whose values no compiler knows; for `TypeOf`, which evaluates nothing.
        unchanged: also variables that are no constants, but which nothing in the function around them changes.
        fixed: parameter or variable → the declaration to put in place of its own, "" for none.
    """
    parts = [part for around, inside in _downwards(node) for part in _parts(source, around, inside)]
    wanted = _closure(parts, mentioned)
    namespaces: list[str] = []
    bound_names: list[str] = []
    declarations: list[str] = []
    parameters, inside = "", ""
    for part in parts:
        needed = bool(wanted & part.names)
        if part.kind == "namespace":
            namespaces.append(part.text)
        elif part.kind == "class":
            inside = f"{inside}::{part.text}" if inside else part.text
            declarations, parameters = [], ""
        elif part.kind == "template":
            bound_names += [text for text in [_bound(part, bindings)] if text and needed]
        elif part.kind == "parameters":
            parameters = part.text if every and needed else ""
            declarations += [text for name, text in fixed.items() if text and name in part.names & wanted]
        elif part.kind == "variable" and part.names <= fixed.keys():
            declarations += [fixed[name] for name in part.names & wanted if fixed[name]]
        elif part.kind in ("block", "using") or (needed and (part.constant or every)):
            declarations.append(part.text)
        elif needed and unchanged and not _is_changed(node, part):
            # Nothing changes it: a constant, if its value is one.
            declarations.append(part.text if part.pointer else f"const {part.text}")
    while declarations and declarations[-1] == "{":
        declarations.pop()
    return AskScope(tuple(namespaces), tuple(bound_names), inside, parameters, tuple(declarations))


def _downwards(node: Node) -> list[tuple[Node, Node]]:
    """(what stands around the node, its child towards it), the outermost first."""
    chain = [node, *ancestors(node)]
    return [(around, inside) for inside, around in itertools.pairwise(chain)][::-1]


def _closure(parts: Sequence[_Surrounding], mentioned: str) -> frozenset[str]:
    """The names that a text needs, and those that the declarations of these need."""
    wanted = set(_WORD.findall(mentioned))
    for part in parts:
        if part.kind == "class":
            wanted |= set(_WORD.findall(part.text))
    for part in reversed(parts):
        if part.names & wanted:
            wanted |= set(_WORD.findall(part.text)) | set(_WORD.findall(part.default))
    return frozenset(wanted)


def _parts(source: Source, around: Node, inside: Node) -> Iterator[_Surrounding]:
    """What a surrounding node contributes to the scope of its child."""
    kind = around.type
    if kind == "namespace_definition":
        name = field(around, "name")
        yield from (_Surrounding("namespace", one) for one in (source.text(name) if name else "").split("::"))
    elif kind == "template_declaration":
        for parameter in template_parameters(source, around):
            if parameter.name and not parameter.pack:
                text = parameter.type if parameter.type in ("typename", "template") else _typed(source, parameter)
                yield _Surrounding("template", text, frozenset({parameter.name}), default=parameter.default)
    elif kind in _RECORDS and inside.type == "field_declaration_list":
        yield _Surrounding("class", _class_name(source, around))
    elif kind == "function_definition":
        yield from _of_function(source, around, inside)
    elif kind in _BLOCKS:
        yield _Surrounding("block", "{")
        yield from _before(source, around, inside)
    elif kind == "for_statement":
        first = field(around, "initializer")
        if first is not None and first.start_byte < inside.start_byte:
            yield _Surrounding("block", "{")
            yield from _statement(source, first)


def _of_function(source: Source, function: Node, inside: Node) -> Iterator[_Surrounding]:
    declarator = next(descendants(function, "function_declarator"), None)
    if declarator is None or inside.type != "compound_statement":
        return
    name, listed = field(declarator, "declarator"), field(declarator, "parameters")
    qualifier = source.words(name).rpartition("::")[0].strip() if name is not None else ""
    if qualifier:
        yield _Surrounding("class", qualifier)
    if listed is not None:
        names = {one.name for child in listed.named_children for one in declared(source, child, "parameter")}
        yield _Surrounding("parameters", source.words(listed)[1:-1], frozenset(names - {""}))


def _before(source: Source, block: Node, inside: Node) -> Iterator[_Surrounding]:
    for one in block.named_children:
        if one.start_byte < inside.start_byte:
            yield from _statement(source, one)


def _statement(source: Source, node: Node) -> Iterator[_Surrounding]:
    """The names that one statement of a block declares."""
    if node.type == "declaration":
        yield from _declaration(source, node)
    elif node.type in _ALIASES:
        declared_names = frozenset(_WORD.findall(source.words(node).partition("=")[0]))
        if node.type == "type_definition":
            declared_names = frozenset(one.name for one in declared(source, node)) or declared_names
        yield _Surrounding("meaning", source.words(node), declared_names)
    elif node.type == "using_declaration":
        yield _Surrounding("using", source.words(node))
    elif node.type in _TYPES:
        yield _Surrounding("meaning", source.words(node).rstrip(";") + ";", _type_names(source, node))
    elif node.type in _CONDITIONALS:
        inner = [part for one in node.named_children for part in _statement(source, one)]
        names = frozenset(name for part in inner for name in part.names)
        first = source.text(node).split("\n", 1)[0].strip()
        yield _Surrounding("directive", f"\n{first}\n", names)
        yield from inner
        if node.type in ("preproc_if", "preproc_ifdef"):
            yield _Surrounding("directive", "\n#endif\n", names)


def _declaration(source: Source, node: Node) -> Iterator[_Surrounding]:
    held = field(node, "type")
    declarators = node.children_by_field_name("declarator")
    if held is not None and held.type in _TYPES and field(held, "body") is not None:
        names = _type_names(source, held) | {one.name for one in declared(source, node)}
        yield _Surrounding("meaning", source.words(node), frozenset(names))
        return
    if not declarators:
        return
    head = " ".join(source.code_text(node.start_byte, declarators[0].start_byte).split())
    for variable, declarator in zip(declared(source, node), declarators, strict=False):
        constant = bool(variable.words & {"constexpr", "const"})
        plain = " ".join(word for word in head.split() if word != "static") if constant else head
        text = f"{plain} {source.words(declarator)};"
        yield _Surrounding("variable", text, frozenset({variable.name}), constant, pointer=variable.pointers > 0)


def _type_names(source: Source, node: Node) -> frozenset[str]:
    """The names that a class or an enumeration brings: its own, and enumerators of an unscoped one."""
    name = field(node, "name")
    found = {source.text(name)} if name is not None else set()
    for one in descendants(node, "enumerator"):
        called = field(one, "name")
        found |= {source.text(called)} if called is not None else set()
    return frozenset(found)


def _class_name(source: Source, node: Node) -> str:
    """A class as its own body would call it from outside: with its template parameters as arguments."""
    name = field(node, "name")
    text = source.words(name) if name is not None else ""
    head = node.parent
    if head is not None and head.type == "template_declaration" and "<" not in text:
        parameters = template_parameters(source, head)
        text += f"<{', '.join(one.name + ('...' if one.pack else '') for one in parameters)}>"
    return text


def _typed(source: Source, parameter: TemplateParameter) -> str:
    """The type of a value parameter: what stands before its name."""
    text = source.words(parameter.node)
    return text.partition("=")[0].rpartition(parameter.name)[0].strip() or parameter.type


def _bound(part: _Surrounding, bindings: Mapping[str, str]) -> str:
    """The declaration that gives a template parameter its argument; "" where it has none."""
    name = next(iter(part.names))
    value = bindings.get(name, part.default)
    if not value:
        return ""
    if part.text == "typename":
        return f"using {name} = {value};"
    if part.text == "template":
        return f"template <class... wmmadiag_any> using {name} = {value}<wmmadiag_any...>;"
    return f"constexpr {part.text} {name} = {value};"


def _is_changed(node: Node, part: _Surrounding) -> bool:
    """Whether something in the function may change a variable after its declaration."""
    functions = [one for one in ancestors(node) if one.type in ("function_definition", "lambda_expression")]
    return not functions or is_changed(functions[-1], next(iter(part.names)))


def is_changed(body: Node, name: str, *, elements: bool = True) -> bool:
    """Whether something under a node may change a variable of that name after its declaration: an assignment, an
    increment, its address, what is read into it; with `elements` also what does so to `name[i]`."""
    through = ("parenthesized_expression", "subscript_expression") if elements else ("parenthesized_expression",)
    spelled = name.encode()
    for one in descendants(body, "identifier"):
        if one.text != spelled:
            continue
        parent = one.parent
        while parent is not None and parent.type in through:
            one, parent = parent, parent.parent
        kind = parent.type if parent is not None else ""
        left = field(parent, "left") if parent is not None else None
        operator = field(parent, "operator") if parent is not None else None
        if kind == "update_expression" or (kind == "assignment_expression" and left == one):
            return True
        if kind == "pointer_expression" and operator is not None and operator.type == "&":
            return True
        if kind == "binary_expression" and operator is not None and operator.type == ">>" and left != one:
            return True
    return False
