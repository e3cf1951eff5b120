"""Where a function is left early."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Body, Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_BOUNDS, _MOST_COORDINATES = 3, 2


@operator
def returned(program: Program) -> Iterator[Draft]:
    """`if (c >= n) return;` after the coordinates of a kernel were made, for one of them or for two."""
    pool = pools(program)
    for body in program.bodies:
        if not body.kernel or body.root is None:
            continue
        before: list[str] = []
        for statement in body.root.children:
            if statement.kind != "declaration":
                break
            for variable in statement.declares:
                whole = program.reader.type_of(variable).whole
                if whole and program.reader.varies(variable) and not variable.dimensions:
                    before.append(variable.name)
        last = next((one for one in reversed(body.root.children) if _declares(one, before[-1:])), None)
        if last is None or not before or last not in program.statements:
            continue
        held = next((one for one in (*last.block[last.index + 1 :], last) if one.expressions), None)
        bounds = [atom for atom in pool.at(held.expressions[0]) if _bound(atom)] if held is not None else []
        single = [f"{name} >= {bound.text}" for name in before[-_MOST_COORDINATES:] for bound in bounds[:_MOST_BOUNDS]]
        pairs = [f"{a} || {b}" for a, b in itertools.combinations(single, 2) if not _overlap(a, b)]
        for condition in [*single, *pairs]:
            yield inserted_after(last, f"if ({condition}) return;", f"return where {condition}", "branch")


def _declares(one: object, names: list[str]) -> bool:
    declared = {variable.name for variable in getattr(one, "declares", ())}
    return bool(declared.intersection(names))


def _bound(atom: Atom) -> bool:
    return atom.type.whole and atom.varying is False and not atom.constant and atom.root == atom.text


def _overlap(first: str, second: str) -> bool:
    return bool({first.split()[0], first.split()[2]} & {second.split()[0], second.split()[2]})


_VALUES = {"float": ("1.0f", "0.0f"), "integer": ("1", "0")}
_COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!="})
_MOST_PAIRS, _MOST_PLACES = 2, 4


@operator
def returned_where_told(program: Program) -> Iterator[Draft]:
    """`if (flag && i == j) return 1.0f;` in a function with a flag that nothing in it reads, and two whole numbers that
    it compares or holds to the same bound; or where the flag says so alone."""
    for body in program.bodies:
        returns = [one for one in body.statements if one.kind == "return" and one.expressions]
        if body.kernel or body.root is None or not returns:
            continue
        flags = list(_unread(body))
        pairs = list(dict.fromkeys(_pairs(body)))[:_MOST_PAIRS] if flags else []
        values = _values(returns)
        places = [one for one in body.root.children if one.kind in ("return", "if")][:_MOST_PLACES]
        compared = [f" && {a} {symbol} {b}" for a, b in pairs for symbol in ("==", "<", ">", "!=")]
        for flag, place, told, value in itertools.product(flags, places, (*compared, ""), values):
            text = f"if ({flag}{told}) return {value};"
            yield inserted_before(place, text, f"{text[:-1]} before this line", "branch")


def _unread(body: Body) -> Iterator[str]:
    """The parameters of a function and its template that are flags, and that nothing in it names."""
    function, root = body.function, body.root
    if function is None or root is None or body.unit.macro:
        return
    text = body.unit.source.code_text(root.start, root.end)
    held = [(one.name, one.type) for one in function.parameters]
    held += [(one.name, one.type) for one in function.template or ()]
    for name, kind in held:
        if name and kind.split()[-1:] == ["bool"] and not re.search(rf"\b{name}\b", text):
            yield name


def _pairs(body: Body) -> Iterator[tuple[str, str]]:
    """Names of whole numbers that are compared with each other, and those that are with the same."""
    held: dict[str, list[str]] = {}
    for one in (part for whole in (body.root.whole_expressions() if body.root else ()) for part in whole.under()):
        if one.kind == "binary" and one.operator in _COMPARED and all(_counts(part) for part in one.operands):
            first, second = one.operands
            if first.varying is not False and second.varying is not False:
                yield min(first.text, second.text), max(first.text, second.text)
            elif first.varying is not False:
                held.setdefault(second.text, []).append(first.text)
    for names in held.values():
        yield from ((min(pair), max(pair)) for pair in itertools.combinations(dict.fromkeys(names), 2))


def _counts(one: Expression) -> bool:
    return one.kind == "name" and one.type.whole


def _values(returns: list[Statement]) -> list[str]:
    """One, nought, and the numbers that the function returns elsewhere."""
    own = [part.text for one in returns for part in one.expressions[0].under() if part.kind == "literal"]
    kind = returns[0].expressions[0].type.kind
    return list(dict.fromkeys((*_VALUES.get(kind, ()), *own)))[:3] if kind in _VALUES else []
