"""One change made at every place that is alike: the same mistake is often made twice."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.conditions.comparison import comparison, conjunct
from wmmadiag.diagnose.operators.donors.name import variable
from wmmadiag.diagnose.operators.donors.partner import factor_more, term_more
from wmmadiag.diagnose.operators.expressions.from_the_end import from_the_end
from wmmadiag.diagnose.operators.expressions.less import less
from wmmadiag.diagnose.operators.expressions.number import nudged
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.renaming import difference, with_parts
from wmmadiag.diagnose.operators.shapes import renaming, shapes

_OF: Sequence[Callable[[Program], Iterator[Draft]]] = (
    comparison, conjunct, variable, factor_more, term_more, less, nudged, from_the_end,
)  # fmt: skip
_MOST_HERE, _MOST_RENAMED = 3, 12
"""Changes of one place by one operator, which begins with the likeliest; and in statements of one shape, which are few.
"""
_MOST_PLACES = 3
_FARTHEST = 3
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class _Made:
    """A change of one expression: its edit, with the expression's text and that of what it is an operand of."""

    operator: str
    draft: Draft
    old: str
    around: str
    statement: Statement
    number: int  # of the operator's changes of the same place

    @property
    def edit(self) -> TextEdit:
        """The only one."""
        return self.draft.edits[0]

    @property
    def key(self) -> tuple[str, str, str]:
        """What is done, wherever."""
        return self.operator, self.old, self.edit.text


@operator
def together(program: Program) -> Iterator[Draft]:
    """One change of an expression wherever it stands in a block or function, in neighbours, or for the same in a
    function, as all divisors, or within the same expression; and with their names in statements of one shape."""
    every = list(_all_made(program))
    made = [one for one in every if one.number < _MOST_HERE]
    levels: tuple[Callable[[_Made], Hashable], ...] = (
        lambda one: id(one.statement.block),
        lambda one: id(one.statement.function),
        lambda one: (id(one.statement.function), one.draft.role),
        lambda one: (id(one.statement.function), one.around),
    )
    for level in levels:
        groups: dict[tuple[Hashable, tuple[str, str, str]], list[_Made]] = defaultdict(list)
        for one in made:
            groups[level(one), one.key].append(one)
        for group in groups.values():
            if 2 <= len(group) <= _MOST_PLACES:
                yield _at_once(group)
            if level is levels[0]:
                for pair in itertools.pairwise(group) if len(group) > 2 else ():
                    if abs(pair[0].statement.index - pair[1].statement.index) == 1:
                        yield _at_once(pair)
    yield from _renamed(program, every)


def _all_made(program: Program) -> Iterator[_Made]:
    places = {}
    for one in program.expressions:
        for start, end in ((one.start, one.end), one.whole):
            places[one.unit.file, start + one.unit.base, end + one.unit.base] = one
    for run in _OF:
        count: Counter[tuple[str, int, int]] = Counter()
        for draft in run(program):
            edit = draft.edits[0]
            at = edit.file, edit.start, edit.end
            if draft.kind == "expression" and len(draft.edits) == 1 and at in places and count[at] < _MOST_RENAMED:
                held = places[at]
                around = held.parent.text if held.parent is not None else ""
                yield _Made(run.__name__, draft, held.text, around, held.statement, count[at])
                count[at] += 1


def _renamed(program: Program, made: Sequence[_Made]) -> Iterator[Draft]:
    known = shapes(program)
    held: dict[int, dict[tuple[str, str, str], _Made]] = defaultdict(dict)
    for one in made:
        held[id(one.statement)].setdefault(one.key, one)
    for first in {id(one.statement): one.statement for one in made}.values():
        for second in known.like(first):
            near = second.block is first.block and 0 < second.index - first.index <= _FARTHEST
            names = renaming(known.tokens(first), known.tokens(second)) if near else None
            if not names:
                continue
            parts = {a: b for one, other in names.items() for a, b in difference(one, other).items()}
            for key, one in held[id(first)].items():
                old, new = (_with(text, names, parts) for text in key[1:])
                other = held[id(second)].get((key[0], old, new))
                if other is not None and (old, new) != key[1:]:
                    yield _at_once((one, other))


def _with(text: str, names: Mapping[str, str], parts: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0]) or with_parts(found[0], parts), text)


def _at_once(group: Sequence[_Made]) -> Draft:
    first = group[0].draft
    lines = ", ".join(str(one.statement.unit.source.place(one.statement.node).line) for one in group)
    return Draft(tuple(one.edit for one in group), "expression", first.role, f"{first.note}, at lines {lines}")
