"""A name for another one, for a number or for a sum; and one everywhere."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array, names_for, replaceable, sizes_for
from wmmadiag.diagnose.operators.composed import coordinates
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def variable(program: Program) -> Iterator[Draft]:
    """Another variable, constant or member of the same type that is in scope, for the one that stands there."""
    for one in program.expressions:
        if not replaceable(one):
            continue
        for atom in names_for(program, one):
            level = precedence.PRIMARY if atom.root in ("", atom.text) else precedence.POSTFIX
            text = Text(atom.text, level)
            # Fragments of two layouts are of two types, which no value at run time chooses between.
            if one.type.kind == "fragment" and not one.type.same(atom.type):
                yield several([(one, text)], static=True)
            else:
                yield replaced(one, text)


_MOST, _MOST_PLACES, _MOST_GIVEN = 2, 8, 12


@operator
def name_for_size(program: Program) -> Iterator[Draft]:
    """A size that has a name, for an expression of sizes."""
    for one in program.expressions:
        if one.kind != "binary" or one.varying is not False or one.fixed or one.assigned or not one.type.whole:
            continue
        for atom in names_for(program, one, _MOST):
            yield replaced(one, Text(atom.text, precedence.POSTFIX))


@operator
def name_for_number(program: Program) -> Iterator[Draft]:
    """A size that has a name, for a number; the counter of a loop around it, or a coordinate, for a fixed index; any
    name for a number that a function of the program is given."""
    for one in program.expressions:
        if one.kind != "literal":
            continue
        if one.parent is not None and one.parent.kind == "call" and one.parent.operator in program.functions:
            yield from (
                replaced(one, Text(atom.text, precedence.POSTFIX)) for atom in names_for(program, one, _MOST_GIVEN)
            )
        for atom in sizes_for(program, one):
            yield replaced(one, Text(atom.text, precedence.POSTFIX))
        if one.role == "index" and one.parent is not None and one.parent.kind == "subscript" and not one.fixed:
            for loop in one.statement.loops:
                for variable in loop.declares:
                    yield replaced(one, Text(variable.name))
            if not in_own_array(one):
                yield from (replaced(one, Text(atom.text)) for atom in coordinates(program, one, _MOST_PLACES))


_ROLES = frozenset({"index", "offset", "coordinate", "argument", "compared", "loop start"})
_MOST_SUMS, _MOST_STANDING = 4, 4


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
        if 1 < len(held) <= _MOST_STANDING:
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
    for _, _, atom in sorted(atoms, key=lambda row: (-row[0], -row[1]))[:_MOST_SUMS]:
        yield Text(atom.text, precedence.POSTFIX)


_MOST_EVEN = 6
_EVEN_ROLES = _ROLES | {"bound", "loop bound", "extent", "pitch", "leading dimension"}


@operator
def name_for_even(program: Program) -> Iterator[Draft]:
    """A size or an end that all threads have alike, for such factors of a product, or for an element of an array:
    first what was made of the same, then what is given to the kernel."""
    for one in program.expressions:
        if not one.type.whole or one.fixed or one.assigned or one.role not in _EVEN_ROLES:
            continue
        if one.kind == "subscript":
            for name in _even_names(program, one, one.operands[0].names, made=True):
                yield replaced(one, name)
        if one.kind == "binary" and one.operator == "*" and (one.parent is None or one.parent.operator != "*"):
            held = sums.factors(one)
            for first, last in _runs(held):
                even = held[first:last]
                if all(part.kind == "literal" for part in even):
                    continue
                if len(even) == len(held) and all(_constant(program, part) for part in even):
                    continue
                for name in _even_names(program, one, frozenset[str]().union(*(part.names for part in even))):
                    parts = [*map(text_of, held[:first]), name, *map(text_of, held[last:])]
                    made = functools.reduce(lambda left, right: binary(left, "*", right), parts)
                    yield replaced(one, made, f"{name.text} for {' * '.join(part.text for part in even)}")


def _runs(factors: Sequence[Expression]) -> Iterator[tuple[int, int]]:
    """Factors beside each other that all threads have alike: from which one, and to which, two at least."""
    for first, last in itertools.combinations(range(len(factors) + 1), 2):
        if last - first > 1 and all(part.varying is False for part in factors[first:last]):
            yield first, last


def _constant(program: Program, one: Expression) -> bool:
    known = program.names_at(one.unit, one.start).get(one.text)
    return one.kind == "literal" or one.text in program.reader.constants or (known is not None and known.constant)


def _even_names(program: Program, one: Expression, own: frozenset[str], *, made: bool = False) -> Iterator[Text]:
    """Names for something that is made of some: what is made of the same first.

    Args:
        made: what is made of the same alone, as an element of an array is, which may differ between blocks.
    """
    pool = pools(program)
    rated = [
        (-len(pool.made_of.get(atom.text, set()) & own), atom.constant, place, atom.text)
        for place, atom in enumerate(pool.at(one))
        if atom.type.whole and atom.root and atom.text not in own and (made or atom.varying is not True)
    ]
    rated = [row for row in rated if row[-1] not in program.reader.constants and (row[0] or not made)]
    for row in sorted(rated)[:_MOST_EVEN]:
        yield Text(row[-1], precedence.POSTFIX)


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
