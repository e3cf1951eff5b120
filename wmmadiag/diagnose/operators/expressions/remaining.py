"""What is left of all, where a piece may be the last one; and where a piece ends, for the end of all."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.composed import bounds
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.wider.piece_end import is_size, pieces

_MOST = 4


@operator
def remaining(program: Program) -> Iterator[Draft]:
    """`min(s, n - x)` for a count `s`, where pieces of `s` begin at an `x` or at an `i * s`, and for each `n` that
    something is held to."""
    sized = [(name, size.text) for name, sizes in pieces(program).items() for size in sizes]
    begun = _begun(program)
    pool = pools(program)
    for one in program.expressions:
        around = one.parent
        counts = around is None or around.kind == "call" or around.type.kind == "bool"
        if not one.atom or not one.type.whole or one.varying is not False or one.fixed or not counts:
            continue
        visible = {atom.text for atom in pool.at(one)}
        starts = [Text(name) for name, size in sized if size == one.text and name in visible]
        starts += [
            text_of(start) for start, size in begun
            if size == one.text and start.statement is not one.statement and pool.visible(start, one)
        ]  # fmt: skip
        constant = {atom.text for atom in pool.at(one) if atom.constant}
        for start in dict.fromkeys(starts):
            given = [bound for bound in bounds(program, one) if bound.text not in (start.text, one.text)]
            for bound in [each for each in given if each.text not in constant][:_MOST]:
                left = binary(bound, "-", start)
                yield replaced(one, Text(f"min({one.text}, {left.text})", precedence.POSTFIX), f"at most {left.text}")


def _begun(program: Program) -> list[tuple[Expression, str]]:
    """Each product of a whole number and a size, where a piece of that size may begin, with the size."""
    found: dict[tuple[str, str], Expression] = {}
    for one in program.all_expressions():
        if one.kind == "binary" and one.operator == "*" and one.type.whole:
            for size in one.operands:
                if is_size(size):
                    found.setdefault((one.text, size.text), one)
    return [(one, size) for (_, size), one in found.items()]


@operator
def to_piece_end(program: Program) -> Iterator[Draft]:
    """`x < i * s + s` for a loop that begins at `i * s` and goes on to the end of all, and the same for a loop that
    begins at a variable that was made so."""
    known = pieces(program)
    for loop in program.statements:
        held = _counting(loop)
        if held is None:
            continue
        counter, bound = held.operands
        if [variable.name for variable in loop.declares] != [counter.text]:
            continue
        for start in (one for one in loop.expressions if one.role == "loop start" and one.parent is None):
            for size in _factors(start) or known.get(start.text, []):
                yield replaced(bound, binary(text_of(start), "+", text_of(size)))


def _counting(loop: Statement) -> Expression | None:
    """The condition by which a loop's counter stays below something; None of any other loop."""
    held = loop.condition if loop.kind == "loop" else None
    return held if held is not None and held.operator in ("<", "<=") and len(held.operands) == 2 else None


def _factors(start: Expression) -> list[Expression]:
    """Of a product, the factors that all threads have alike: sizes of pieces."""
    start = sums.uncast(start)
    if start.kind != "binary" or start.operator != "*":
        return []
    return [one for one in start.operands if one.type.whole and one.varying is False and one.kind != "literal"]
