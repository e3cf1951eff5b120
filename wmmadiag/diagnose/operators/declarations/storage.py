"""Where variables lie, and as what."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.csource.nodes import field
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ALIGNED = re.compile(rb"__align__\s*\(\s*(\d+)\s*\)|alignas\s*\(\s*(\d+)\s*\)")
_ALIGNMENTS = (16, 32, 128)
_OTHERS = {
    "float": ("half",), "half": ("float",), "int8_t": ("uint8_t",), "uint8_t": ("int8_t",), "int16_t": ("uint16_t",),
    "uint16_t": ("int16_t",), "char": ("unsigned char", "signed char"), "short": ("unsigned short",),
    "unsigned char": ("signed char",), "signed char": ("unsigned char",), "unsigned short": ("short",),
}  # fmt: skip


@operator
def storage(program: Program) -> Iterator[Draft]:
    """An array of a thread's own in shared memory; another alignment; numbers of another width, or with a sign."""
    for one in program.statements:
        if one.node.type in ("type_definition", "alias_declaration"):
            yield from _typed(one)
        if one.kind != "declaration" or not one.declares:
            continue
        variable = one.declares[0]
        kind = program.reader.type_of(variable)
        own = one.braced and not variable.shared and variable.value is None and "const" not in variable.type
        if own and kind.kind == "array" and kind.of is not None and kind.of.arithmetic:
            edit = one.unit.edit(one.start, one.start, "__shared__ __align__(32) ")
            yield Draft((edit,), "static", "storage", f"{variable.name} in shared memory")
        yield from _aligned(one)
        yield from _typed(one)


def _aligned(one: Statement) -> Iterator[Draft]:
    begin = one.unit.source.data.rfind(b"\n", 0, one.start) + 1
    for found in _ALIGNED.finditer(one.unit.source.data, begin, one.end):
        number = 1 if found[1] else 2
        for value in _ALIGNMENTS:
            if int(found[number]) != value:
                edit = one.unit.edit(found.start(number), found.end(number), str(value))
                yield Draft((edit,), "static", "alignment", f"aligned to {value} bytes")


def _typed(one: Statement) -> Iterator[Draft]:
    node = field(one.node, "type")
    if node is not None and node.type == "type_descriptor":  # of an alias
        node = field(node, "type")
    if node is None or node.type not in ("primitive_type", "type_identifier", "sized_type_specifier"):
        return
    text = one.unit.source.text(node)
    for other in _OTHERS.get(text.lstrip("_"), ()):
        edit = one.unit.edit(node.start_byte, node.end_byte, other)
        yield Draft((edit,), "static", "element type", f"{other} for {text}")
