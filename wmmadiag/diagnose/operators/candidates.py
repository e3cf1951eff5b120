"""Which names and numbers are worth trying for one that stands somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from functools import cache

from wmmadiag.csource.types import Type
from wmmadiag.csource.variables import Variable
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.cuda_names import LAUNCH_VARIABLES, THREAD_VARIABLES
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools, slot

# Where a number may have been a name: the places whose value is the same for all threads.
_SIZES = frozenset(
    {"leading dimension", "pitch", "bound", "loop bound", "dimension", "divisor", "loop step", "extent", "count",
     "copied bytes", "constant"}
)  # fmt: skip
_PITCHES = frozenset({"leading dimension", "pitch"})
# How many names are tried for one, by its role: most where they are told apart least.
_MOST = {"leading dimension": 8, "pitch": 7, "offset": 6, "index": 6, "coordinate": 6, "fragment": 6, "loop step": 7}
_MOST_OTHERS, _MOST_MEMBERS, _MOST_SIZES = 5, 3, 4
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!="})
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_OF_TWO = frozenset({"<", ">", "<=", ">=", "==", "!=", "-", "/", "%"})


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


def names_for(program: Program, one: Expression, most: int = 0) -> list[Atom]:
    """The atoms that may stand for a name or a number, the likeliest first.

    What makes one likely: it is a member of the same object; nothing uses it; it is used elsewhere for the same, or in
    the same place of the same call or operation, or in this statement; its name is written of the same parts, or nearly
    the same; it was made of the other one, or of the same as it; it is a parameter, a constant or a local variable as
    the other one is; it counts a loop around it, and nothing in the loop says so; what is counted beside a pitch is
    held to it; it was declared late, or is a constant that is used often.
    """
    pool = pools(program)
    of = one.text[: len(one.text) - len(one.operator)] if one.kind == "member" else one.text.rpartition("::")[0]
    own = in_own_array(one)
    counters = {variable.name for loop in one.statement.loops for variable in loop.declares}
    idle = _idle_counters(one)
    parts = parts_of(one.text) if one.atom else frozenset()
    scope = program.names_at(one.unit, one.start)
    sort = _sort(scope, one.text)
    beside: Set[str] = pool.slots.get(slot(one), set())
    near = {name for whole in one.statement.expressions for name in whole.names}
    senseless = {one.text, _compared_with(one)}
    holding, made, unread = _holding(one), pool.made_of.get(one.text), pool.unread_members(one)
    counted = _counted_by(one)
    rated = []
    for place, atom in enumerate(pool.at(one)):
        if atom.text in senseless or not _fits(one, atom):
            continue
        # Registers have indices that the compiler knows once loops are unrolled.
        if own and atom.varying is not False and atom.text not in counters:
            continue
        roles = pool.roles.get(atom.text)
        if roles is None and not atom.root and not atom.constant and not _built_in(one):
            continue  # an axis of the launch that nothing uses
        likely = 2 * (bool(of) and atom.text.startswith(of))
        likely += _unused(atom, roles, scope) + 3 * (atom.text in idle) + 3 * (atom.text in unread)
        likely += (roles is not None and one.role in roles) + 3 * (atom.text in holding)
        likely += 2 * (atom.text in beside) + (atom.text in near or atom.text in counters)
        of_it = one.text in pool.made_of.get(atom.root, ())
        likely += of_it or atom.text in pool.made_of.get(one.text, ())
        likely += 2 * (bool(made) and made == pool.made_of.get(atom.root))
        likely += bool(parts & parts_of(atom.text)) or _nearly(one.text, atom.text)
        likely += 2 * bool(counted and counted & parts_of(atom.text))
        likely += sort is not None and sort == _sort(scope, atom.root or atom.text)
        likely -= one.role in _SIZES and one.varying is None and atom.varying is True
        likely -= 2 * (one.type.kind == "integer" and {one.varying, atom.varying} == {True, False} and not of_it)
        late = pool.uses[atom.text] if atom.constant else place
        rated.append((-likely, atom.root != atom.text and not atom.constant, -late, atom))
    wanted = (most or _MOST.get(one.role, _MOST_OTHERS)) + (_MOST_MEMBERS if of else 0)
    return [row[-1] for row in sorted(rated, key=lambda row: row[:-1])][:wanted]


def _unused(atom: Atom, roles: Set[str] | None, scope: Mapping[str, Variable]) -> int:
    """How much a variable that nothing uses was made for something: a local one more than a parameter."""
    if roles is not None or atom.root != atom.text:
        return 0
    return 4 if atom.text in scope and scope[atom.text].kind == "local" else 2


def _compared_with(one: Expression) -> str:
    """What it is compared with, subtracted from or divided by: of two of the same, the result is known."""
    around = one.parent
    known = around is not None and around.operator in _OF_TWO and len(around.operands) == 2
    return around.operands[1 - one.number].text if around is not None and known else ""


def _counted_by(one: Expression) -> frozenset[str]:
    """The parts of the names that a size is held against: of `i` in `i < n`, and of `c` where it is the `n` of
    `r * n + c`."""
    around = one.parent
    if around is None or len(around.operands) != 2:
        return frozenset()
    if around.operator in _COMPARISONS:
        others = [around.operands[1 - one.number]]
    elif around.operator == "*" and around.parent is not None and around.parent.operator == "+":
        others = [part.expression for part in sums.terms(around.parent) if part.expression is not around]
    else:
        return frozenset()
    return frozenset[str]().union(*(parts_of(part.text) for other in others for part in other.under() if part.atom))


def _holding(one: Expression) -> set[str]:
    """Of the pitch in `a * p + c`: what branches and loops around it hold `c` to."""
    around = one.parent
    if one.role not in _PITCHES or around is None or around.operator != "*" or around.parent is None:
        return set()
    beside = {part.expression.text for part in sums.terms(around.parent)} - {around.text}
    found, statement = set(), one.statement.parent
    while statement is not None:
        for held in statement.condition.under() if statement.condition is not None else ():
            if held.kind == "binary" and held.operator in ("<", "<=") and held.operands[0].text in beside:
                found.add(held.operands[1].text)
        statement = statement.parent
    return found


def _idle_counters(one: Expression) -> set[str]:
    """The counters of the loops around it, and of its own, that nothing but the loops' heads names."""
    found = set()
    for loop in one.statement.loops:
        used = {name for child in loop.children for whole in child.whole_expressions() for name in whole.names}
        found |= {variable.name for variable in loop.declares} - used
    if one.statement.kind == "loop":  # every part of the head names it
        found |= {variable.name for variable in one.statement.declares} - one.outermost.names
    return found


def _sort(scope: Mapping[str, Variable], name: str) -> tuple[str, bool] | None:
    """What kind of variable a name is of."""
    variable = scope.get(name)
    return (variable.kind, variable.constant) if variable is not None else None


@cache
def _nearly(one: str, other: str) -> bool:
    """Whether two names differ in few letters at their ends."""
    ends = _common(one, other), _common(one[::-1], other[::-1])
    return 2 * max(ends) >= max(len(one), len(other)) > 1


def _common(one: str, other: str) -> int:
    """How many letters two names begin with alike."""
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def _built_in(one: Expression) -> bool:
    return one.kind == "member" and one.operands[0].text in (*THREAD_VARIABLES, *LAUNCH_VARIABLES)


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
    return not (one.assigned and (atom.constant or atom.type.constant))


def _same_use(one: Type, other: Type) -> bool:
    """Whether two fragments are the same part of a product, of the same shape and type."""
    if other.kind != "fragment" or len(one.arguments) < 5:
        return False
    return [part.rpartition("::")[2] for part in one.arguments[:5]] == [
        part.rpartition("::")[2] for part in other.arguments[:5]
    ]


def sizes_for(program: Program, one: Expression) -> Iterator[Atom]:
    """The names that a number may have been meant to be."""
    if not may_be_size(one):
        return
    pool = pools(program)
    made = 0
    for atom in pool.at(one):
        roles = pool.roles.get(atom.text, set())
        alike = one.role in roles or (one.role in _PITCHES and roles & _PITCHES)
        if made < _MOST_SIZES and alike and atom.varying is False and _fits(one, atom):
            made += 1
            yield atom


def may_be_size(one: Expression) -> bool:
    """Whether a number stands where the same for all threads does, and a size may have been meant."""
    sizes = one.kind == "literal" and one.type.kind == "integer" and one.role in _SIZES
    return sizes and not in_own_array(one)


@cache
def parts_of(name: str) -> frozenset[str]:
    """The parts that the last component of a name is written of: `ld` and `a` of `s.ld_a`."""
    plain = re.split(r"\.|->|::", name)[-1]
    return frozenset(part.lower() for part in _PARTS.findall(plain) if not part.isdigit())
