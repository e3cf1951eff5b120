"""A statement that stands beside one of two alike put beside the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.operators.cuda_names import NAMES
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import renamed, renaming, shape, shapes, tokenized

_LONGEST = 90
_MOST_PLACES = 16
_MOST = 8
_LONGEST_RUN = 4


@operator
def parallel(program: Program) -> Iterator[Draft]:
    """Where `a(x); b(x);` stands and `a(y);` alone: `b(y);` after it; and the same of what stands before; and behind
    what both have beside them."""
    known = shapes(program)
    for one in program.statements:
        for step in (-1, 1):
            if not one.braced or not 0 <= one.index + step < len(one.block):
                continue
            for other in known.like(one)[:_MOST]:
                names = renaming(known.tokens(one), known.tokens(other)) if other.braced else None
                if names is not None:
                    yield from _missing(program, one, other, names, step)


def _missing(program: Program, one: Statement, other: Statement, names: dict[str, str], step: int) -> Iterator[Draft]:
    """What stands beside a statement, or behind what both have beside them, and not beside another one like it."""
    first = one
    for _ in range(_LONGEST_RUN):
        if not 0 <= one.index + step < len(one.block):
            return
        donor = one.block[one.index + step]
        tokens = tokenized(donor)
        # What is declared here may be set there.
        declared = donor.kind == "declaration" and tokens and tokens[0].start == donor.start
        if donor.kind not in ("expression", "if", "loop", "declaration") or len(tokens) > _LONGEST or declared:
            return
        at = other.index + step
        beside = other.block[at] if 0 <= at < len(other.block) else None
        if beside is not None and shape(tokenized(beside)) == shape(tokens):
            further = renaming(tokens, tokenized(beside))
            if further is None or any(names.get(name, text) != text for name, text in further.items()):
                return
            names, one, other = {**names, **further}, donor, beside
            continue
        if _visible(program, donor, other, names):
            text = renamed(donor, tokens, names)
            note = f"{text[:50]} as beside line {first.unit.source.place(first.node).line}"
            inserted = inserted_after if step > 0 else inserted_before
            yield inserted(other, text, note, donor.role)
        return


@operator
def filled_again(program: Program) -> Iterator[Draft]:
    """`v = f(p); a(x, v); v = f(q); a(y, v);` for `v = f(p); a(x, v); a(y, v);`, with another array `q` in scope."""
    known, pool = shapes(program), pools(program)
    for one in program.statements:
        if not one.braced or one.kind != "expression" or one.index + 1 >= len(one.block):
            continue
        then = one.block[one.index + 1]
        alike = then.kind == "expression" and shape(known.tokens(one)) == shape(known.tokens(then))
        names = renaming(known.tokens(one), known.tokens(then)) if alike else None
        names = {name: other for name, other in names.items() if name != other} if names else None
        run = _filling(one) if names and len(names) == 1 else []
        if not run or names is None:
            continue
        read = {part.text: part for held in run for part in held.expressions[0].operands[-1].under()
                if part.kind == "name" and part.type.address}  # fmt: skip
        for text, part in read.items():
            for atom in pool.at(part):
                if atom.type == part.type and atom.text == atom.root and atom.text != text:
                    exchanged = {**names, text: atom.text}
                    made = " ".join(renamed(held, tokenized(held), exchanged) for held in run)
                    note = f"{made[:60]} before line {then.unit.source.place(then.node).line}"
                    yield inserted_before(then, made, note, run[0].role)


@operator
def for_unread(program: Program) -> Iterator[Draft]:
    """`f(y);` at any place of the block behind `f(x);`, for a local `y` of the same type that is set and never read."""
    for one, variable in _unread(program):
        for held in one.statement.function.statements:
            if held.kind != "expression" or not held.braced or held.unit.macro:
                continue
            under = held.own_parts()
            names = {part.text for part in under if part.kind == "name" and part.type == one.type and not part.assigned}
            later = [place for place in held.block[held.index + 1 :] if place.start > one.end
                     and program.names_at(place.unit, place.start).get(one.text) is variable]  # fmt: skip
            for name, place in itertools.product(sorted(names), later[:_MOST_PLACES]):
                text = renamed(held, tokenized(held), {name: one.text})
                yield inserted_before(place, text, f"{text[:60]} for {one.text}, which nothing reads", held.role)


def _unread(program: Program) -> Iterator[tuple[Expression, Variable]]:
    """The local variables that are set and never read, each where it is named last."""
    named: dict[tuple[int, str], list[Expression]] = {}
    for one in program.all_expressions():
        if one.kind == "name":
            named.setdefault((id(one.statement.function), one.text), []).append(one)
    for (_, name), uses in named.items():
        variable = program.names_at(uses[-1].unit, uses[-1].start).get(name)
        if variable is not None and variable.kind == "local" and all(one.assigned for one in uses):
            yield uses[-1], variable


def _filling(one: Statement) -> list[Statement]:
    """The assignments right before a statement that make what it names."""
    named = {name for whole in one.expressions for name in whole.names}
    run: list[Statement] = []
    for before in one.block[: one.index][::-1]:
        whole = before.expressions[0] if before.kind == "expression" and len(before.expressions) == 1 else None
        if whole is None or whole.kind != "assignment" or not whole.operands[0].names & named:
            break
        run.insert(0, before)
    return run[-_LONGEST_RUN:]


def _visible(program: Program, donor: Statement, at: Statement, names: Mapping[str, str]) -> bool:
    scope = program.names_at(at.unit, at.end)
    own = {variable.name for statement in donor.under() for variable in statement.declares}
    if donor.kind == "declaration" and not all(names.get(name, name) in scope for name in own):
        return False
    for one in donor.all_parts():
        if one.kind == "name" and one.text not in own and one.type.kind != "function":
            text = names.get(one.text, one.text)
            if not (text in scope or text in NAMES or "::" in text or text in program.reader.constants):
                return False
    return True
