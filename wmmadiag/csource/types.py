"""Coarse types of variables, told from the text alone: enough to say what may stand for what.

Exact types are the compiler's to know. Here an `int` and a `size_t` are both integers, a name that nothing explains is
unknown, and an unknown type is like itself only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wmmadiag.csource.declarations import Declarations, Record
from wmmadiag.csource.scalars import scalar_named
from wmmadiag.csource.variables import Variable

TypeKind = Literal[
    "bool", "byte", "integer", "float", "half", "pointer", "array", "fragment", "record", "enum", "function", "void",
    "named", "unknown",
]  # fmt: skip
"""`byte`: the integers of 8 bits, which hold data more often than places; `half`: the floats of 16 bits and fewer;
`named`: a type that only its name is known of, such as a template's parameter."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type, as far as a tree tells."""

    kind: TypeKind
    name: str = ""  # of an arithmetic type, record or enumeration, one of its spellings for all
    of: Type | None = None  # of a pointer or array, what it holds
    arguments: tuple[str, ...] = ()  # of a fragment, its template arguments as written
    constant: bool = False  # whether what has the type cannot be assigned to

    @property
    def arithmetic(self) -> bool:
        """Whether it is a number."""
        return self.kind in ("bool", "byte", "integer", "float", "half")

    @property
    def whole(self) -> bool:
        """Whether it is an integer that can count or place something."""
        return self.kind == "integer"

    @property
    def address(self) -> bool:
        """Whether it is a pointer, or an array that may stand for one."""
        return self.kind in ("pointer", "array")

    def takes(self, other: Type) -> bool:
        """Whether an expression of type `other` may stand where one of this type stands."""
        if self.kind == "unknown" or other.kind == "unknown":
            return False
        if self.address and other.address and self.of is not None and other.of is not None:
            return self.of.same(other.of) and (self.of.constant or not other.of.constant)
        return self.same(other)

    def same(self, other: Type) -> bool:
        """Whether both are one type but for `const` and the width of integers and floats."""
        if self.kind != other.kind or self.kind == "unknown":
            return False
        if self.kind in ("bool", "integer", "byte", "float", "void"):
            return True
        if self.kind in ("pointer", "array"):
            return self.of is not None and other.of is not None and self.of.same(other.of)
        return self.name == other.name and self.arguments == other.arguments


UNKNOWN = Type("unknown")
INTEGER = Type("integer", "int")
FLOAT = Type("float", "float")
HALF = Type("half", "half")
BOOL = Type("bool", "bool")
VOID = Type("void", "void")

_HALVES = {"f16": "half", "bf16": "bf16", "e4m3": "e4m3", "e5m2": "e5m2"}
_QUALIFIERS = re.compile(r"\b(?:volatile|struct|class|union|enum|typename|constexpr|static|inline|extern|register)\b")


class Types:
    """The types that some sources name.

    Args:
        declared: of each source.
        aliases: of function bodies: names and what they stand for.
    """

    def __init__(self, declared: Sequence[Declarations], aliases: Mapping[str, str]) -> None:
        self.records: dict[str, Record] = {one.name: one for each in declared for one in each.records if one.name}
        self.records |= {_bare(one.spelled): one for each in declared for one in each.records if one.spelled}
        named = {name.rpartition("::")[2]: text for each in declared for name, text, _ in each.aliases}
        self._aliases = {**named, **aliases}
        self._read: dict[str, Type] = {}
        self._open: set[str] = set()

    def aliases_of(self, kind: TypeKind) -> dict[str, Type]:
        """The aliases that stand for types of a kind, by name."""
        read = {name: self.read(name) for name in self._aliases}
        return {name: one for name, one in read.items() if one.kind == kind}

    def read(self, spelled: str) -> Type:
        """The type that is written so."""
        found = self._read.get(spelled)
        if found is None:
            if spelled in self._open:  # an alias of itself
                return UNKNOWN
            self._open.add(spelled)
            found = self._read[spelled] = self._parsed(spelled)
            self._open.discard(spelled)
        return found

    def variable(self, one: Variable) -> Type:
        """The type of a variable; `auto` is unknown here."""
        held = self.read(one.type)
        for _ in range(one.pointers):
            held = Type("pointer", of=held)
        for _ in one.dimensions:
            held = Type("array", of=held)
        return held

    def member(self, of: Type, name: str) -> Type:
        """The type of a member of a record, a built-in vector or a fragment."""
        if of.kind == "fragment":
            # What a fragment holds is its element type; the accumulator's is that of the sums.
            element = self.read(of.arguments[4]) if len(of.arguments) > 4 else UNKNOWN
            return Type("array", of=element) if name == "x" else INTEGER
        if of.kind == "record" and of.of is not None:
            return of.of
        record = self.records.get(of.name)
        for one in record.members if record is not None else ():
            if one.name == name:
                return self.variable(one)
        return UNKNOWN

    def static_member(self, scope: str, name: str) -> Type:
        """The type of `scope::name`; `scope` may be a type that only a template's user knows."""
        held = self.read(scope)
        if held.kind == "record":
            return self.member(held, name)
        # T::kPitch of an unknown T: what every record that has such a member agrees on.
        found = {self.variable(one) for record in self.records.values() for one in record.members if one.name == name}
        kinds = {one.kind for one in found}
        return found.pop() if len(kinds) == 1 else UNKNOWN

    def _parsed(self, spelled: str) -> Type:
        text = _QUALIFIERS.sub(" ", spelled).strip()
        if "{" in text:  # declared where it is used
            head = text[: text.index("{")].strip()
            return self.read(head) if head else Type("record", _bare(spelled))
        if text.endswith(("*", "&")):
            inner = self.read(text[:-1].strip())
            return inner if text.endswith("&") else Type("pointer", of=inner)
        if text.endswith(" const") and text[:-6].rstrip().endswith("*"):
            return replace(self.read(text[:-6].rstrip()), constant=True)
        bare = re.sub(r"\bconst\b", " ", text).strip()
        if bare != text:
            return replace(self.read(" ".join(bare.split())), constant=True)
        return self._named(bare)

    def _named(self, text: str) -> Type:
        head, bracket, rest = text.partition("<")
        name = head.strip().rpartition("::")[2]
        if bracket and name == "fragment":
            return Type("fragment", name, arguments=tuple(_arguments(rest)))
        if name in ("bool", "void"):
            return BOOL if name == "bool" else VOID
        known = scalar_named(text) or scalar_named(name)
        if known is not None:
            element = _number(known.dtype)
            return Type("record", name.lstrip("_"), of=element) if known.vector else element
        if name == "dim3":
            return Type("record", name, of=INTEGER)
        # A record without a name of its own has that of its alias: `typedef struct { … } Sizes;`.
        if name in self._aliases and self._aliases[name] != text and name not in self.records:
            return self.read(self._aliases[name])
        if name in self.records:
            return Type("record", name)
        return UNKNOWN if name in ("auto", "") or name.startswith("decltype") else Type("named", text)


def _number(dtype: str) -> Type:
    if dtype in _HALVES:
        return Type("half", _HALVES[dtype])
    return FLOAT if dtype[0] == "f" else Type("byte", "char") if dtype in ("i8", "u8") else INTEGER


def _arguments(rest: str) -> list[str]:
    """The template arguments in `a, b<c, d>>`, a closing bracket at the end."""
    found, depth, begun = [], 0, 0
    for at, letter in enumerate(rest):
        if letter in "<([":
            depth += 1
        elif letter in ")]" or (letter == ">" and depth):
            depth -= 1
        elif (letter == "," or letter == ">") and not depth:
            found.append(rest[begun:at].strip())
            begun = at + 1
            if letter == ">":
                break
    return found


def _bare(spelled: str) -> str:
    """The text of a record without a name, without the words that say what it is."""
    return " ".join(_QUALIFIERS.sub(" ", spelled).split())
