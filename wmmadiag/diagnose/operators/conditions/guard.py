"""Guards of statements and values, more or fewer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.csource.scalars import scalar_named
from wmmadiag.diagnose.operators.comparisons import Comparisons, comparisons, coordinates_in, varying_names
from wmmadiag.diagnose.operators.expressions.identity import extremes_begun_with
from wmmadiag.diagnose.operators.making import Draft, Text, indent, replaced, statement_replaced, text_of
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import fallbacks, zero_of

_CHOSEN = 6
"""Comparisons that choose a thread, for one store."""
_TWO = 4
"""Comparisons of two coordinates, for one store."""
_WIDE = {"16": "uint4", "8": "uint2", "4": "unsigned"}
_PLACES = frozenset({"name", "subscript"})
_SIZE_OF = re.compile(r"sizeof\s*\(\s*([\w:]+)\s*\)")


@operator
def guard_less(program: Program) -> Iterator[Draft]:
    """A branch taken always, or never; one value of a conditional in place of it."""
    for statement in program.statements:
        if statement.kind == "if" and statement.condition is not None:
            for number, branch in enumerate(statement.children):
                when = "always" if number == 0 else "never"
                yield statement_replaced(statement, branch.source, f"{statement.condition.text} {when}")
    for one in program.expressions:
        if one.kind == "conditional" and len(one.operands) == 3:
            for kept in one.operands[1:]:
                if one.type.takes(kept.type) or kept.kind != "literal":
                    yield replaced(one, text_of(kept), f"{kept.text} always")


@operator
def guard_more(program: Program) -> Iterator[Draft]:
    """A store only where a coordinate of it is below a bound, or two are, or one of the threads that store the same
    does it."""
    known = comparisons(program)
    for statement in program.statements:
        target = stored(statement)
        if target is None:
            continue
        names = varying_names(statement.expressions[0])
        chosen = (one for one in _choosing(program) if pools(program).visible(one, target))
        told = [text_of(one) for one, _ in zip(chosen, range(_CHOSEN), strict=False) if not one.names & target.names]
        whole = statement.expressions[0]
        two = list(known.both(whole, coordinates_in([whole])))[:_TWO]
        for condition in (*two, *_conditions(known, whole, names), *told):
            yield statement_replaced(
                statement, f"if ({condition.text}) {statement.source}", f"if {condition.text}", "guard"
            )


def _choosing(program: Program) -> list[Expression]:
    """Comparisons that one of several threads fulfils, each text once."""
    found: dict[str, Expression] = {}
    for one in program.all_expressions():
        if one.kind == "binary" and one.operator == "==" and varying_names(one) and one.operands[1].varying is not True:
            found.setdefault(one.text, one)
    return list(found.values())


@operator
def value_guarded(program: Program) -> Iterator[Draft]:
    """A value only where a comparison holds, or what is true of a variable that nothing reads, and nought, or what
    stands for it elsewhere, where it does not."""
    known, begun = comparisons(program), extremes_begun_with(program)
    for one in program.expressions:
        if one.type.kind not in ("float", "half", "byte", "record") or one.fixed or not fresh(one):
            continue
        nought, *others = fallbacks(program, one) or [""]
        for name in sorted(one.names) if nought else ():
            for other in others:
                held = next(part for part in one.under() if part.text == name)
                if held.type.kind == "float" and held.varying is not False and other not in one.names:
                    text = f"{name} == {other} ? {nought} : {one.text}"
                    yield replaced(one, Text(text, precedence.CONDITIONAL), f"{nought} where {name} is {other}")
        kept = (part for part in one.under() if nought and part.kind in _PLACES and part.type.kind == "float")
        for place, name in dict.fromkeys((part.text, part.base("subscript").text) for part in kept):
            for start in begun.get(name, ()):
                text = f"{place} == {start} ? {nought} : {one.text}"
                yield replaced(one, Text(text, precedence.CONDITIONAL), f"{nought} where {place} is {start}")
        for condition in known.donors(one, varying_names(one)):
            yield from _guarded(program, one, condition)
        for condition in known.built(one, coordinates_in([one])):
            yield from _guarded(program, one, condition)
    for body in program.bodies:
        yield from _where_told(program, body)


def _where_told(program: Program, body: Body) -> Iterator[Draft]:
    wholes = [one for statement in body.statements for one in statement.expressions]
    read = {name for one in wholes for name in one.names}
    for one in (part for whole in wholes for part in whole.under()):
        asked = one.type.arithmetic and not one.fixed and program.may_be_changed(one) and _given(one)
        for atom in pools(program).at(one) if asked else ():
            if atom.type.kind == "bool" and atom.text == atom.root and atom.text not in read:
                yield from _guarded(program, one, Text(atom.text))


@operator
def else_nought(program: Program) -> Iterator[Draft]:
    """Nought stored where a guarded store of a value, or one at the end of what is guarded, stores none."""
    for statement in program.statements:
        if statement.kind != "if" or len(statement.children) != 1 or statement.condition is None:
            continue
        inner = statement.children[0]
        while inner.kind == "block" and len(inner.children) == 1:
            inner = inner.children[0]
        if inner.kind == "block" and statement.braced:
            yield from _otherwise(program, statement, inner)
        target = stored(inner)
        if target is None and statement.braced:
            yield from _copy_or_nought(statement, inner)
        if target is None or inner.expressions[0].operator != "=":
            continue
        nought = zero_of(program, target) or _empty(target)
        if nought is not None:
            value = inner.expressions[0].operands[1]
            condition = text_of(statement.condition)
            held = f"({condition.text})" if condition.level <= precedence.CONDITIONAL else condition.text
            text = f"{target.text} = {held} ? {value.text} : {nought};"
            yield statement_replaced(statement, text, f"{nought} where not {condition.text}")


def _otherwise(program: Program, statement: Statement, inner: Statement) -> Iterator[Draft]:
    """`else` nought where the last of several guarded statements stores to a place that is known outside as well."""
    last, condition = inner.children[-1] if inner.children else inner, statement.condition
    target = stored(last)
    made = {one.name for part in inner.children for one in part.declares}
    if target is None or condition is None or last.expressions[0].operator != "=" or made & target.names:
        return
    nought = zero_of(program, target) or _empty(target)
    if nought is not None:
        text = f"{statement.source}\n{indent(statement)}else {target.text} = {nought};"
        yield statement_replaced(statement, text, f"{nought} where not {condition.text}")


def _empty(target: Expression) -> str | None:
    """Nought of a vector type, as which memory is written."""
    cast = target.operands[0] if target.kind == "unary" else target
    held = cast.type.of if cast.kind == "cast" and cast.type.kind == "pointer" else None
    return f"{held.name}{{}}" if held is not None and held.kind in ("record", "named") and held.name else None


def _copy_or_nought(statement: Statement, inner: Statement) -> Iterator[Draft]:
    """`else` nought for a guarded asynchronous copy of 4, 8 or 16 bytes, or of as many as a type has."""
    call = inner.expression
    if call is None or call.operator != "__pipeline_memcpy_async" or len(call.operands) != 3:
        return
    size = call.operands[2].text
    named = _SIZE_OF.fullmatch(size)
    scalar = scalar_named(named[1]) if named is not None else None
    kind = named[1] if named is not None and scalar is not None and scalar.bytes in (4, 8, 16) else _WIDE.get(size)
    if kind is not None:
        nought = f"*reinterpret_cast<{kind}*>({call.operands[0].text}) = {kind}{{}};"
        text = f"{statement.source}\n{indent(statement)}else {nought}"
        yield statement_replaced(statement, text, "nought where nothing is copied")


def _guarded(program: Program, one: Expression, condition: Text) -> Iterator[Draft]:
    for nought in fallbacks(program, one):
        new = Text(f"{condition.text} ? {one.text} : {nought}", precedence.CONDITIONAL)
        yield replaced(one, new, f"{nought} where not {condition.text}")


def _conditions(known: Comparisons, one: Expression, names: frozenset[str]) -> Iterator[Text]:
    yield from known.donors(one, names)
    yield from known.built(one, coordinates_in([one]))


def stored(statement: Statement) -> Expression | None:
    """The place in memory that a statement, which is one assignment, stores to."""
    if statement.kind != "expression" or not statement.expressions or statement.expressions[0].kind != "assignment":
        return None
    target = statement.expressions[0].operands[0]
    return target if target.kind == "subscript" or (target.kind == "unary" and target.operator == "*") else None


def fresh(one: Expression) -> bool:
    """Whether it is a whole value: what is stored, added up, or given to a function of one argument."""
    return one.kind != "literal" and _given(one)


def _given(one: Expression) -> bool:
    """The same of a number."""
    if one.kind in ("conditional", "list", "assignment") or one.assigned:
        return False
    around = one.parent
    if around is None:
        return one.statement.kind in ("declaration", "return")
    return (around.kind == "assignment" and one.number == 1) or (around.kind == "call" and len(around.operands) == 1)
