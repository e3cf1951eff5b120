"""What stands in inline assembly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.csource.nodes import descendants
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

# A number that is an operand, and no part of a name or of the number of a placeholder.
_NUMBER = re.compile(rb"(?<![\w.%])\d+(?![\w.])")
# PTX ISA: qualifiers that may be there or not.
_QUALIFIERS = ((re.compile(rb"ldmatrix\.[\w.]*?\.x[124]"), b".trans"),)
_SWAPPED = ((b".ca.", b".cg."), (b".row.col.", b".col.row."))


@operator
def assembly(program: Program) -> Iterator[Draft]:
    """Another immediate; a qualifier more, less or other."""
    numbers = dict.fromkeys(
        found[0] for one in _blocks(program) for text in _texts(one) for found in _NUMBER.finditer(_data(one, *text))
    )
    for one in _blocks(program):
        if not any(one is held for held in program.expressions):
            continue
        for start, end in _texts(one):
            data = _data(one, start, end)
            for found in _NUMBER.finditer(data):
                value = int(found[0])
                near = [b"%d" % other for other in (value + 1, value - 1, value * 2, value // 2, 0) if other >= 0]
                for text in dict.fromkeys([*near, *numbers]):
                    if text != found[0]:
                        yield _changed(one, start + found.start(), start + found.end(), text, "immediate")
            yield from _qualifiers(one, start, data)


def _qualifiers(one: Expression, start: int, data: bytes) -> Iterator[Draft]:
    for pattern, word in _QUALIFIERS:
        for found in pattern.finditer(data):
            at = found.end()
            if data[at : at + len(word)] == word:
                yield _changed(one, start + at, start + at + len(word), b"", "qualifier")
            else:
                yield _changed(one, start + at, start + at, word, "qualifier")
    for first, second in _SWAPPED:
        for old, new in ((first, second), (second, first)):
            at = data.find(old)
            if at >= 0:
                yield _changed(one, start + at, start + at + len(old), new, "qualifier")


def _blocks(program: Program) -> list[Expression]:
    return [one for one in program.all_expressions() if one.kind == "assembly"]


def _texts(one: Expression) -> list[tuple[int, int]]:
    """The parts of the template, constraints left out."""
    code = one.node.child_by_field_name("assembly_code")
    if code is None:
        return []
    return [(part.start_byte, part.end_byte) for part in descendants(code, "string_content")]


def _data(one: Expression, start: int, end: int) -> bytes:
    return one.unit.source.data[start:end]


def _changed(one: Expression, start: int, end: int, text: bytes, role: str) -> Draft:
    old = _data(one, start, end).decode("ascii", "replace")
    new = text.decode("ascii", "replace")
    edit = one.unit.edit(start, end, new)
    note = f"{new} for {old}" if old and new else f"with {new}" if new else f"without {old}"
    return Draft((edit,), "static", role, note)
