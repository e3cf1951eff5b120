"""Where the part of an array begins that a block is about."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, inserted_after, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_SIZES = 10


@operator
def begins_alike(program: Program) -> Iterator[Draft]:
    """`q += c * s;` after `p += c * s * t + …;`, for a pointer `q` that no statement of the function moves: all that is
    added, each term, and each product that a term begins with; and `c` times other sizes."""
    pool = pools(program)
    moved: dict[int, list[tuple[Statement, Expression, Expression]]] = {}
    for statement in program.statements:
        whole = statement.expressions[0] if statement.kind == "expression" and len(statement.expressions) == 1 else None
        if whole is not None and whole.kind == "assignment" and whole.operator == "+=" and statement.braced:
            target, value = whole.operands
            if target.kind == "name" and target.type.kind == "pointer":
                moved.setdefault(id(statement.function), []).append((statement, target, value))
    for some in moved.values():
        known = {target.text for _, target, _ in some}
        last = some[-1][0]
        own = next(iter(last.whole_expressions()))
        scope = last.unit.scopes.at(own.start)
        still = [atom.text for atom in pool.at(own) if atom.type.kind == "pointer" and atom.text == atom.root
                 and atom.text in scope and scope[atom.text].kind == "parameter"]  # fmt: skip
        added = {text.text: text for _, _, value in some for text in _parts(value)}
        for name in still:
            if name not in known:
                for text in (added | _others(program, own, some[-1][2])).values():
                    made = f"{name} += {text.text};"
                    yield inserted_after(last, made, f"{made[:-1]}, as beside it", "offset")


def _others(program: Program, at: Expression, value: Expression) -> dict[str, Text]:
    """What a term begins with times one size or two that are visible: a matrix of another shape is begun otherwise."""
    pool, made = pools(program), dict[str, Text]()
    wanted = frozenset({"pitch", "bound", "loop bound", "extent"})
    fixed = (atom for atom in pool.at(at) if atom.type.whole and atom.varying is False)
    sizes = [Text(one.text, precedence.POSTFIX) for one in fixed if pool.roles.get(one.text, frozenset()) & wanted]
    firsts = {term.factors[0].text: text_of(term.factors[0]) for term in sums.terms(value) if len(term.factors) > 1}
    for first in firsts.values():
        for number, size in enumerate(sizes[:_MOST_SIZES]):
            one = binary(first, "*", size)
            for text in (one, *(binary(one, "*", other) for other in sizes[number:_MOST_SIZES])):
                made[text.text] = text
    return made


def _parts(value: Expression) -> Iterator[Text]:
    """What is added: all of it, its terms, and what these begin with."""
    yield text_of(value)
    for term in sums.terms(value):
        made = text_of(term.factors[0])
        yield made
        for factor in term.factors[1:]:
            made = binary(made, "*", text_of(factor))
            yield made
