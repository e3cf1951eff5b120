"""Something done to every element of a fragment before it is read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.operators.cuda_names import MULTIPLY, STORE
from wmmadiag.diagnose.operators.making import Draft, inserted_before, statement_replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_READ = {MULTIPLY: slice(1, 4), STORE: slice(1, 2)}
"""The arguments of a call that it reads as fragments."""
_MOST_LOOPS = 4


@operator
def fragment_mapped(program: Program) -> Iterator[Draft]:
    """Every element of a fragment negated before a product or store reads it; or what a loop elsewhere does to every
    element of another fragment, or a function of the program to a whole one."""
    done = _done_to_fragments(program)
    pool = pools(program)
    for statement in program.statements:
        whole = statement.expression
        if whole is None or whole.operator not in _READ or statement.unit.macro:
            continue
        for text in dict.fromkeys(one.text for one in whole.operands[_READ[whole.operator]]):
            yield _before(statement, f"for (int i_ = 0; i_ < {text}.num_elements; ++i_) {text}.x[i_] = -{text}.x[i_];",
                          f"{text} negated")  # fmt: skip
            there = {one.text for one in statement.block}
            for of, held, parts in done:
                made = re.sub(rf"(?<![\w.>]){re.escape(of)}(?!\w)", text, held)
                if made not in there and all(pool.visible(part, whole) for part in parts):
                    yield _before(statement, made, made[:60])


def _before(statement: Statement, text: str, note: str) -> Draft:
    if statement.braced:
        return inserted_before(statement, text, note, "statement")
    source = statement.source
    return statement_replaced(statement, f"{{ {text} {source} }}", note, "statement")


def _done_to_fragments(program: Program) -> list[tuple[str, str, list[Expression]]]:
    """Loops over all elements of a fragment that set each from itself, and calls that are given a fragment alone: the
    fragment, the statement, and what else it names."""
    found: dict[str, tuple[str, str, list[Expression]]] = {}
    for one in program.statements:
        inner = one.children[0] if one.kind == "loop" and len(one.children) == 1 else one
        while inner.kind == "block" and len(inner.children) == 1:
            inner = inner.children[0]
        whole = inner.expression
        if whole is None:
            continue
        if whole.kind == "assignment" and one.kind == "loop":
            of = _element_of(whole.operands[0])
        else:
            alone = inner is one and whole.kind == "call" and len(whole.operands) == 1 and whole.operator not in _READ
            of = whole.operands[0] if alone and whole.operands[0].type.kind == "fragment" else None
        if of is not None and (whole.kind == "call" or whole.operator != "=" or of.text in _named(whole.operands[1])):
            counters = {variable.name for variable in one.declares}
            parts = [part for held in (*one.expressions, *inner.expressions) for part in held.under()
                     if part.kind == "name" and part.text not in counters and part.text not in of.names]  # fmt: skip
            found.setdefault(one.text, (of.text, one.text, parts))
    return list(found.values())[:_MOST_LOOPS]


def _element_of(target: Expression) -> Expression | None:
    """The fragment of whose elements a place is one."""
    member = target.operands[0] if target.kind == "subscript" else None
    held = member.operands[0] if member is not None and member.kind == "member" else None
    return held if held is not None and held.type.kind == "fragment" else None


def _named(value: Expression) -> set[str]:
    return {part.text for part in value.under()}
