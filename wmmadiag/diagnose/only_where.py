"""What mends some cases and spoils others, made only where a condition holds: a special case is missing.

Conditions are those that the source asks or keeps somewhere and that can be asked here, and whether a loop is in its
first round ("condition introduction" of staged program repair, Long and Rinard, ESEC/FSE 2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wmmadiag.csource import precedence
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.operators.making import Text, binary, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.ranking import Ranked

CHOSEN = "only_where"
"""The operator of a change that is made only where a condition holds."""
_MOST = 24
_COMPARED = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||"})


def only_where(program: Program, some: Sequence[Ranked]) -> list[Ranked]:
    """Some changes, each under every condition that its place knows, and under its opposite. Each of these is as likely
    as the change is, shared among all of its conditions."""
    found: list[Ranked] = []
    for one in some:
        made = list(_under_conditions(program, one.change))
        found += [replace(one, change=change, score=one.score - math.log(len(made))) for change in made]
    return found


def _under_conditions(program: Program, change: Change) -> Iterator[Change]:
    edit = change.edits[0]
    if len(change.edits) != 1 or change.kind not in ("expression", "insertion"):
        return
    inserted = edit.start == edit.end
    if inserted:
        place = _statement_at(program, edit.file, edit.start)
        at = next(place.whole_expressions(), None) if place is not None else None
    else:
        at = _expression_at(program, edit.file, edit.start, edit.end)
    if at is None or at.fixed or at.assigned:
        return
    for condition in _conditions(program, at):
        for held, note in ((condition, condition.text), (_opposite(condition), f"not {condition.text}")):
            if inserted:
                text = edit.text.replace(edit.text.strip(), f"if ({held.text}) {{ {edit.text.strip()} }}", 1)
            else:
                asked = wrapped(held, precedence.CONDITIONAL + 1)
                text = f"{asked} ? {edit.text} : {at.text}"
                text = text if at.needs() <= precedence.CONDITIONAL else f"({text})"
            yield Change(CHOSEN, (replace(edit, text=text),), change.kind, change.role, f"{change.note}, where {note}")


def _conditions(program: Program, at: Expression) -> list[Text]:
    """The conditions that can be asked at a place, those that stand nearest to it first."""
    pool = pools(program)
    asked = [one for one in program.all_expressions() if _asks(one) and pool.visible(one, at)]
    asked.sort(key=lambda one: (one.unit is not at.unit, abs(one.start - at.start)))
    flags = (Text(atom.text) for atom in pool.at(at) if atom.type.kind == "bool" and atom.root)
    found = [*_first_rounds(at), *flags, *(text_of(one) for one in asked if not at.start <= one.start < at.end)]
    return list({one.text: one for one in found}.values())[:_MOST]


def _asks(one: Expression) -> bool:
    """Whether it is a whole comparison, of numbers that are known when the kernel runs."""
    around = one.parent
    part = around is not None and around.kind == "binary" and around.operator not in ("&&", "||")
    return one.kind == "binary" and one.operator in _COMPARED and not part and not one.fixed


def _first_rounds(at: Expression) -> Iterator[Text]:
    """Whether the loops around a place are in their first round."""
    for loop in at.statement.loops:
        for variable in loop.declares:
            value = variable.value
            if value is not None and variable.name:
                first = loop.unit.source.text(value)
                yield binary(Text(variable.name), "==", Text(first, precedence.BINARY["+"]))


def _opposite(condition: Text) -> Text:
    return Text(f"!{wrapped(condition, precedence.UNARY)}", precedence.UNARY)


def _expression_at(program: Program, file: str, start: int, end: int) -> Expression | None:
    """The expression that stands at these bytes, with or without the parentheses around it."""
    for one in program.expressions:
        base = one.unit.base
        spans = (one.start, one.end), one.whole
        if one.unit.file == file and (start - base, end - base) in spans:
            return one
    return None


def _statement_at(program: Program, file: str, offset: int) -> Statement | None:
    """The innermost statement that ends or begins nearest to an offset."""
    own = [one for one in program.statements if one.unit.file == file and one.expressions]
    return min(own, key=lambda one: min(abs(one.start + one.unit.base - offset), abs(one.end + one.unit.base - offset)),
               default=None)  # fmt: skip
