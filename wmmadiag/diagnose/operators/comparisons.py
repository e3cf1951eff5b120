"""Comparisons that might guard a place: those that stand elsewhere, and coordinates held against bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.extents import extents
from wmmadiag.diagnose.operators.making import Text, binary, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools

ORDERINGS = frozenset({"<", ">", "<=", ">="})
_MOST_BOUNDS, _MOST_GIVEN = 4, 3
_MOST_COORDINATES = 5
_MOST_DONORS = 6
_MOST_OF_PIECE, _STEPS = 2, 2
"""Comparisons; from a pointer to what moves it, and to what that is made of."""
_EXTENTS = frozenset({"pitch", "leading dimension", "extent", "dimension"})


class Comparisons:
    """The comparisons of a program, read once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._pool = pools(program)
        self._known: dict[str, Expression] = {}
        # By the name of where a piece begins, how long it is: what it is a multiple of, or goes on by.
        self._pieces = {
            variable.name: size.text
            for body in program.bodies
            for statement in body.statements
            for variable, value in statement.initial_values()
            if (size := sums.terms(value)[0].pitch) is not None
        }
        for one in program.all_expressions():
            if one.role == "loop step" and one.parent is not None and one.parent.operator == "+=" and one.number:
                self._pieces[one.parent.operands[0].text] = one.text
            whole = one.parent is None or one.parent.kind in ("binary", "conditional", "list", "call")
            if one.kind == "binary" and one.operator in ORDERINGS and whole and not one.fixed:
                self._known.setdefault(one.text, one)

    def beyond(self, at: Expression) -> Iterator[Text]:
        """`a - n` where `a < n` stands in its function and no branch or loop says that it holds here, for an `a` that
        is this expression, or is made of it."""
        done = set()
        for one in self._known.values():
            if one.statement.function is not at.statement.function or at in one.under():
                continue
            for first, second in (one.operands, one.operands[::-1]):
                of_it = at.atom and at.text in self._pool.made_of.get(first.text, ())
                if not (first.text == at.text or of_it) or first.varying is False or not second.atom:
                    continue
                made = binary(text_of(first), "-", text_of(second))
                below = (first is one.operands[0]) == (one.operator in ("<", "<="))
                known = self._pool.visible(first, at) and self._pool.visible(second, at)
                if known and made.text not in done and first.type.whole and not _held(at, one, below):
                    done.add(made.text)
                    yield made

    def donors(self, at: Expression, names: frozenset[str]) -> Iterator[Text]:
        """Comparisons that stand elsewhere, are visible here and speak of one of the names."""
        # What was told before.
        for atom in self._pool.at(at):
            if atom.type.kind == "bool" and atom.root and atom.text not in at.names:
                yield Text(atom.text)
        made = 0
        for text, one in self._known.items():
            inside = at.start <= one.start < at.end and one.unit is at.unit
            if made == _MOST_DONORS or inside or text == at.text:
                continue
            if names & varying_names(one) and self._pool.visible(one, at):
                made += 1
                yield text_of(one)
        yield from itertools.islice(self._of_piece(at), _MOST_OF_PIECE)

    def _of_piece(self, at: Expression) -> Iterator[Text]:
        """`p + y < n`, where `p + r < n` stands elsewhere, pieces that begin at `p` are as long as `y` counts, and `y`
        is named here."""
        known = extents(self._program)
        counted = {one.text: size for one in at.under() if one.kind == "name" and (size := known.written(one))}
        for one, (name, size) in itertools.product(self._known.values(), counted.items()):
            terms = sums.terms(one.operands[0])
            begins = [each.expression for each in terms if self._length(each) == size.text]
            other = len(terms) == 2 and len(begins) == 1 and one.operator == "<" and name not in one.operands[0].names
            if other and self._pool.visible(begins[0], at) and self._pool.visible(one.operands[1], at):
                yield binary(binary(text_of(begins[0]), "+", Text(name)), "<", text_of(one.operands[1]))

    def _length(self, one: sums.Summand) -> str:
        """How long the pieces are that begin at a term; "" where it is none."""
        return one.pitch.text if one.pitch is not None else self._pieces.get(sums.uncast(one.expression).text, "")

    def built(self, at: Expression, coordinates: Iterable[Coordinate], symbol: str = "<") -> Iterator[Text]:
        """Each coordinate below each bound, or as another symbol has it."""
        bounds = self._bounds(at)
        coordinates = list(coordinates)
        yield from self._not_negative(at, coordinates, symbol)
        done: set[str] = set()
        natural: set[str] = set()
        for one in coordinates:  # what is counted in steps of a pitch is less than the pitch
            if one.pitch is not None and all(self._pool.visible(part, at) for part in (*one.parts, one.pitch)):
                made = binary(one.text, symbol, text_of(one.pitch))
                if made.text not in natural:
                    natural.add(made.text)
                    yield made
        for atom in self._pool.at(at):
            # What nothing uses was made for something.
            if atom.type.whole and atom.varying and atom.text == atom.root and atom.text not in self._pool.roles:
                done.add(atom.text)
                yield from (binary(Text(atom.text), symbol, Text(bound.text)) for bound in bounds)
                if symbol == "<":
                    yield from self._between(at, atom)
        for one in coordinates:
            known = all(self._pool.visible(part, at) for part in one.parts)
            if one.text.text in done or len(done) == _MOST_COORDINATES or not known:
                continue
            done.add(one.text.text)
            names = {part.text for held in one.parts for part in held.under()}
            for bound in bounds:
                if bound.text not in names:
                    yield binary(one.text, symbol, Text(bound.text))

    def _not_negative(self, at: Expression, coordinates: list[Coordinate], symbol: str) -> Iterator[Text]:
        """Whole numbers that an array has, and differences, of which indices or pointers are made, not below nought."""
        known = at.names.union(*(part.names for one in coordinates for part in one.parts))
        for _ in range(_STEPS):
            known = known.union(*(self._pool.made_of.get(name, ()) for name in known))
        for atom in self._pool.at(at):
            if atom.text in known and atom.text in self._pool.signed and atom.type.whole:
                yield binary(Text(atom.text), ">=" if symbol == "<" else "<", Text("0"))

    def both(self, at: Expression, coordinates: Iterable[Coordinate], *, outside: bool = False) -> Iterator[Text]:
        """A coordinate that is counted beside a pitch below it, and another one below each other bound; `outside`: one
        of the two not below."""
        symbol, joined = (">=", "||") if outside else ("<", "&&")
        held = [one for one in coordinates if all(self._pool.visible(part, at) for part in one.parts)]
        bounds = self._bounds(at)
        for inner in held:
            pitch = inner.pitch
            if pitch is None or not pitch.atom or pitch.kind == "literal" or not self._pool.visible(pitch, at):
                continue
            beside = binary(inner.text, symbol, text_of(pitch))
            for outer in held:
                if outer.pitch is None and outer.text.text != inner.text.text:
                    for bound in bounds:
                        if bound.text != pitch.text:
                            yield binary(binary(outer.text, symbol, Text(bound.text)), joined, beside)
            return

    def _between(self, at: Expression, unused: Atom) -> Iterator[Text]:
        """An unused coordinate held against those that the condition names, under an unused flag if there is one."""
        flags = [
            atom.text for atom in self._pool.at(at) if atom.type.kind == "bool" and atom.text not in self._pool.roles
        ]
        for name in sorted(varying_names(at)):
            for pair in (f"{name} > {unused.text}", f"{unused.text} > {name}"):
                yield Text(pair, precedence.BINARY[">"], ">")
                yield from (Text(f"{flag} && {pair}", precedence.BINARY["&&"], "&&") for flag in flags)

    def _bounds(self, at: Expression) -> list[Atom]:
        wanted = frozenset({"bound", "loop bound"})
        found = [
            atom
            for atom in self._pool.at(at)
            if atom.type.whole and atom.varying is not True and not atom.text.startswith(("threadIdx", "blockIdx"))
        ]
        used = [atom for atom in found if self._pool.roles.get(atom.text, frozenset()) & wanted]
        used.sort(key=lambda atom: atom.constant)  # an extent that the kernel is given comes before a tile's
        given = [atom for atom in found if atom not in used and atom.varying is False and not atom.constant]
        given.sort(key=lambda atom: not self._pool.roles.get(atom.text, frozenset()) & _EXTENTS)
        return [*used[:_MOST_BOUNDS], *given[: max(_MOST_GIVEN, _MOST_BOUNDS - len(used))]]


def comparisons(program: Program) -> Comparisons:
    """The comparisons of a program."""
    return program.once(Comparisons)


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A part of an index that counts along one dimension."""

    text: Text  # of it; `parts`: the expressions that it is the sum of
    parts: tuple[Expression, ...]
    pitch: Expression | None = None  # how many there are of it, where something beside it has that as its pitch


def coordinates_in(wholes: Iterable[Expression]) -> Iterator[Coordinate]:
    """What indices and offsets are made of: what is multiplied by a pitch, and what is added beside it."""
    for whole in wholes:
        for one in whole.under():
            if _is_index(one) and one.varying is not False and _highest(one):
                yield from _counted(one)


def _is_index(one: Expression) -> bool:
    """Whether it says which element is meant: what is handed to a function may do so there."""
    if one.role == "argument":
        return one.type.whole and any(term.pitch is not None for term in sums.terms(one))
    return (one.type.address and one.kind == "binary") or one.role in ("index", "offset")


def _counted(one: Expression) -> Iterator[Coordinate]:
    """The coordinates of a sum: the outer ones, and then what they and the innermost one are made of."""
    beside: list[Expression] = []
    plain: list[Expression] = []  # of these, what is counted one by one
    within: list[Expression] = []
    pitch: Expression | None = None
    for term in sums.terms(one):
        steps = [_bare(part) for part in term.factors if part is not term.pitch] if term.pitch is not None else []
        if term.pitch is not None and term.pitch.kind != "literal":
            pitch = term.pitch
            yield from (_coordinate([part]) for part in steps)
            within += [part for part in steps if len(sums.terms(part)) > 1]
        elif term.expression.varying is not False and not term.negative and not term.expression.type.address:
            beside.append(_bare(term.expression))  # what is counted in steps of a number counts with what is between
            within += steps
            plain += [] if steps else beside[-1:]
        # What is split into rows and columns counts as a whole.
        within += [part.operands[0] for part in (*steps, *beside[-1:]) if part.operator in ("/", "%")]
    if beside:
        yield _coordinate(beside, pitch)
    if plain and len(plain) < len(beside):
        yield _coordinate(plain)
    for part in within:
        yield from _counted(part) if len(sums.terms(part)) > 1 else [_coordinate([part])]


def _coordinate(parts: list[Expression], pitch: Expression | None = None) -> Coordinate:
    text = text_of(parts[0])
    for part in parts[1:]:
        text = binary(text, "+", text_of(part))
    return Coordinate(text, tuple(parts), pitch)


def _highest(one: Expression) -> bool:
    """Whether it is no part of a larger sum."""
    around = one.parent
    return around is None or around.kind != "binary"


def _bare(one: Expression) -> Expression:
    while one.kind == "cast" and one.operands:
        one = one.operands[0]
    return one


def varying_names(one: Expression) -> frozenset[str]:
    """The variables in an expression that are not the same for all threads."""
    return frozenset(part.text for part in one.under() if part.kind == "name" and part.varying is not False)


def guarded_by(condition: Expression) -> list[Expression]:
    """The expressions that a condition guards: of a branch, of a conditional, of what follows a flag."""
    statement = condition.statement
    around = condition.parent
    while around is not None and around.kind != "conditional":
        around = around.parent
    if around is not None:
        return around.operands[1:2]
    if leaves(statement):
        return [one for later in following(statement) for one in later.whole_expressions()]
    if statement.kind == "if" and statement.children:
        return list(statement.children[0].whole_expressions())
    if statement.kind == "declaration":
        return [one for later in following(statement) for one in later.whole_expressions()]
    return []


def _held(at: Expression, comparison: Expression, holds: bool) -> bool:
    """Whether a branch, loop or choice has it that a comparison holds at a place, or does not."""
    joined, whole = "&&" if holds else "||", comparison
    while whole.parent is not None and whole.parent.operator == joined:
        whole = whole.parent
    if whole.parent is not None and whole.parent.kind == "conditional":
        part = whole.parent.operands[1 if holds else 2]
        return part.start <= at.start < part.end
    of = whole.statement
    if whole is not of.condition:
        return False
    parts = following(of) if leaves(of) and not holds else of.children[: 1 if holds else 2][0 if holds else 1 :]
    return any(part.start <= at.start < part.end for part in parts)


def leaves(statement: Statement) -> bool:
    """Whether it is a branch that only leaves the function or the round."""
    if statement.kind != "if" or len(statement.children) != 1:
        return False
    held = statement.children[0]
    if held.kind == "block" and len(held.children) == 1:
        held = held.children[0]
    return held.kind in ("jump", "return")


def following(statement: Statement) -> list[Statement]:
    """What comes after a statement in its block."""
    return statement.block[statement.index + 1 :]
