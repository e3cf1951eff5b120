"""A number looked up in a table."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"coordinate", "index", "offset", "argument"})
_PLACES = frozenset({"integer", "byte"})
"""A table of 256 places and fewer may be one of bytes."""
_MOST = 3


@operator
def looked_up(program: Program) -> Iterator[Draft]:
    """`t[x]` for an integer expression in which `x` stands, with an integer table `t`; `x` for `t[x]`."""
    pool = pools(program)
    bytewise = {
        one.operands[0].text for one in program.all_expressions()
        if one.kind == "subscript" and one.type.kind == "byte" and one.role == "index"
    }  # fmt: skip
    for one in program.expressions:
        if one.type.kind not in _PLACES or one.role not in _ROLES or one.assigned or one.fixed or one.varying is False:
            continue
        if one.kind == "subscript" and len(one.operands) == 2:
            yield replaced(one, Text(one.operands[1].text, one.operands[1].level))
        if not one.type.whole or not _factor(one):
            continue
        tables = [
            atom for atom in pool.at(one) if atom.type.address and atom.type.of is not None
            and (atom.type.of.whole or atom.text in bytewise)
        ]  # fmt: skip
        # What nothing reads is likeliest to be what should be read here.
        tables.sort(key=lambda atom: atom.text in pool.roles)
        for table in tables[:_MOST]:
            for name in sorted(_varying(one)):
                if table.text not in one.text:
                    yield replaced(one, Text(f"{table.text}[{name}]", precedence.POSTFIX))


def _factor(one: Expression) -> bool:
    """Whether it is a whole sum, or a factor of a product."""
    if one.kind in ("subscript", "assignment", "list", "conditional", "cast", "call"):
        return False
    around = one.parent
    return sums.top(one) and (around is None or around.kind != "binary" or around.operator == "*")


def _varying(one: Expression) -> set[str]:
    return {part.text for part in one.under() if part.atom and part.varying and part.type.whole}
