"""Another operator of its kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_WHOLE: Mapping[str, tuple[str, ...]] = {
    "+": ("-", "*", "<<"), "-": ("+",), "*": ("/", "+", "<<"), "/": ("%", "*"), "%": ("/",), "<<": (">>",),
    ">>": ("<<", "&"), "&": (">>", "|"), "|": ("&", "^"), "^": ("+", "|", "&"),
}  # fmt: skip
_REAL: Mapping[str, tuple[str, ...]] = {"+": ("-", "*"), "-": ("+",), "*": ("/", "+"), "/": ("*",)}
_ORDERED = frozenset({"-", "/", "%", "<<", ">>"})
_BITS = re.compile(r"\b0[xX](?![fF]+\b)")
_OTHERS = 3
"""Other sizes that are rounded up in place of one."""


@operator
def rounded(program: Program) -> Iterator[Draft]:
    """`(a + b - 1) / b` for `a / b`, where neither differs between threads; and of another size in place of `a`."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("/", ">>") or not one.type.whole or one.varying is not False:
            continue
        left, right = one.operands
        size = text_of(right) if one.operator == "/" else binary(Text("1"), "<<", text_of(right))
        others = names_for(program, left, _OTHERS) if left.atom and left.kind != "literal" else ()
        for whole in (text_of(left), *(Text(atom.text, precedence.POSTFIX) for atom in others)):
            more = binary(binary(whole, "+", size), "-", Text("1"))
            note = binary(whole, one.operator, text_of(right)).text
            yield replaced(one, binary(more, one.operator, text_of(right)), f"{note} rounded up")


@operator
def group(program: Program) -> Iterator[Draft]:
    """`x / (m / n)` for `x % n`: the groups that `n` of `m` make one after the other, not in turn."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator != "%" or not one.type.whole or not one.operands[1].atom:
            continue
        left, right = one.operands
        if right.kind == "literal" or right.varying is not False:
            continue
        for atom in names_for(program, right, 2):
            size = binary(Text(atom.text, precedence.POSTFIX), "/", text_of(right))
            yield replaced(one, binary(text_of(left), "/", size))


@operator
def sign_apart(program: Program) -> Iterator[Draft]:
    """`(x & 0x80008000u) | (x >> n & …)` for `x >> n` beside other work on bits: each half's own bits shifted and its
    sign kept; so of bytes."""
    for one in program.expressions:
        by, root = one.operands[1].text if one.operator == ">>" else "", one.statement.function.root
        if not by.isdecimal() or not one.operands[0].atom or root is None:
            continue
        for width in (16, 8) if _BITS.search(one.unit.source.code_text(root.start, root.end)) else ():
            parts = sum(1 << at for at in range(0, 32, width))
            sign, rest = parts << (width - 1), parts * ((1 << max(width - 1 - int(by), 0)) - 1)
            held = f"(({one.operands[0].text} & 0x{sign:08x}u) | ({text_of(one).text} & 0x{rest:08x}u))"
            if rest:
                yield replace(replaced(one, Text(held), f"the sign of each {width} bits kept"), role="value")


@operator
def operation(program: Program) -> Iterator[Draft]:
    """`-` for `+`, `%` for `/`, `>>` for `&`, and so on, the operands in either order: `1 << i` for `i + 1`."""
    for one in program.expressions:
        if one.kind != "binary" or one.type.kind not in ("integer", "float", "half"):
            continue
        left, right = one.operands
        for symbol in (_WHOLE if one.type.whole else _REAL).get(one.operator, ()):
            for first, second in ((left, right), (right, left))[: 1 + (symbol in _ORDERED)]:
                if _sensible(one.operator, first, symbol, second):
                    new = binary(text_of(first), symbol, text_of(second))
                    yield replaced(one, new, f"{symbol} for {one.operator} in {one.text}")


def _sensible(old: str, left: Expression, symbol: str, right: Expression) -> bool:
    # A shift is by a number, or a power of two; a product of places divided by something is no place.
    if symbol == "<<" and old in ("+", "*"):
        return left.text in ("1", "1u", "2") and right.kind != "literal"
    if symbol in ("<<", ">>"):
        return right.varying is False
    if left.type.whole and (symbol == "*" or (symbol == "+" and right.type.whole)):
        # A place times a size, or beside it.
        return right.atom and right.varying is not True and left.varying is not False
    return not (symbol == "/" and left.varying is False and right.varying is not False and left.type.whole)
