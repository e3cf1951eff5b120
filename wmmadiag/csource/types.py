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
from wmmadiag.csource.variables import Variable

Kind = Literal[
    "bool", "byte", "integer", "float", "half", "pointer", "array", "fragment", "record", "enum", "function", "void",
    "named", "unknown",
]  # fmt: skip
"""`byte`: the integers of 8 bits, which hold data more often than places; `half`: the floats of 16 bits and fewer;
`named`: a type that only its name is known of, such as a template's parameter."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type, as far as a tree tells.

    Attributes:
        name: of an arithmetic type, record or enumeration, one of its spellings for all.
        of: of a pointer or array, what it holds.
        arguments: of a fragment, its template arguments as written.
        constant: whether what has the type cannot be assigned to.
    """

    kind: Kind
    name: str = ""
    of: Type | None = None
    arguments: tuple[str, ...] = ()
    constant: bool = False

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

# CUDA C++ Programming Guide, built-in vector types; cuda_fp16.h and cuda_bf16.h.
_ELEMENTS = {
    "char": "byte", "uchar": "byte", "short": "integer", "ushort": "integer", "int": "integer", "uint": "integer",
    "long": "integer", "ulong": "integer", "longlong": "integer", "ulonglong": "integer", "float": "float",
    "double": "float",
}  # fmt: skip
_INTEGERS = frozenset(
    {"short", "int", "long", "unsigned", "signed", "size_t", "ssize_t", "ptrdiff_t", "uintptr_t", "intptr_t", "uint",
     "index_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t"}
)  # fmt: skip
_BYTES = frozenset(["char", "int8_t", "uint8_t", "uchar", "schar"])
_HALVES = {
    "half": "half", "__half": "half", "nv_bfloat16": "bf16", "__nv_bfloat16": "bf16", "__nv_fp8_e4m3": "e4m3",
    "__nv_fp8_e5m2": "e5m2",
}  # fmt: skip
_PAIRS = {"half2": HALF, "__half2": HALF, "nv_bfloat162": Type("half", "bf16"), "__nv_bfloat162": Type("half", "bf16")}
_QUALIFIERS = re.compile(r"\b(?:volatile|struct|class|union|enum|typename|constexpr|static|inline|extern|register)\b")


class Types:
    """The types that some sources name.

    Args:
        declared: of each source.
        aliases: of function bodies: names and what they stand for.
    """

    def __init__(self, declared: Sequence[Declarations], aliases: Mapping[str, str]) -> None:
        self.records: dict[str, Record] = {one.name: one for each in declared for one in each.records if one.name}
        named = {name.rpartition("::")[2]: text for each in declared for name, text, _ in each.aliases}
        self._aliases = {**named, **aliases}
        self._read: dict[str, Type] = {}
        self._open: set[str] = set()

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
        words = frozenset(text.split())
        if words <= _INTEGERS | _BYTES and words:
            return Type("byte", "char") if words & _BYTES else Type("integer", "int")
        if name in ("float", "double"):
            return Type("float", "float")
        if name in ("bool", "void"):
            return BOOL if name == "bool" else VOID
        if name in _HALVES:
            return Type("half", _HALVES[name])
        if name in _BYTES or name in _INTEGERS:
            return Type("byte", "char") if name in _BYTES else INTEGER
        if name in _PAIRS:
            return Type("record", name.lstrip("_"), of=_PAIRS[name])
        if name == "dim3":
            return Type("record", name, of=INTEGER)
        if name[-1:] in "1234" and name[:-1] in _ELEMENTS:
            kind = _ELEMENTS[name[:-1]]
            element = Type("byte", "char") if kind == "byte" else FLOAT if kind == "float" else INTEGER
            return Type("record", name, of=element)
        if name in self._aliases and self._aliases[name] != text:
            return self.read(self._aliases[name])
        if name in self.records:
            return Type("record", name)
        return UNKNOWN if name in ("auto", "") or name.startswith("decltype") else Type("named", text)


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
