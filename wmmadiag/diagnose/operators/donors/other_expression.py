"""An expression that stands elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 2
_LONGEST = 120
_WHOLE = frozenset(
    {"bound", "loop bound", "leading dimension", "coordinate", "extent", "copied bytes", "count", "pitch"}
)


@operator
def donor(program: Program) -> Iterator[Draft]:
    """An expression of the same type that stands elsewhere for the same, or shares a name, and is visible here; for a
    part of what is assigned, what it is assigned to."""
    pool = pools(program)
    shelf = Shelf(program)
    for one in program.expressions:
        if not asked(one):
            continue
        if (target := _assigned_to(one)) is not None:
            yield replaced(one, text_of(target))
        made = 0
        for other in shelf.likely(one):
            if made == _MOST:
                break
            if (not one.fixed or other.fixed) and pool.visible(other, one):
                made += 1
                yield replaced(one, text_of(other))


class Shelf:
    """The expressions of a program by type, name, and slot: the operand or argument that they are."""

    def __init__(self, program: Program) -> None:
        self._by_name: dict[tuple[str, str], dict[str, Expression]] = defaultdict(dict)
        self._by_slot: dict[tuple[str, str], dict[str, Expression]] = defaultdict(dict)
        self._rated: dict[tuple[str, str, str], list[Expression]] = {}
        for one in program.all_expressions():
            if _offered(one):
                for name in one.names:
                    self._by_name[one.type.kind, name].setdefault(one.text, one)
                self._by_slot[one.type.kind, _slot(one)].setdefault(one.text, one)

    def likely(self, one: Expression) -> list[Expression]:
        """What may stand for an expression, the likeliest first: by the names that both have, and by its slot."""
        slot = _slot(one)
        key = one.type.kind, one.text, slot
        if key not in self._rated:
            alike = self._by_slot[one.type.kind, slot]
            offers = dict(alike)
            for name in one.names:
                offers.update(self._by_name[one.type.kind, name])
            rated = []
            for text, other in offers.items():
                if one.role == "pitch" and other.varying is not False:
                    continue
                if text == one.text or (one.atom and other.atom) or not one.type.takes(other.type):
                    continue
                shared, both = len(one.names & other.names), len(one.names | other.names)
                rated.append((-(shared / max(1, both) + 0.5 * (text in alike)), text, other))
            self._rated[key] = [row[2] for row in sorted(rated, key=lambda row: row[:2])]
        return self._rated[key]


def _offered(one: Expression) -> bool:
    if one.type.kind in ("unknown", "void", "function") or one.assigned or len(one.text) > _LONGEST:
        return False
    return one.kind in ("binary", "call", "subscript", "conditional", "name", "member", "cast", "unary")


def asked(one: Expression) -> bool:
    """Whether another expression may stand for one: of a name, only where it is all of an index, bound or size."""
    if one.type.kind in ("unknown", "void", "function") or one.assigned or one.statement.kind == "other":
        return False
    if one.kind in ("assignment", "list", "comma", "lambda", "assembly", "literal"):
        return False
    if one.atom and one.role not in _WHOLE:
        return False
    around = one.parent
    return around is None or around.kind != "member"


def _assigned_to(one: Expression) -> Expression | None:
    """What a sum or product of reals is assigned to of which this is a part, which the sum does not read."""
    top = one
    while top.parent is not None and top.parent.kind in ("binary", "call", "cast"):
        top = top.parent
    whole = top.parent
    if top is one or whole is None or whole.kind != "assignment" or whole.operator != "=" or one.type.whole:
        return None
    target = whole.operands[0]
    read = any(part.text == target.text for part in top.under())
    return target if not read and not target.atom and one.type.takes(target.type) else None


def _slot(one: Expression) -> str:
    around = one.parent
    if around is None:
        return f"{one.role} {one.type.kind}"
    return f"{one.role} {around.kind} {around.operator} {one.number}"
