"""A variable for a sum or product that places something."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "coordinate", "argument", "compared", "loop start"})
_MOST = 4


@operator
def name_for_sum(program: Program) -> Iterator[Draft]:
    """A whole number that differs between threads, for a whole sum or product of such ones: what its own parts make, or
    is made of the same, then the last declared."""
    pool = pools(program)
    for one in program.expressions:
        if one.kind != "binary" or one.role not in _ROLES or one.fixed or one.varying is False or not sums.top(one):
            continue
        atoms = [
            (len(pool.made_of[atom.text] & one.names), place, atom)
            for place, atom in enumerate(pool.at(one))
            if atom.type.whole and atom.varying is not False and not atom.constant and atom.root == atom.text
        ]
        atoms = [row for row in atoms if row[-1].text not in one.names]
        for _, _, atom in sorted(atoms, key=lambda row: (-row[0], -row[1]))[:_MOST]:
            yield replaced(one, Text(atom.text, precedence.POSTFIX))
