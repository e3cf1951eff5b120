"""Which names a place of a source sees, and what they are."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.csource.declarations import template_parameters
from wmmadiag.csource.namespaces import Imports, NamespacePath
from wmmadiag.csource.nodes import Node, field
from wmmadiag.csource.tree import Source
from wmmadiag.csource.variables import Variable, declared

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


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a variable is in scope: from `start` to `end`; `imported`: there it is another namespace's."""

    variable: Variable
    start: int
    end: int
    imported: bool = False


class Scopes:
    """The scopes of a whole source, read once.

    Attributes:
        spaces: what each namespace declares, by its names from outside in.
    """

    def __init__(self, source: Source) -> None:
        found, self.spaces = _read(source)
        # What is declared hides what is imported, wherever that is said.
        self.extents = tuple(sorted(found, key=lambda one: (not one.imported, one.start)))
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


def _introduced(source: Source, around: Node) -> Iterator[Variable]:
    """What a node brings into the scope that it is."""
    if around.type == "for_range_loop":
        yield from declared(source, around, "local")
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


def _read(source: Source) -> tuple[list[Extent], dict[NamespacePath, list[Extent]]]:
    """What is declared anywhere in a source, and where else it is seen; and by namespace."""
    found: list[Extent] = []
    spaces: dict[NamespacePath, list[Extent]] = {}
    imports = Imports()
    # (node, where the scope around it ends, whether that is a function's, the namespace)
    open_ones: list[tuple[Node, int, bool, NamespacePath]] = [(source.root, len(source.data), False, ())]
    while open_ones:
        node, end, local, space = open_ones.pop()
        kind = node.type
        if kind in ("declaration", "field_declaration"):
            what = "member" if kind == "field_declaration" else "local" if local else "namespace"
            own = [Extent(one, one.declarator.end_byte, end) for one in declared(source, node, what)]
            found += own
            if what == "namespace":
                spaces.setdefault(space, []).extend(own)
        elif kind in ("using_declaration", "namespace_alias_definition"):
            imports.note(source, node, space, end)
        elif kind == "namespace_definition":
            space = imports.entered(source, node, space, end)
        elif kind in _SCOPES:
            end = node.end_byte
            if kind in _INTRODUCE:
                for one in _introduced(source, node):
                    after = one.declarator if kind == "for_range_loop" else one.node
                    found.append(Extent(one, node.start_byte if one.kind == "member" else after.end_byte, end))
            local = local if kind == "template_declaration" else kind not in _SPACES
        if kind not in _CLOSED:
            open_ones.extend((child, end, local, space) for child in node.named_children)
    return [*found, *_imported(imports, spaces)], spaces


def _imported(imports: Imports, spaces: Mapping[NamespacePath, Sequence[Extent]]) -> Iterator[Extent]:
    for one in imports.found:
        space, name = imports.of(one, spaces)
        for known in spaces.get(space, ()):
            start = max(one.start, known.start)
            if start < one.end and known.variable.name and name in ("", known.variable.name):
                yield Extent(known.variable, start, one.end, imported=True)
