"""Expressions and types written out: names that a function alone knows give way to what they stand for."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.csource.nodes import Node, ancestors, field, walk
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import declared

_BLOCKS = frozenset({"compound_statement", "case_statement"})
_CONDITIONALS = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"})
_ATOMS = frozenset({"number_literal", "true", "false", "identifier", "char_literal", "qualified_identifier"})
_DEPTH = 8


def written_out(source: Source, node: Node, depth: int = _DEPTH) -> str:
    """The text of an expression or type that means the same at the function's own scope.

    Constants, enumerators and type aliases of the blocks around it are put in, with brackets where they need them, and
    static members of the class around it get its name. What is no constant stays as it is.
    """
    names = {source.text(one): one for one in walk(node) if one.type in ("identifier", "type_identifier")}
    if not names or depth == 0:
        return source.words(node)
    meant = _meanings(source, node, frozenset(names), depth)
    edits = [
        ByteEdit(one.start_byte - node.start_byte, one.end_byte - node.start_byte, meant[text])
        for one in walk(node)
        if one.type in ("identifier", "type_identifier") and (text := source.text(one)) in meant and not _is_member(one)
    ]
    text = applied(source.data[node.start_byte : node.end_byte], edits).decode("utf-8", "surrogateescape")
    return " ".join(text.split())


def _is_member(node: Node) -> bool:
    """Whether a name is looked up in what stands before it: `T::name`, `x.name`."""
    around = node.parent
    return around is not None and around.type == "qualified_identifier" and field(around, "name") == node


def _meanings(source: Source, node: Node, names: frozenset[str], depth: int) -> dict[str, str]:
    """What the given names stand for at a node, as far as the blocks around it say; the innermost counts."""
    found: dict[str, str] = {}
    hidden: set[str] = set()
    inside = node
    for around in ancestors(node):
        if around.type in _BLOCKS or around.type in _CONDITIONALS:
            earlier = [one for one in around.named_children if one.end_byte <= inside.start_byte]
            for statement in reversed(earlier):
                for name, text in _declared(source, statement, names - hidden, depth):
                    hidden.add(name)
                    if text is not None:
                        found[name] = text
        elif around.type == "field_declaration_list":
            found.update(_members(source, around, names - hidden))
        inside = around
    return found


def _declared(source: Source, node: Node, names: frozenset[str], depth: int) -> Iterator[tuple[str, str | None]]:
    """(name, what it stands for or None) of what a statement of a block declares."""
    if node.type == "declaration":
        held = field(node, "type")
        if held is not None and held.type == "enum_specifier":
            yield from _enumerators(source, held, names, depth)
        for variable in declared(source, node):
            if variable.name in names:
                constant = "constexpr" in variable.words or "const" in variable.words
                simple = not (variable.pointers or variable.reference or variable.dimensions)
                known = constant and simple and variable.value is not None
                yield variable.name, _value(source, variable.value, depth) if known else None
    elif node.type == "enum_specifier":
        yield from _enumerators(source, node, names, depth)
    elif node.type == "alias_declaration":
        name, kind = field(node, "name"), field(node, "type")
        if name is not None and kind is not None and source.text(name) in names:
            yield source.text(name), written_out(source, kind, depth - 1)
    elif node.type == "type_definition":
        kind = field(node, "type")
        for variable in declared(source, node):
            plain = not (variable.dimensions or variable.reference)
            if kind is not None and variable.name in names and plain:
                yield variable.name, written_out(source, kind, depth - 1) + "*" * variable.pointers
    elif node.type in _CONDITIONALS:
        for one in reversed(node.named_children):
            yield from _declared(source, one, names, depth)


def _value(source: Source, node: Node | None, depth: int) -> str | None:
    if node is None:
        return None
    if node.type in ("initializer_list", "argument_list"):
        if len(node.named_children) != 1:
            return None
        node = node.named_children[0]
    text = written_out(source, node, depth - 1)
    return text if (node.type in _ATOMS and text.replace("::", "").isidentifier()) or text.isalnum() else f"({text})"


def _enumerators(source: Source, node: Node, names: frozenset[str], depth: int) -> Iterator[tuple[str, str | None]]:
    body = field(node, "body")
    before: str | None = "-1"
    for one in body.named_children if body is not None else ():
        if one.type != "enumerator":
            continue
        name, value = field(one, "name"), field(one, "value")
        text = _value(source, value, depth) if value is not None else f"({before} + 1)" if before is not None else None
        before = text
        if name is not None and source.text(name) in names:
            yield source.text(name), text


def _members(source: Source, around: Node, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The static constants of a class with its name before them."""
    held = around.parent
    name = field(held, "name") if held is not None else None
    if name is None or name.type != "type_identifier":
        return
    for one in around.named_children:
        if one.type == "field_declaration":
            for variable in declared(source, one, "member"):
                if variable.name in names and "static" in variable.words:
                    yield variable.name, f"{source.text(name)}::{variable.name}"
