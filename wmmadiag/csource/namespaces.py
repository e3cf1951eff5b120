"""What a namespace's names are called elsewhere: `using namespace n;`, `using n::name;`, namespaces without a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmmadiag.csource.nodes import Node
from wmmadiag.csource.nodes import field as field_of
from wmmadiag.csource.tree import Source

NamespacePath = tuple[str, ...]
"""A namespace by its names from outside in; one without a name is called "" in the one around it."""


@dataclass(frozen=True, slots=True)
class Import:
    """Names of a namespace that can be written without it from `start` to `end`."""

    inside: NamespacePath  # the namespace that it stands in; `path`: what it names, as written
    path: NamespacePath
    start: int
    end: int
    single: bool = False  # whether the path ends with one variable's name


@dataclass(slots=True)
class Imports:
    """All imports of a source, and other names of its namespaces."""

    found: list[Import] = field(default_factory=list)
    aliases: dict[str, NamespacePath] = field(default_factory=dict)

    def entered(self, source: Source, node: Node, around: NamespacePath, end: int) -> NamespacePath:
        """The namespace that a `namespace_definition` opens, in one that ends at `end`."""
        name = field_of(node, "name")
        space = (*around, *(_path(source, name) if name is not None else ("",)))
        self.found.append(Import((), space, node.start_byte, node.end_byte))  # what an earlier part of it has
        if name is None or any(one.type == "inline" for one in node.children):
            self.found.append(Import((), space, node.end_byte, end))
        return space

    def note(self, source: Source, node: Node, inside: NamespacePath, end: int) -> None:
        """A `using_declaration` or `namespace_alias_definition`, in a scope that ends at `end`."""
        named = [one for one in node.named_children if one.type != "comment"]
        if not named:
            return
        path = _path(source, named[-1])
        if node.type == "namespace_alias_definition":
            self.aliases[source.text(named[0])] = path
            return
        single = not any(one.type == "namespace" for one in node.children)
        if not single or len(path) > 1:
            self.found.append(Import(inside, path, node.end_byte, end, single))

    def of(self, one: Import, known: Mapping[NamespacePath, Sequence[object]]) -> tuple[NamespacePath, str]:
        """The namespace that an import is of, and the one name in it or ""; an unknown one where there is none."""
        path, name = (one.path[:-1], one.path[-1]) if one.single else (one.path, "")
        path = (*self.aliases.get(path[0], path[:1]), *path[1:]) if path else path
        spaces = ((*one.inside[:depth], *path) for depth in range(len(one.inside), -1, -1))
        return next((space for space in spaces if space in known), path), name


def _path(source: Source, node: Node) -> NamespacePath:
    return tuple(_names(source, node))


def _names(source: Source, node: Node) -> Iterator[str]:
    if node.type in ("qualified_identifier", "nested_namespace_specifier"):
        for one in node.named_children:
            yield from _names(source, one)
    else:
        yield source.text(node)
