"""Which names and numbers are worth trying for one that stands somewhere."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource.types import Type
from wmmadiag.diagnose.operators.cuda_names import LAUNCH_VARIABLES, THREAD_VARIABLES
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools

# Where a number may have been a name: the places whose value is the same for all threads.
_SIZES = frozenset(
    {"leading dimension", "pitch", "bound", "loop bound", "dimension", "divisor", "loop step", "template argument",
     "extent", "count", "copied bytes", "constant"}
)  # fmt: skip
_PITCHES = frozenset({"leading dimension", "pitch"})
_MOST = 8


def replaceable(one: Expression) -> bool:
    """Whether an expression is a name that another one may stand for."""
    if one.kind not in ("name", "member") or not one.atom or one.type.kind in ("unknown", "function", "enum"):
        return False
    if one.parent is not None and one.parent.kind == "member":
        return False
    return not counts_loop(one)


def counts_loop(one: Expression) -> bool:
    """Whether it is the variable that a loop's own head counts."""
    if one.statement.kind != "loop" or one.kind != "name":
        return False
    return one.text in {variable.name for variable in one.statement.declares} and one.role != "index"


def names_for(program: Program, one: Expression, most: int = _MOST) -> list[Atom]:
    """The atoms that may stand for a name or a number, the likeliest first.

    First its siblings in the same object, then what nothing uses, what is used elsewhere for the same, and the rest.
    """
    pool = pools(program)
    of = one.text[: len(one.text) - len(one.operator)] if one.kind == "member" else one.text.rpartition("::")[0]
    own = in_own_array(one)
    counters = {variable.name for loop in one.statement.loops for variable in loop.declares} if own else set()
    rated = []
    for place, atom in enumerate(pool.at(one)):
        if atom.text == one.text or not _fits(one, atom):
            continue
        # Registers have indices that the compiler knows once loops are unrolled.
        if own and atom.varying is not False and atom.text not in counters:
            continue
        roles = pool.roles.get(atom.text)
        if roles is None and not atom.root and not atom.constant and not _built_in(one):
            continue  # an axis of the launch that nothing uses
        sibling = bool(of) and atom.text.startswith(of)
        rated.append((not sibling, roles is not None and one.role not in roles, roles is None, place, atom))
    return [row[-1] for row in sorted(rated, key=lambda row: row[:-1])][:most]


def _built_in(one: Expression) -> bool:
    return one.kind == "member" and one.operands[0].text in THREAD_VARIABLES | LAUNCH_VARIABLES


def in_own_array(one: Expression) -> bool:
    """Whether it is part of an index of an array, or of a fragment, that each thread has for itself."""
    around: Expression | None = one
    while around is not None and not (around.role == "index" and around.number > 0):
        around = around.parent
    base = around.parent if around is not None else None
    while base is not None and base.kind == "subscript":
        base = base.operands[0]
    if base is None:
        return False
    if base.kind == "member":
        return base.operands[0].type.kind in ("fragment", "array")
    if base.kind != "name" or base.type.kind != "array":
        return False
    variable = base.unit.scopes.at(base.start).get(base.text)
    return variable is not None and variable.kind == "local" and not variable.shared and bool(variable.dimensions)


def _fits(one: Expression, atom: Atom) -> bool:
    if one.type.kind == "fragment":
        return _same_use(one.type, atom.type)
    if not one.type.takes(atom.type) or (one.fixed and not atom.constant):
        return False
    if one.assigned and (atom.constant or atom.type.constant):
        return False
    return one.varying == atom.varying or None in (one.varying, atom.varying) or one.type.kind != "integer"


def _same_use(one: Type, other: Type) -> bool:
    """Whether two fragments are the same part of a product, of the same shape and type."""
    if other.kind != "fragment" or len(one.arguments) < 5:
        return False
    return [part.rpartition("::")[2] for part in one.arguments[:5]] == [
        part.rpartition("::")[2] for part in other.arguments[:5]
    ]


def sizes_for(program: Program, one: Expression) -> Iterator[Atom]:
    """The names that a number may have been meant to be."""
    if one.type.kind != "integer" or one.role not in _SIZES:
        return
    pool = pools(program)
    if in_own_array(one):
        return
    made = 0
    for atom in pool.at(one):
        roles = pool.roles.get(atom.text, set())
        if made < _MOST and atom.varying is False and (one.role in roles or roles & _PITCHES) and _fits(one, atom):
            made += 1
            yield atom
