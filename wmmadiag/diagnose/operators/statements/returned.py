"""Threads that have nothing to do sent away."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after
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
