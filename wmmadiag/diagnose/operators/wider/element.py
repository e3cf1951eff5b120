"""An element of an array that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import zero_of

_ROLES = frozenset({"value", "factor", "term", "denominator", "initial value"})
_REAL = frozenset({"float", "half"})
_MOST_INDICES = 8
_OPERATORS = ("+", "*", "-")


@operator
def element_more(program: Program) -> Iterator[Draft]:
    """`x + t[i]`, `x * t[i]`, `x - t[i]` and `t[i] > 0 ? x : 0` for a real `x`, and `t[i]` for it, with an array `t` of
    reals that nothing reads and an index `i`: of an array, or one that is held to a size."""
    pool = pools(program)
    indices = {
        one.text: one
        for role in ("compared", "index")
        for one in program.all_expressions()
        if one.role == role and one.type.whole and one.varying is not False and one.kind != "literal"
    }
    for one in program.expressions:
        if one.kind == "assignment" or one.type.kind not in _REAL or one.role not in _ROLES:
            continue
        if one.assigned or one.fixed or not _whole(one):
            continue
        tables = [atom for atom in pool.at(one) if _idle(program, atom)]
        if not tables:
            continue
        for index in _indices(program, one, indices):
            for table in tables:
                made = _read(table, index, one)
                yield replaced(one, made)
                if one.kind != "literal":
                    for symbol in _OPERATORS:
                        yield replaced(one, binary(text_of(one), symbol, made), f"{symbol} {made.text}")
                    yield replaced(one, _where(program, table, index, one), f"where {made.text} is more than nought")


def _where(program: Program, table: Atom, index: str, one: Expression) -> Text:
    """`t[i] > 0.0f ? x : 0.0f`: what passes a rectifier goes back through it."""
    nought = zero_of(program, one) or "0.0f"
    held = table.type.of
    single = f"{table.text}[{index}]"
    if held is not None and held.kind == "half":  # which is compared with no float
        single = f"static_cast<float>({single})"
    text = f"{single} > 0.0f ? {wrapped(text_of(one), precedence.UNARY)} : {nought}"
    return Text(text, precedence.CONDITIONAL)


def _idle(program: Program, atom: Atom) -> bool:
    """Whether it is an array of reals that nothing names."""
    held = atom.type.of if atom.type.address else None
    return held is not None and held.kind in _REAL and atom.text not in pools(program).roles


def _indices(program: Program, one: Expression, known: dict[str, Expression]) -> list[str]:
    """The coordinates in scope that its own statement names, the last declared, and what indexes arrays elsewhere."""
    pool = pools(program)
    near = {name for whole in one.statement.expressions for name in whole.names}
    atoms = [
        atom.text for atom in pool.at(one) if atom.type.whole and atom.varying is not False and atom.root == atom.text
    ]
    atoms.sort(key=lambda text: text not in near)
    others = [text for text, other in known.items() if pool.visible(other, one)]
    return list(dict.fromkeys([*atoms[:_MOST_INDICES], *others[:_MOST_INDICES]]))


def _read(table: Atom, index: str, one: Expression) -> Text:
    text = f"{table.text}[{index}]"
    held = table.type.of
    if held is not None and held.kind == "half" and one.type.kind == "float":
        text = f"static_cast<float>({text})"
    return Text(text, precedence.POSTFIX)


def _whole(one: Expression) -> bool:
    """Whether it is a value of its own: no part of a product or sum, and not the reading of an array."""
    around = one.parent
    return around is None or around.kind not in ("binary", "member", "subscript")
