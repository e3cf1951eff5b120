"""Walking a tree: small functions over the parser's own nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import tree_sitter

# A name alone: the parser is loaded with the first text that is read.
Node: TypeAlias = "tree_sitter.Node"

# What stands around an expression without changing it.
_WRAPPERS = frozenset({"parenthesized_expression", "condition_clause"})
# From what is called to its name: type of node → the field that leads on.
_CALLED = {
    "qualified_identifier": "name", "template_function": "name", "template_method": "name", "field_expression": "field",
    "dependent_name": "name",
}  # fmt: skip


def walk(node: Node) -> Iterator[Node]:
    """The node and everything under it, in the order of the text."""
    open_ones = [node]
    while open_ones:
        one = open_ones.pop()
        yield one
        open_ones.extend(reversed(one.children))


LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
"""Types of nodes that repeat their body."""


def descendants(node: Node, *types: str) -> Iterator[Node]:
    """The nodes of these types under (and with) `node`, in the order of the text."""
    wanted = frozenset(types)
    return (one for one in walk(node) if one.type in wanted)


def outermost(node: Node, *types: str) -> Iterator[Node]:
    """As `descendants`, but nothing inside what was found."""
    wanted = frozenset(types)
    open_ones = [node]
    while open_ones:
        one = open_ones.pop()
        if one.type in wanted:
            yield one
        else:
            open_ones.extend(reversed(one.children))


def ancestors(node: Node) -> Iterator[Node]:
    """What stands around a node, the nearest first."""
    one = node.parent
    while one is not None:
        yield one
        one = one.parent


def field(node: Node, name: str) -> Node | None:
    """A node's child by the name of its field."""
    return node.child_by_field_name(name)


def operands(node: Node) -> tuple[str, Node, Node]:
    """The operator of a binary expression or an assignment, and what it stands between; "" of another node."""
    sign, left, right = field(node, "operator"), field(node, "left"), field(node, "right")
    return (sign.type, left, right) if sign is not None and left is not None and right is not None else ("", node, node)


def bare(node: Node) -> Node:
    """An expression without the parentheses around it."""
    while node.type in _WRAPPERS and node.named_child_count == 1:
        node = node.named_children[0]
    return node


def arguments(call: Node) -> list[Node]:
    """The arguments of a call, comments left out."""
    held = field(call, "arguments")
    return [] if held is None else [one for one in held.named_children if one.type != "comment"]


def called(call: Node) -> str:
    """The name of what a call calls, scope, object and template arguments left out; "" for what has none."""
    one = field(call, "function")
    while one is not None and one.type in _CALLED:
        one = field(one, _CALLED[one.type])
    named = one is not None and one.text is not None and one.type.endswith(("identifier", "primitive_type"))
    return one.text.decode("utf-8", "replace") if named and one is not None and one.text is not None else ""


def at(root: Node, start: int, end: int | None = None) -> Node:
    """The smallest named node that covers the bytes from `start` to `end`."""
    found = root.named_descendant_for_byte_range(start, start if end is None else end)
    return root if found is None else found


def body_of(node: Node) -> Node | None:
    """The body of a function or class; that of a function is not always a field of it."""
    body = field(node, "body")
    if node.type == "function_definition" and body is None:
        return next((one for one in node.children if one.type in ("compound_statement", "try_statement")), None)
    return body
