"""All uses of a name in one statement at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators.candidates import names_for, replaceable
from wmmadiag.diagnose.operators.making import Draft, Text, several
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST_USES, _MOST_NAMES = 8, 3


@operator
def everywhere(program: Program) -> Iterator[Draft]:
    """Another name of the same type for every use of one in a statement, or in a loop or branch with all it holds."""
    for statement in program.statements:
        if statement.kind not in ("expression", "if", "loop", "declaration", "return"):
            continue
        uses: dict[str, list[Expression]] = defaultdict(list)
        for whole in _wholes(statement):
            for one in whole.under():
                if replaceable(one):
                    uses[one.text].append(one)
        for places in uses.values():
            if 1 < len(places) <= _MOST_USES:
                # What is visible at the first use is visible at the others, but for what inner blocks hide.
                for atom in names_for(program, places[0], _MOST_NAMES):
                    yield several([(one, Text(atom.text)) for one in places], f"{atom.text} for every {places[0].text}")


def _wholes(statement: Statement) -> Iterator[Expression]:
    return statement.whole_expressions() if statement.kind in ("if", "loop") else iter(statement.expressions)
