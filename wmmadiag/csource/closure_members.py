"""Members that an extended lambda reaches through the object of the method around it.

The class that stands for the lambda holds that object, or its address, and is none of the object's class: what the text
names as a member is said to be one of the object, and what is private is opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.nodes import Node, ancestors, descendants, field
from wmmadiag.csource.tree import Source

SELF = "wmmadiag_self"
"""The member that holds the object's address, or a copy of it."""
_CLASSES = ("class_specifier", "struct_specifier")
_ELSEWHERE = ("qualified_identifier", "lambda_capture_specifier")  # what stands here is no expression of its own
_NAMES = ("field_identifier", "identifier", "operator_name")


def class_around(source: Source, node: Node) -> Node | None:
    """The definition of the class whose method a node stands in; None where it is not in this source."""
    for one in ancestors(node):
        if one.type in _CLASSES:
            return one
        if one.type == "function_definition":
            declarator = field(one, "declarator")
            named = next(descendants(declarator, "qualified_identifier"), None) if declarator is not None else None
            scope = field(named, "scope") if named is not None else None
            if scope is not None:
                return _definition(source, _plain(source.text(scope)))
    return None


def members_of(source: Source, one: Node) -> frozenset[str]:
    """The names of what a class and those that it derives from have, but for types."""
    found: set[str] = set()
    for each in _with_bases(source, one):
        body = field(each, "body")
        for member in body.named_children if body is not None else ():
            found.update(_declared(source, member))
    return frozenset(found)


def opened(source: Source, nodes: Mapping[int, Node]) -> list[ByteEdit]:
    """Changes after which the classes, and those that they derive from, have no private members; lines stay."""
    edits = []
    for one in {each.start_byte: each for node in nodes.values() for each in _with_bases(source, node)}.values():
        body = field(one, "body")
        if body is None:
            continue
        edits.append(ByteEdit(body.start_byte + 1, body.start_byte + 1, " public:"))
        clauses = [child for child in one.children if child.type == "base_class_clause"]
        for child in [*body.children, *(part for clause in clauses for part in clause.children)]:
            if child.type == "access_specifier":
                edits.append(ByteEdit(child.start_byte, child.end_byte, "public"))
            elif child.type in (":", ",") and child.parent is not None and child.parent.type == "base_class_clause":
                after = child.next_sibling
                if after is not None and after.type != "access_specifier":
                    edits.append(ByteEdit(child.end_byte, child.end_byte, " public"))
    return sorted(edits, key=lambda edit: edit.start)


def through_the_object(source: Source, body: Node, names: frozenset[str], copied: bool) -> list[ByteEdit]:
    """The changes of a lambda's body that say of each member whose it is.

    Args:
        names: the members that it names.
        copied: whether the lambda holds a copy of the object, not its address.
    """
    access = f"{SELF}{'.' if copied else '->'}"
    edits = []
    for one in descendants(body, "identifier", "this"):
        parent = one.parent
        if one.type == "this":
            edits.append(ByteEdit(one.start_byte, one.end_byte, f"(&{SELF})" if copied else SELF))
        elif source.text(one) in names and parent is not None and parent.type not in _ELSEWHERE:
            template = "template " if parent.type == "template_function" else ""
            edits.append(ByteEdit(one.start_byte, one.start_byte, f"{access}{template}"))
    return edits


def _with_bases(source: Source, one: Node) -> Iterator[Node]:
    waiting, seen = [one], set[int]()
    while waiting:
        each = waiting.pop()
        if each.start_byte in seen:
            continue
        seen.add(each.start_byte)
        yield each
        for clause in each.named_children:
            if clause.type == "base_class_clause":
                for base in clause.named_children:
                    found = _definition(source, _plain(source.text(base)))
                    if found is not None:
                        waiting.append(found)


def _definition(source: Source, name: str) -> Node | None:
    for one in descendants(source.root, *_CLASSES):
        named = field(one, "name")
        if field(one, "body") is not None and named is not None and _plain(source.text(named)) == name:
            return one
    return None


def _plain(text: str) -> str:
    """`ns::Field<T, 3>` → `Field`."""
    return re.sub(r"<.*", "", text, flags=re.DOTALL).rpartition("::")[2].strip()


def _declared(source: Source, member: Node) -> Iterator[str]:
    if member.type == "template_declaration":
        for inner in member.named_children:
            yield from _declared(source, inner)
    elif member.type in ("field_declaration", "function_definition", "declaration"):
        for declarator in member.children_by_field_name("declarator"):
            one: Node | None = declarator
            while one is not None and one.type not in _NAMES:
                one = field(one, "declarator") or next((c for c in one.named_children if c.type in _NAMES), None)
            if one is not None:
                yield source.text(one)
