"""What stands in inline assembly."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from wmmadiag.csource.nodes import descendants
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

# A number that is an operand, and no part of a name or of the number of a placeholder.
_NUMBER = re.compile(rb"(?<![\w.%])\d+(?![\w.])")
# PTX ISA: qualifiers that may be there or not.
_QUALIFIERS = ((re.compile(rb"ldmatrix\.[\w.]*?\.x[124]"), b".trans"),)
# PTX ISA, the qualifiers of each kind that an instruction may have one or several of.
_KINDS = tuple(
    tuple(words.split())
    for words in (
        "s4 u4", "s8 u8", "f16 bf16", "s32 u32", "s64 u64", "e4m3 e5m2", "f16x2 bf16x2", "rn rz rm rp", "row col",
        "ca cg cs", "up down bfly idx", "min max", "and or xor", "lo hi", "acquire release acq_rel relaxed",
        "cta gpu sys", "x1 x2 x4", "lt le gt ge eq ne",
    )
)  # fmt: skip
_QUALIFIER = re.compile(rb"(?<=\.)[a-z]\w*")
_INSTRUCTION = re.compile(rb"[^;{}]+")


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
    for instruction in _INSTRUCTION.finditer(data):
        yield from _others(one, start + instruction.start(), instruction[0])


def _others(one: Expression, start: int, instruction: bytes) -> Iterator[Draft]:
    """Qualifiers of one instruction for others of their kind: each, all that are the same, and two exchanged."""
    held = [(found.start(), found[0].decode()) for found in _QUALIFIER.finditer(instruction)]
    for kind in _KINDS:
        mine = [(at, word) for at, word in held if word in kind]
        for at, word in mine:
            for other in kind:
                if other != word:
                    yield _qualifiers_changed(one, start, [(at, word)], [other])
        for word in dict.fromkeys(word for _, word in mine):
            same = [(at, own) for at, own in mine if own == word]
            if len(same) > 1:
                yield from (_qualifiers_changed(one, start, same, [o] * len(same)) for o in kind if o != word)
        if len(mine) == 2 and mine[0][1] != mine[1][1]:
            yield _qualifiers_changed(one, start, mine, [word for _, word in mine[::-1]])


def _qualifiers_changed(one: Expression, start: int, old: Sequence[tuple[int, str]], new: Sequence[str]) -> Draft:
    """Qualifiers at some places of an instruction, as one edit from the first to the last."""
    first, last = old[0][0], old[-1][0] + len(old[-1][1])
    before = _data(one, start + first, start + last)
    text, position = b"", 0
    for (at, word), other in zip(old, new, strict=True):
        text += before[position : at - first] + other.encode()
        position = at - first + len(word)
    return _changed(one, start + first, start + last, text, "qualifier")


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
