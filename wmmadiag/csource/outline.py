"""Every declaration of a file at namespace and class scope, whatever it is: where it begins and ends, and its name.

`declarations` says what the well-formed ones mean. This says what there is, macro invocations and what no grammar knows
included, so that any of it can be taken out of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wmmadiag.csource.lexical import closing
from wmmadiag.csource.nodes import Node, body_of, field
from wmmadiag.csource.tree import Source

_CONTAINERS = frozenset(
    {"translation_unit", "declaration_list", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif",
     "preproc_elifdef", "field_declaration_list", "ERROR"}
)  # fmt: skip
_RECORDS = frozenset({"struct_specifier", "class_specifier", "union_specifier"})
_KINDS = {
    "enum_specifier": "enum", "alias_declaration": "alias", "type_definition": "alias", "using_declaration": "alias",
    "namespace_alias_definition": "alias", "static_assert_declaration": "assertion", "concept_definition": "alias",
    "template_instantiation": "instantiation", "friend_declaration": "friend", "function_definition": "function",
    "declaration": "variable", "field_declaration": "variable", "expression_statement": "macro",
}  # fmt: skip
_NAMED = frozenset(
    {"identifier", "field_identifier", "type_identifier", "operator_name", "destructor_name", "namespace_identifier"}
)
_CALL = re.compile(rb"\s*([A-Za-z_]\w*)\s*\(")
# May begin a declaration with `(`, and are no macro. ISO C++, GNU's and CUDA's attributes.
_WITH_BRACKETS = frozenset(
    {b"alignas", b"decltype", b"explicit", b"noexcept", b"static_assert", b"asm", b"typeof", b"__typeof__", b"__asm__",
     b"__align__", b"__attribute__", b"__declspec", b"__launch_bounds__", b"__cluster_dims__", b"__maxnreg__",
     b"__block_size__", b"operator", b"__asm"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One declaration."""

    # "function" (has a body), "prototype", "variable", "record", "enum", "alias" (using, typedef, concept, forward
    # declaration), "directive" (using namespace), "macro" (an invocation, with or without a block), "instantiation"
    # (explicit), "friend", "assertion", "other"
    kind: str
    name: str  # that it declares or invokes, without scope; "" for none
    scope: str  # its namespaces and classes, "a::b"
    # start, end: offsets; with template heads, attributes and macros before it, and the semicolon after it
    start: int
    end: int
    head_end: int  # offset of its body or initialiser, `end` without one
    node: Node  # the declaration; `outer`: with the template head around it
    outer: Node
    parent: int | None  # index of the class that it is a member of in the same outline, or None

    @property
    def qualified(self) -> str:
        """`scope::name`."""
        return f"{self.scope}::{self.name}" if self.scope else self.name


@dataclass(slots=True)
class _PendingChildren:
    """Children of a node that are still to be read."""

    children: list[Node]
    at: int
    ended: int
    scope: str
    parent: int | None
    record: str


def outline(source: Source) -> tuple[Item, ...]:
    """The declarations of a file in the order of its text, each class before its members."""
    found: list[Item] = []
    waiting = [_PendingChildren(source.root.children, 0, 0, "", None, "")]
    while waiting:
        around = waiting[-1]
        if around.at == len(around.children):
            waiting.pop()
            continue
        node = around.children[around.at]
        around.at += 1
        begun, around.ended = around.ended, max(around.ended, node.end_byte)
        if node.type in _CONTAINERS:
            waiting.append(_PendingChildren(node.children, 0, begun, around.scope, around.parent, around.record))
            continue
        block = _block(node)
        if block is not None:
            scope = joined(around.scope, _namespace(source, node))
            waiting.append(_PendingChildren(block.children, 0, block.start_byte, scope, around.parent, around.record))
            continue
        if not node.is_named or node.type == "comment" or node.type.startswith("preproc_"):
            continue
        if node.type == "access_specifier" or (node.type == "expression_statement" and node.child_count == 1):
            continue  # `public`, and a semicolon alone
        following = around.children[around.at] if around.at < len(around.children) else None
        ended = following.end_byte if following is not None and following.type == ";" else node.end_byte
        item = _item(source, node, begun, ended, around)
        if item is None:
            continue
        found.append(item)
        held = _record(item.node)
        body = field(held, "body") if held is not None and item.kind == "record" else None
        if body is not None:
            inner = joined(around.scope, item.name)
            waiting.append(_PendingChildren(body.children, 0, body.start_byte + 1, inner, len(found) - 1, item.name))
    return tuple(found)


def _block(node: Node) -> Node | None:
    """The braces of a namespace or a linkage specification."""
    if node.type not in ("namespace_definition", "linkage_specification"):
        return None
    body = field(node, "body")
    return body if body is not None and body.type == "declaration_list" else None


def _namespace(source: Source, node: Node) -> str:
    name = field(node, "name") if node.type == "namespace_definition" else None
    return source.text(name) if name is not None else ""


def joined(scope: str, name: str) -> str:
    """A name in a scope, either of which may be empty."""
    return f"{scope}::{name}" if scope and name else scope or name


def _record(node: Node) -> Node | None:
    """The class with a body that a node declares."""
    held = node if node.type in _RECORDS else field(node, "type")
    return held if held is not None and held.type in _RECORDS and field(held, "body") is not None else None


def _item(source: Source, node: Node, begun: int, ended: int, around: _PendingChildren) -> Item | None:
    code = source.code.code
    lead = code[begun : node.start_byte]
    start = node.start_byte if lead.isspace() or not lead else begun + len(lead) - len(lead.lstrip())
    inner = node
    while inner.type in ("template_declaration", "linkage_specification"):
        inside = [one for one in inner.named_children if one.type not in _HEADS]
        if not inside:
            break
        inner = inside[-1]
    kind = _KINDS.get(inner.type, "record" if inner.type in _RECORDS else "other")
    body = body_of(inner)
    head_end = body.start_byte if body is not None else ended
    declarator = field(inner, "declarator")
    if inner.type == "using_declaration" and any(one.type == "namespace" for one in inner.children):
        kind = "directive"
    if kind == "variable" and _is_function(declarator):
        # A deduction guide looks like a prototype without a type.
        guide = field(inner, "type") is None and not around.record and inner.type == "declaration"
        kind = "alias" if guide else "prototype"
    if kind in ("variable", "friend", "function") and (held := _record(inner)) is not None and declarator is None:
        kind, head_end = "record", _start(field(held, "body"), head_end)
    elif _record(inner) is not None and kind == "variable":
        kind = "record"
    elif (kind == "record" and body is None) or (kind == "variable" and declarator is None):
        kind = "alias"
    if kind == "function" and body is None:
        kind = "alias"  # defaulted or deleted
    invoked = _invoked(source, start, head_end, around.record)
    if invoked and kind in ("macro", "function", "variable", "prototype", "other"):
        return Item("macro", invoked, around.scope, start, ended, head_end, inner, node, around.parent)
    if kind in ("variable", "prototype", "function") and body is None:
        first = inner.child_by_field_name("default_value") or (
            field(declarator, "value") if declarator is not None and declarator.type == "init_declarator" else None
        )
        head_end = _start(first, head_end)
    name = _name(source, inner, kind)
    return Item(kind, name, around.scope, start, ended, head_end, inner, node, around.parent)


_HEADS = frozenset({"template_parameter_list", "requires_clause", "string_literal"})


def _start(node: Node | None, otherwise: int) -> int:
    return otherwise if node is None else node.start_byte


def _is_function(declarator: Node | None) -> bool:
    one = declarator
    while one is not None:
        if one.type in ("function_declarator", "operator_cast"):
            inner = field(one, "declarator")
            return inner is None or inner.type != "parenthesized_declarator"
        if one.type == "init_declarator":
            return False
        one = field(one, "declarator") or next(
            (child for child in one.named_children if child.type.endswith("_declarator")), None
        )
    return False


def _invoked(source: Source, start: int, head_end: int, record: str) -> str:
    """The macro that a declaration consists of: `NAME(…);` or `NAME(…) {…}`; "" where it is none."""
    match = _CALL.match(source.code.code, start, head_end)
    if match is None or match[1] in _WITH_BRACKETS or match[1].decode() == record:
        return ""
    after = closing(source.code.code, match.end() - 1)
    rest = source.code.code[after:head_end].strip(b" \t\r\n;") if after is not None else b"?"
    return match[1].decode() if not rest else ""


def _name(source: Source, node: Node, kind: str) -> str:
    one = field(node, "name") if kind in ("record", "enum", "alias") else None
    held = field(node, "type") if one is None and kind in ("record", "enum") else None
    one = field(held, "name") if held is not None else one
    if one is None and kind == "alias" and node.type not in ("alias_declaration", "type_definition"):
        held = field(node, "type")
        last = node.named_children[-1] if node.named_children else None
        one = (field(held, "name") if held is not None else None) or last
    one = one or field(node, "declarator")
    while one is not None and one.type not in _NAMED:
        inner = field(one, "name") or field(one, "declarator")
        one = inner or next((child for child in reversed(one.named_children) if _leads_to_name(child)), None)
    if one is None:
        return ""
    return "operator" if one.type == "operator_name" else source.text(one)


def _leads_to_name(node: Node) -> bool:
    return node.type in _NAMED or node.type.endswith("_declarator") or node.type == "qualified_identifier"
