"""Names inside a function: registers, variables and labels in nested brace scopes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from wmmadiag.ptx.ir import Register, Space, Vector

_MOST_DIGITS = 9  # of the number of a register in a range


class FreshNames:
    """Names that are unique within a function: the name itself the first time, then `name@2`, `name@3`, …"""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def __call__(self, name: str) -> str:
        """A name like this one that nothing has yet."""
        fresh = name
        if name in self._taken:
            for number in count(self._next.get(name, 2)):
                fresh = f"{name}@{number}"
                if fresh not in self._taken:
                    self._next[name] = number + 1
                    break
        self._taken.add(fresh)
        return fresh


class PtxScope:
    """One pair of braces.

    Attributes:
        registers: name as written → register; a vector register's name → its four (or two) elements.
        ranges: prefix of `%r<35>` → (count, type); its registers are made when first used.
        variables: name as written → (unique name, space).
        labels: name as written → unique name.
    """

    __slots__ = ("_made", "_names", "labels", "parent", "ranges", "registers", "variables")

    def __init__(
        self, parent: PtxScope | None, labels: Mapping[str, str], names: FreshNames, made: dict[str, Register]
    ) -> None:
        self.parent = parent
        self.labels = labels
        self.registers: dict[str, Register | Vector] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.variables: dict[str, tuple[str, Space]] = {}
        self._names = names
        self._made = made

    def child(self, labels: Mapping[str, str]) -> PtxScope:
        """A scope inside this one."""
        return PtxScope(self, labels, self._names, self._made)

    def declared(self, name: str) -> bool:
        """Whether this very scope already has the name."""
        return name in self.registers or name in self.ranges or name in self.variables

    def add_register(self, name: str, type_name: str) -> Register:
        """Declare one register; it is renamed if another scope has the name."""
        register = Register(self._names(name), type_name)
        self.registers[name] = self._made[register.name] = register
        return register

    def add_variable(self, name: str, space: Space) -> str:
        """Declare a variable; returns its unique name."""
        unique = self._names(name)
        self.variables[name] = (unique, space)
        return unique

    def register(self, name: str) -> Register | Vector | None:
        """The register of that name here or further out, or None."""
        scope: PtxScope | None = self
        while scope is not None:
            found = scope.registers.get(name)
            if found is None and scope.ranges:
                found = scope._from_range(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def _from_range(self, name: str) -> Register | None:
        """A register of a range such as `%r<35>`, made as it is first used."""
        prefix = len(name.rstrip("0123456789"))
        for split in range(max(prefix, len(name) - _MOST_DIGITS), len(name)):
            found = self.ranges.get(name[:split])
            if found and int(name[split:]) < found[0] and (name[split] != "0" or split == len(name) - 1):
                return self.add_register(name, found[1])
        return None

    def variable(self, name: str) -> tuple[str, Space] | None:
        """Unique name and space of a variable here or further out, or None."""
        scope: PtxScope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None

    def label(self, name: str) -> str | None:
        """Unique name of a label here or further out, or None."""
        scope: PtxScope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.labels[name]
            scope = scope.parent
        return None


def find_labels(text: Sequence[str], start: int) -> dict[int, dict[str, str]]:
    """All labels of a function body: index of the scope's `{` → label as written → unique name.

    Branches go forward too, so labels must be known before the instructions are read. `start` is the index of the
    body's `{`. A label that a scope has twice is in the result once; the parser reports it. Scopes without labels, the
    body's own apart, are left out.
    """
    names = FreshNames()
    scopes: dict[int, dict[str, str]] = {start: {}}
    stack = [start]
    index = start + 1
    while stack:
        token = text[index]
        if token == "{":
            stack.append(index)
        elif token == "}":
            stack.pop()
        elif not token:
            break
        elif token[-1] == ":" and token != ":":
            name = token[:-1].rstrip()
            scope = scopes.setdefault(stack[-1], {})
            if name not in scope:
                scope[name] = names(name)
        index += 1
    return scopes
