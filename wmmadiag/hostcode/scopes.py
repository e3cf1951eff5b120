"""What names mean at a place of a run: variables and types, from the inside out."""

from __future__ import annotations

from dataclasses import dataclass, field

from wmmadiag.csource.tree import Source
from wmmadiag.hostcode.values import Cell, Struct


@dataclass(slots=True, eq=False)
class Scope:
    """A block, a function, a class, or the file."""

    source: Source  # the file whose nodes are run here
    parent: Scope | None = None
    variables: dict[str, Cell] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)  # names of types → what they stand for
    this: Struct | None = None  # of a method
    function: str = ""  # qualified name of the function around
    bindings: dict[str, str] = field(default_factory=dict)  # template parameters that have an argument, as C++

    def inner(self, source: Source | None = None) -> Scope:
        """A block in it."""
        return Scope(source or self.source, self, this=self.this, function=self.function)

    def variable(self, name: str) -> Cell | None:
        """The variable of a name that is seen here."""
        one: Scope | None = self
        while one is not None:
            if name in one.variables:
                return one.variables[name]
            if one.this is not None and name in one.this.members:
                return one.this.members[name]
            one = one.parent
        return None

    def type(self, name: str) -> str | None:
        """What a type's name stands for here."""
        one: Scope | None = self
        while one is not None:
            if name in one.types:
                return one.types[name]
            one = one.parent
        return None

    def bound(self) -> dict[str, str]:
        """All template parameters that have an argument, as C++."""
        found: dict[str, str] = {}
        one: Scope | None = self
        while one is not None:
            found = {**one.bindings, **found}
            one = one.parent
        return found
