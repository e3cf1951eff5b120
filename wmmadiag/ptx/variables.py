"""Declarations of variables and parameters, and initial values.

Source: PTX ISA 9.x, "Variables" (declarators, initializers, alignment) and "Kernel and Function Parameters".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.ir import Immediate, Initializer, SymbolAddress
from wmmadiag.ptx.literals import constant, constant_integer, double_value
from wmmadiag.ptx.types import CLASSES, MEMORY_TYPES, REGISTER_TYPES, size

_MAX_BYTES = 1 << 40
_MAX_INITIALIZED = 1 << 28
_MAX_DIMENSIONS = 16
_OPAQUE_BYTES = 8
OPAQUE_TYPES = frozenset(("texref", "samplerref", "surfref"))
"""Types of textures, samplers and surfaces: a module may declare some that a kernel does not use."""


@dataclass(frozen=True, slots=True)
class Head:
    """What stands before the names of a declaration: `.align 16 .v4 .f32`. `align` in bytes."""

    align: int
    vector: int
    type: str

    @property
    def element_size(self) -> int:
        """Bytes of one element."""
        return (_OPAQUE_BYTES if self.type in OPAQUE_TYPES else size(self.type)) * self.vector


def parse_head(cursor: Cursor, *, register: bool = False) -> Head:
    """Read alignment, attributes, vector width and type, in any order that people write."""
    align, vector, type_name = 0, 1, ""
    types = REGISTER_TYPES if register else MEMORY_TYPES
    while cursor.token.startswith("."):
        directive = cursor.take()
        if directive == ".align":
            align = cursor.integer("an alignment", low=1, high=1 << 20)
            if align & (align - 1):
                raise cursor.error(f"alignment {align} is not a power of two", index=cursor.index - 1)
        elif directive in (".v2", ".v4", ".v8"):
            vector = int(directive[2:])
        elif directive == ".ptr":  # pointer attributes of a kernel parameter
            if cursor.token in (".global", ".const", ".local", ".shared"):
                cursor.take()
            if cursor.accept(".align"):
                cursor.integer("an alignment", low=1, high=1 << 20)
        elif directive == ".attribute":
            _skip_parentheses(cursor)
        elif (directive[1:] in types or (directive[1:] in OPAQUE_TYPES and not register)) and not type_name:
            type_name = directive[1:]
        else:
            raise cursor.error(f"unexpected {directive!r} in a declaration", index=cursor.index - 1)
    if not type_name:
        raise cursor.error(f"expected a type, found {cursor.token or 'the end'!r}")
    head = Head(align, vector, type_name)
    return head if register or align else Head(head.element_size, vector, type_name)


def _skip_parentheses(cursor: Cursor) -> None:
    cursor.expect("(")
    depth = 1
    while depth:
        token = cursor.take()
        depth += (token == "(") - (token == ")")


def parse_shape(cursor: Cursor) -> list[int]:
    """Read `[4][8]`; -1 for a missing extent."""
    shape: list[int] = []
    while cursor.accept("["):
        if not shape and cursor.accept("]"):
            shape.append(-1)
            continue
        at = cursor.index
        extent = constant_integer(cursor)
        if not 0 <= extent < _MAX_BYTES:
            raise cursor.error(f"array extent {extent} is out of range", index=at)
        shape.append(extent)
        cursor.expect("]")
        if len(shape) > _MAX_DIMENSIONS:
            raise cursor.error(f"an array has at most {_MAX_DIMENSIONS} dimensions", index=at)
    return shape


def total_size(cursor: Cursor, head: Head, shape: list[int]) -> int:
    """Bytes of a variable; 0 when an extent is missing."""
    total = head.element_size
    for extent in shape:
        total *= max(extent, 0)
    if total > _MAX_BYTES:
        raise cursor.error(f"a variable of {total} bytes is too large")
    return total


@dataclass(frozen=True, slots=True)
class _NamedAddress:
    symbol: SymbolAddress
    generic: bool
    mask: int  # 0xFF00 takes the second byte; 0 all of it


def parse_initializer(cursor: Cursor, head: Head, shape: list[int]) -> Initializer:
    """Read the value after `=`. A missing first extent in `shape` is filled in."""
    start = cursor.index
    values: dict[int, Immediate | _NamedAddress] = {}
    if not shape and head.vector == 1:
        values[0] = _value(cursor)
        count = 1
    else:
        extents = [*shape, head.vector] if head.vector > 1 else list(shape)
        strides = [1] * len(extents)
        for axis in range(len(extents) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * max(extents[axis + 1], 1)
        used = _nested(cursor, extents, strides, 0, 0, values)
        if shape and shape[0] < 0:
            shape[0] = used
            extents[0] = used
        count = 1
        for extent in extents:
            count *= extent
    width = size(head.type)
    if count * width > _MAX_INITIALIZED:
        raise cursor.error("the initialised variable is too large", index=start)
    data = bytearray(count * width)
    relocations: list[tuple[int, int, int, SymbolAddress, bool]] = []
    for position, value in values.items():
        offset = position * width
        if isinstance(value, Immediate):
            data[offset : offset + width] = _encode(cursor, start, value, head.type)
        else:
            bytes_wide, shift = _masked(cursor, start, value.mask, width)
            relocations.append((offset, bytes_wide, shift, value.symbol, value.generic))
    return Initializer(bytes(data), tuple(relocations))


def _nested(
    cursor: Cursor,
    extents: list[int],
    strides: list[int],
    axis: int,
    base: int,
    values: dict[int, Immediate | _NamedAddress],
) -> int:
    """Read one braced list, and return how many elements of this axis it gives."""
    cursor.expect("{")
    index = 0
    while not cursor.accept("}"):
        if 0 <= extents[axis] <= index:
            raise cursor.error("more initial values than elements")
        position = base + index * strides[axis]
        if cursor.token == "{":
            if axis + 1 == len(extents):
                raise cursor.error("too many braces in an initial value")
            _nested(cursor, extents, strides, axis + 1, position, values)
        elif axis + 1 == len(extents):
            values[position] = _value(cursor)
        else:
            raise cursor.error("expected '{'")
        index += 1
        if not cursor.accept(","):
            cursor.expect("}")
            break
    return index


def _value(cursor: Cursor) -> Immediate | _NamedAddress:
    token = cursor.token
    if not token or (not token[0].isalpha() and token[0] not in "_$%" and not _is_mask(cursor)) or token == "WARP_SZ":
        return constant(cursor)
    mask = 0
    if token[0].isdigit():
        mask = cursor.integer("a mask", high=2**64 - 1)
        cursor.expect("(")
    generic = cursor.token == "generic" and cursor.text[cursor.index + 1] == "("
    if generic:
        cursor.index += 2
    name = cursor.identifier("a symbol")
    offset = _offset(cursor)
    if generic:
        cursor.expect(")")
        offset += _offset(cursor)
    if mask:
        cursor.expect(")")
    return _NamedAddress(SymbolAddress(name, offset), generic, mask)


def _is_mask(cursor: Cursor) -> bool:
    return cursor.token[0].isdigit() and cursor.text[cursor.index + 1] == "("


def _offset(cursor: Cursor) -> int:
    return constant_integer(cursor) if cursor.token in ("+", "-") else 0


def _masked(cursor: Cursor, index: int, mask: int, width: int) -> tuple[int, int]:
    """Width in bytes and right shift in bits that a byte mask selects."""
    if not mask:
        if width < 4:
            raise cursor.error("an address does not fit the variable's type", index=index)
        return width, 0
    shift = (mask & -mask).bit_length() - 1
    if mask >> shift != 0xFF or shift % 8 or width != 1:
        raise cursor.error(f"{mask:#x} does not select one byte of an address", index=index)
    return 1, shift


def _encode(cursor: Cursor, index: int, value: Immediate, type_name: str) -> bytes:
    width = size(type_name)
    if CLASSES[type_name] == "float" and type_name in ("f32", "f64"):
        if value.type == type_name:
            return value.value.to_bytes(width, "little")
        try:
            return struct.pack("<f" if type_name == "f32" else "<d", double_value(value))
        except OverflowError:
            raise cursor.error("the initial value overflows .f32", index=index) from None
    if value.type != "int":
        # Bits of a float in a variable of a bit type, if the width agrees.
        if (value.type, width) in (("f32", 4), ("f64", 8)):
            return value.value.to_bytes(width, "little")
        raise cursor.error(f"a float literal cannot initialise .{type_name}", index=index)
    return (value.value & ((1 << (8 * width)) - 1)).to_bytes(width, "little")
