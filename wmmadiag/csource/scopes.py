"""Which names a place of a source sees, and what they are."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import template_parameters
from wmmadiag.csource.nodes import ancestors, field
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable, declared

if TYPE_CHECKING:
    from tree_sitter import Node

_BLOCKS = frozenset({"compound_statement", "case_statement", "declaration_list", "translation_unit"})
_SCOPES = frozenset(
    {"translation_unit", "declaration_list", "compound_statement", "for_statement", "for_range_loop", "if_statement",
     "while_statement", "switch_statement", "function_definition", "lambda_expression", "template_declaration",
     "field_declaration_list"}
)  # fmt: skip
_INTRODUCE = frozenset(
    {"function_definition", "lambda_expression", "template_declaration", "for_range_loop", "field_declaration_list"}
)
_SPACES = frozenset({"translation_unit", "declaration_list", "field_declaration_list"})
# What declares nothing that its neighbours see.
_CLOSED = frozenset({"type_definition", "alias_declaration", "parameter_list", "template_parameter_list"})
_CONDITIONAL = frozenset({"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif"})


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a variable is in scope: from `start` to `end`."""

    variable: Variable
    start: int
    end: int


class Scopes:
    """The scopes of a whole source, read once: for many questions about one source, where `visible` is for a few."""

    def __init__(self, source: Source) -> None:
        self.extents = tuple(sorted(_extents(source), key=lambda one: one.start))
        self._bounds = sorted({offset for one in self.extents for offset in (one.start, one.end)})
        self._seen: dict[int, dict[str, Variable]] = {}

    def at(self, offset: int) -> dict[str, Variable]:
        """The variables in scope at an offset, by name; an inner one hides an outer one of its name."""
        part = bisect.bisect_right(self._bounds, offset)
        found = self._seen.get(part)
        if found is None:
            # An inner scope begins later than those around it.
            inside = (one.variable for one in self.extents if one.start <= offset < one.end)
            found = self._seen[part] = {one.name: one for one in inside if one.name}
        return found


def visible(source: Source, node: Node) -> dict[str, Variable]:
    """The variables that are in scope at a node, by name; an inner one hides an outer one of its name."""
    found: dict[str, Variable] = {}
    inside = node
    for around in ancestors(node):
        for variable in _introduced(source, around, inside):
            found.setdefault(variable.name, variable)
        inside = around
    found.pop("", None)
    return found


def _introduced(source: Source, around: Node, inside: Node) -> Iterator[Variable]:
    """What a surrounding node brings into scope at its child `inside`, the latest first."""
    if around.type in _BLOCKS or around.type in _CONDITIONAL or around.type == "linkage_specification":
        earlier = [one for one in around.named_children if one.start_byte < inside.start_byte]
        kind = "local" if around.type in ("compound_statement", "case_statement") else "namespace"
        for one in reversed(earlier):
            yield from _of_statement(source, one, kind)
    elif around.type == "for_statement":
        first = field(around, "initializer")
        if first is not None and first.start_byte < inside.start_byte:
            yield from _of_statement(source, first, "local")
    elif around.type == "for_range_loop":
        yield from declared(source, around, "local")
    elif around.type in ("if_statement", "while_statement", "switch_statement"):
        condition = field(around, "condition")
        if condition is not None and condition.start_byte < inside.start_byte:
            for one in condition.named_children:
                yield from _of_statement(source, one, "local")
    elif around.type in ("function_definition", "lambda_expression"):
        declarator = field(around, "declarator")
        while declarator is not None and field(declarator, "parameters") is None:
            declarator = field(declarator, "declarator") or next(iter(declarator.named_children), None)
        listed = field(declarator, "parameters") if declarator is not None else None
        for one in listed.named_children if listed is not None else ():
            yield from declared(source, one, "parameter")
    elif around.type == "template_declaration":
        listed = field(around, "parameters")
        for parameter in template_parameters(source, around):
            if parameter.type not in ("typename", "template") and listed is not None:
                yield from declared(source, parameter.node, "template")
    elif around.type == "field_declaration_list":
        for one in around.named_children:
            if one.type == "field_declaration":
                yield from declared(source, one, "member")


def _of_statement(source: Source, node: Node, kind: str) -> Iterator[Variable]:
    if node.type in ("declaration", "field_declaration"):
        yield from declared(source, node, kind)
    elif node.type in ("init_statement", "linkage_specification", *_CONDITIONAL):
        for one in reversed(node.named_children):
            yield from _of_statement(source, one, kind)


def _extents(source: Source) -> list[Extent]:
    """What is declared anywhere in a source."""
    found: list[Extent] = []
    # (node, where the scope around it ends, whether that is a function's)
    open_ones: list[tuple[Node, int, bool]] = [(source.root, len(source.data), False)]
    while open_ones:
        node, end, local = open_ones.pop()
        kind = node.type
        if kind in ("declaration", "field_declaration"):
            what = "member" if kind == "field_declaration" else "local" if local else "namespace"
            found += (Extent(one, one.declarator.end_byte, end) for one in declared(source, node, what))
        elif kind in _SCOPES:
            end = node.end_byte
            if kind in _INTRODUCE:
                for one in _introduced(source, node, node):
                    after = one.declarator if kind == "for_range_loop" else one.node
                    found.append(Extent(one, node.start_byte if one.kind == "member" else after.end_byte, end))
            local = local if kind == "template_declaration" else kind not in _SPACES
        if kind not in _CLOSED:
            open_ones.extend((child, end, local) for child in node.named_children)
    return found
