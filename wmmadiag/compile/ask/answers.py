"""Answers of the compiler, read from the variables that it wrote into the PTX."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from wmmadiag.compile.names import base_name

_VARIABLE = re.compile(
    r"\.global\s+\.align\s+\d+\s+\.[busf](?P<bits>\d+)\s+(?P<name>wmmadiag_answer_\w+)"
    r"(?:\[(?P<count>\d+)\])?(?:\s*=\s*(?P<value>[^;]*?))?\s*;"
)
_ADDRESS = re.compile(r"generic\([\w$]+\)(?:\+?(-?\d+))?")
_REAL = re.compile(r"0[fd]([0-9A-Fa-f]+)")
_KINDS = ("other", "bool", "int", "uint", "float", "class", "union", "pointer", "array", "reference")
_CONST, _ENUM, _EMPTY, _POLYMORPHIC, _COMPLETE = (1 << bit for bit in range(5))
_NAMED = re.compile(r"\[with \w+ ?= ?(.*)\]\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The compiler's reason for not answering."""

    reason: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value."""

    value: bool | int | float  # bool, int (of enumerators too) or float, exact
    type: str  # canonical: "unsigned long", "Mode"
    kind: str  # "bool", "int", "uint" or "float"; of an enumeration that of its underlying type
    size: int  # of the type, bytes
    bits: int  # as stored
    enum: bool  # whether it is an enumerator


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """What a type is: `rank` extents of `depth` levels of pointers to `target`."""

    type: str  # canonical, as the compiler spells it: "const __half *", "ns::Params<64>"
    # size, align: bytes; 0 of void and of types that are only declared
    size: int
    align: int
    # "bool", "int", "uint", "float", "class", "union", "pointer", "array", "reference", or "other" (void, functions);
    # of an enumeration that of its underlying type
    kind: str
    depth: int  # levels of pointers
    extents: tuple[int, ...]  # of an array, outermost first; 0 for `[]`
    target: str  # the type without extents, pointers and qualifiers
    # target_size, target_align, target_kind: likewise of that
    target_size: int
    target_align: int
    target_kind: str
    const: bool  # whether the target is const
    # enum, empty, polymorphic, complete: of the target; `complete` of classes alone
    enum: bool
    empty: bool
    polymorphic: bool
    complete: bool
    # lane, lane_size, lane_kind: of a vector such as float4, the type of its elements; "" and 0 for all else
    lane: str
    lane_size: int
    lane_kind: str


@dataclass(frozen=True, slots=True)
class AddressFacts:
    """Where a pointer into a buffer points."""

    offset: int  # bytes from the buffer's beginning
    facts: TypeFacts  # the pointer's type


@dataclass(frozen=True, slots=True)
class KernelParameters:
    """The types of a kernel's parameters, in order."""

    types: tuple[TypeFacts, ...]


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Where a member or a base class lies."""

    offset: int  # bytes from the class that it is a member of
    facts: TypeFacts  # its type
    own: bool = True  # whether it is a member of the class itself, and not of a base class of that


def variables(ptx: str) -> Mapping[str, bytes]:
    """Name → content of each variable of answers in a PTX text; what its initialiser leaves out is 0.

    The variable of a base class holds its offset.
    """
    found = {}
    for match in _VARIABLE.finditer(ptx):
        each = int(match["bits"]) // 8
        elements = [one.strip() for one in (match["value"] or "").strip("{} ").split(",") if one.strip()]
        content = b"".join(_element(one, each) for one in elements)
        found[match["name"]] = content.ljust(each * int(match["count"] or 1), b"\0")
    return found


def _element(text: str, size: int) -> bytes:
    address, real = _ADDRESS.fullmatch(text), _REAL.fullmatch(text)
    if real is not None:
        return int(real[1], 16).to_bytes(size, "little")
    value = int(address[1] or 0) if address is not None else int(text, 0)
    return (value % (1 << 8 * size)).to_bytes(size, "little")


def constant(content: bytes) -> Constant:
    """A `wmmadiag_ask::Constant`."""
    bits, kind, size, flags = struct.unpack_from("<QBBB", content)
    name = _KINDS[kind]
    bits &= (1 << 8 * size) - 1
    value: bool | int | float = bits
    if name == "bool":
        value = bool(bits)
    elif name == "int" and bits >> (8 * size - 1):
        value = bits - (1 << 8 * size)
    elif name == "float":
        value = struct.unpack("<f" if size == 4 else "<d", bits.to_bytes(size, "little"))[0]
    return Constant(value, _name(content[11:]), name, size, bits, bool(flags & _ENUM))


def type_facts(content: bytes) -> TypeFacts:
    """A `wmmadiag_ask::Facts`."""
    return _facts(content, 0)[0]


def kernel_parameters(content: bytes) -> KernelParameters:
    """A `wmmadiag_ask::List`."""
    found: list[TypeFacts] = []
    at = 0
    while content[at]:
        one, at = _facts(content, at + 1)
        found.append(one)
    return KernelParameters(tuple(found))


def member_facts(content: bytes) -> MemberFacts:
    """A `wmmadiag_ask::Member`."""
    facts, end = _facts(content, 8)
    return MemberFacts(int.from_bytes(content[:8], "little"), facts, bool(content[end]))


def base_facts(content: bytes, offset: bytes) -> MemberFacts:
    """A base class: its facts, and what its variable holds."""
    return MemberFacts(int.from_bytes(offset, "little"), type_facts(content))


_FIXED = struct.Struct("<QQQQ4QBQQBBQB")


def _facts(content: bytes, at: int) -> tuple[TypeFacts, int]:
    size, align, depth, rank, *rest = _FIXED.unpack_from(content, at)
    extents, (kind, target_size, target_align, target_kind, flags, lane_size, lane_kind) = rest[:4], rest[4:]
    at += _FIXED.size
    names = []
    for _ in range(3):
        end = content.index(0, at)
        names.append(_name(content[at : end + 1]))
        at = end + 1
    vector = lane_size > 0 and _KINDS[target_kind] == "class"
    return (
        TypeFacts(
            type=names[0],
            size=size,
            align=align,
            kind=_KINDS[kind],
            depth=depth,
            extents=tuple(extents[:rank]),
            target=names[1],
            target_size=target_size,
            target_align=target_align,
            target_kind=_KINDS[target_kind],
            const=bool(flags & _CONST),
            enum=bool(flags & _ENUM),
            empty=bool(flags & _EMPTY),
            polymorphic=bool(flags & _POLYMORPHIC),
            complete=bool(flags & _COMPLETE),
            lane=names[2] if vector else "",
            lane_size=lane_size if vector else 0,
            lane_kind=_KINDS[lane_kind] if vector else "",
        ),
        at,
    )


def _name(content: bytes) -> str:
    """The type in a `__PRETTY_FUNCTION__`: "auto wmmadiag_ask::name() [with T = float]".

    Enumerators in it are at times mangled.
    """
    text = content.split(b"\0", 1)[0].decode("utf-8", "replace")
    match = _NAMED.search(text)
    text = re.sub(r"\b__nv_bool\b", "bool", match[1] if match else text)
    return re.sub(r"\b_ZN\w+E\b", lambda found: base_name(found[0]), text)
