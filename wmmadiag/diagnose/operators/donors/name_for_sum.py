"""A variable for a sum or product that places something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, several
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "coordinate", "argument", "compared", "loop start"})
_MOST, _MOST_PLACES = 4, 4


@operator
def name_for_sum(program: Program) -> Iterator[Draft]:
    """A whole number that differs between threads, for a whole sum or product of such ones: what its own parts make, or
    is made of the same, then the last declared."""
    for one in program.expressions:
        if _places(one) and sums.top(one):
            for name in _names(program, one):
                yield replaced(one, name)


@operator
def name_for_sums(program: Program) -> Iterator[Draft]:
    """The same for a sum, a product or a remainder that a function has several times, everywhere at once."""
    alike: dict[tuple[int, str], list[Expression]] = defaultdict(list)
    for one in program.expressions:
        if one.kind == "binary" and one.type.whole and one.varying is not False and not one.fixed:
            alike[id(one.statement.function), one.text].append(one)
    for held in alike.values():
        if 1 < len(held) <= _MOST_PLACES:
            for name in _names(program, held[0]):
                yield several([(one, name) for one in held], f"{name.text} for every {held[0].text}")


def _places(one: Expression) -> bool:
    return one.kind == "binary" and one.role in _ROLES and not one.fixed and one.varying is not False


def _names(program: Program, one: Expression) -> Iterator[Text]:
    pool = pools(program)
    atoms = [
        (len(pool.made_of[atom.text] & one.names), place, atom)
        for place, atom in enumerate(pool.at(one))
        if atom.type.whole and atom.varying is not False and not atom.constant and atom.root == atom.text
    ]
    atoms = [row for row in atoms if row[-1].text not in one.names]
    for _, _, atom in sorted(atoms, key=lambda row: (-row[0], -row[1]))[:_MOST]:
        yield Text(atom.text, precedence.POSTFIX)
