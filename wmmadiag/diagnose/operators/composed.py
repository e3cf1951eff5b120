"""What sums, guards and limits are put together of: the coordinates and sizes that are visible at a place."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.extents import extents
from wmmadiag.diagnose.operators.making import Text, binary, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Atom, pools

_MOST_COORDINATES, _MOST_SIZES, _MOST_BOUNDS, _MOST_SUMS, _MOST_PITCHES = 4, 3, 8, 4, 2
_MOST_STEPS = 4
_COUNTING = frozenset({"index", "offset", "coordinate", "compared", "loop start", "argument"})
_SIZES = frozenset({"pitch", "leading dimension", "extent", "dimension"})
_BOUNDS = frozenset({"bound", "loop bound"})


class _Company:
    """Which names stand together in statements of a program, and what each whole number is multiplied by."""

    def __init__(self, program: Program) -> None:
        self.together: dict[str, Counter[str]] = defaultdict(Counter)
        self.times: dict[str, Counter[str]] = defaultdict(Counter)
        self.sizes: Counter[str] = Counter()
        self.extents: dict[str, set[str]] = defaultdict(set)  # how many there are of what is added beside a pitch
        self.rounded: set[str] = set()  # of what is `n` in a `(n + s - 1) / s`: in its last part less is left
        self.pitches: dict[str, Counter[str]] = defaultdict(Counter)  # of each pointer, by its uses
        self.steps: Counter[str] = Counter()  # products that sums have, and how often
        self.first: dict[str, Expression] = {}  # such a product, where it stands first
        values = (pair for body in program.bodies for one in body.statements for pair in one.initial_values())
        self.values = {(value.unit.file, variable.name): value for variable, value in values}
        self.beside: dict[tuple[str, str], set[str]] = defaultdict(set)  # what is declared just before or behind
        for body in program.bodies:
            for before, behind in itertools.pairwise(body.statements):
                for mine, theirs in itertools.product(before.declares, behind.declares):
                    self.beside[body.unit.file, mine.name].add(theirs.name)
                    self.beside[body.unit.file, theirs.name].add(mine.name)
        for one in program.all_expressions():
            if sums.top(one) and one.operator == "+":
                terms = sums.terms(one)
                pitches = {term.pitch.text for term in terms if term.pitch is not None}
                for term in terms:
                    self._count(term)
                    self.extents[sums.uncast(term.expression).text] |= pitches if term.pitch is None else set()
            for name, pitch in _pitched(one):
                self.pitches[name][pitch.text] += 1
            if one.parent is None:
                for name in one.names:
                    self.together[name].update(one.names)
            if one.kind == "binary" and one.operator == "/" and one.varying is False:
                self.rounded |= {term.text for term in _rounded_up(one)}
            if one.kind != "binary" or one.operator != "*" or not one.type.whole:
                continue
            for part, other in (one.operands, one.operands[::-1]):
                if part.atom and part.varying is False:
                    self.times[sums.uncast(other).text][part.text] += 1
                    self.sizes[part.text] += 1

    def _count(self, term: sums.Summand) -> None:
        one = term.expression
        if term.pitch is not None and one.operands[0].atom and one.varying is not False and not term.negative:
            self.steps[one.text] += 1
            self.first.setdefault(one.text, one)


def _pitched(one: Expression) -> Iterator[tuple[str, Expression]]:
    """The name of a pointer and a pitch that it is used with here, in an index, in a sum or as a leading dimension."""
    if one.kind == "subscript" and len(one.operands) == 2:
        yield from ((one.operands[0].text, pitch) for pitch in _pitches(one.operands[1]))
    elif one.kind == "call":
        bases = [base for argument in one.operands for base in _bases(argument)]
        leading = [argument for argument in one.operands if argument.role == "leading dimension"]
        yield from ((base.text, pitch) for base in bases for pitch in leading if pitch.atom)
    elif sums.top(one) and one.type.address and one.kind == "binary":
        others = [term.expression for term in sums.terms(one) if not term.expression.type.address]
        yield from ((base.text, pitch) for base in _bases(one) for other in others for pitch in _pitches(other))


def _pitches(one: Expression) -> list[Expression]:
    held = [term.pitch for term in sums.terms(one) if term.pitch is not None]
    return [pitch for pitch in held if pitch.atom and pitch.kind != "literal"]


def _bases(one: Expression) -> list[Expression]:
    """The pointer that an address is made of, if it is a name."""
    one = one.operands[0] if one.kind == "unary" and one.operator == "&" and one.operands else one
    held = [term.expression for term in sums.terms(one)] if one.kind == "binary" else [one]
    return [part for part in held if part.type.address and part.kind == "name"]


def _rounded_up(one: Expression) -> list[Expression]:
    """`n` of `(n + s - 1) / s`, or of `(n + 31) / 32`, if it is that."""
    below = one.operands[1].text
    held = [term.expression for term in sums.terms(one.operands[0])]
    less = str(int(below) - 1) if below.isdecimal() else below
    found = [part for part in held if part.atom and part.kind != "literal" and part.text != below]
    return found if any(part.text == less for part in held) else []


def coordinates(program: Program, one: Expression, most: int = _MOST_COORDINATES) -> list[Atom]:
    """The integers in scope that differ between threads and that an expression does not name, the likeliest first:
    of an index, those of which there are as many as of what it indexes, and of an array of so many times so many, what
    is declared beside it; those that nothing uses, what the loop around it counts by, and those that stand beside its
    names in most statements."""
    pool, company = pools(program), _company(program)
    counters = {variable.name for loop in one.statement.loops[-1:] for variable in loop.declares}
    extent = _extent(program, one)
    beside = company.beside[one.unit.file, one.text] if "*" in extent else set[str]()
    rated = []
    for place, atom in enumerate(pool.at(one)):
        if not atom.type.whole or atom.varying is False or atom.constant or atom.root in one.names:
            continue
        roles = pool.roles.get(atom.text, set())
        if roles and not roles & _COUNTING:
            continue
        if not roles and not atom.root:
            continue  # an axis of the launch that nothing uses
        often = sum(company.together[name][atom.root] for name in one.names)
        idle = not roles and atom.root == atom.text
        fits = extent in company.extents.get(atom.text, ())
        # What has a name says more than an axis of the launch, of which it may be made.
        near = atom.text not in beside, not idle, atom.text not in counters
        rated.append((not fits, *near, -often, not atom.root, -place, atom))
    return [row[-1] for row in sorted(rated, key=lambda row: row[:-1])][:most]


def _extent(program: Program, one: Expression) -> str:
    """How many there are of what an index counts, as the array's declaration says; "" for anything else."""
    base, depth = one.parent, 0
    if base is None or base.kind != "subscript" or one.number == 0:
        return ""
    while base.operands[0].kind == "subscript":
        base, depth = base.operands[0], depth + 1
    variable = program.names_at(one.unit, one.start).get(base.operands[0].text)
    size = variable.dimensions[depth] if variable is not None and depth < len(variable.dimensions) else None
    return one.unit.source.text(size) if size is not None else ""


def terms(program: Program, one: Expression) -> Iterator[Text]:
    """What might be added to an expression: `c` and `c * s`, with a coordinate `c` and a size `s` that it is multiplied
    by elsewhere, or that most others are; in an array of so many times so many, first by how many there are; and what
    is added elsewhere most often, of other names."""
    visible = {atom.text for atom in pools(program).at(one)}
    for coordinate in coordinates(program, one):
        term = Text(coordinate.text, precedence.POSTFIX)
        yield term
        known = [*_extent(program, one).split(" * ")[:-1], *times(program, one, coordinate), *reaches(program, one)]
        found = [text for text in (*known, *sizes(program, one)) if text.isdecimal() or text in visible]
        yield from (binary(term, "*", Text(text, precedence.POSTFIX)) for text in list(dict.fromkeys(found))[:6])
    company, pool = _company(program), pools(program)
    steps = (company.first[text] for text, _ in company.steps.most_common())
    other = (step for step in steps if not step.names & one.names and pool.visible(step, one))
    yield from map(text_of, itertools.islice(other, _MOST_STEPS))


def times(program: Program, one: Expression, coordinate: Atom) -> list[str]:
    """What a coordinate is multiplied by elsewhere, or what it is made of is, the most frequent first."""
    company = _company(program)
    made = company.values.get((one.unit.file, coordinate.text))
    counted = Counter(company.times[coordinate.text])
    if made is not None:
        counted.update(company.times[made.text])
    return [text for text, _ in counted.most_common()]


def reaches(program: Program, one: Expression) -> list[str]:
    """How many values a sum counts, as the loops around it, and remainders that it is made of, say: `S` of `i * 8 + r`
    with `i < S / 8`."""
    found = []
    known = extents(program)
    for term in sums.terms(one):
        for place, factor in enumerate(term.factors):
            pitch = [sums.uncast(other).text for other in term.factors[:place] + term.factors[place + 1 :]]
            count = known.written(factor)
            if count is not None and not pitch:
                found.append(count.text)
            elif count is not None and count.operator == "/" and [count.operands[1].text] == pitch:
                found.append(count.operands[0].text)
    return list(dict.fromkeys(found))


def sizes(program: Program, one: Expression, most: int = _MOST_SIZES) -> list[str]:
    """The sizes that are visible at a place, by how often something is multiplied by each; first what nothing uses."""
    pool, company = pools(program), _company(program)
    visible = [atom for atom in pool.at(one) if atom.type.whole and atom.varying is False]
    idle = [atom.text for atom in visible if atom.text not in pool.roles and atom.root == atom.text]
    names = {atom.text for atom in visible}
    often = [text for text, _ in company.sizes.most_common() if text in names or (len(text) > 1 and text.isdecimal())]
    others = [atom.text for atom in visible if pool.roles.get(atom.text, set()) & _SIZES]
    return list(dict.fromkeys([*idle[:1], *often[:most], *others]))[: most + 1]


def bounds(program: Program, one: Expression) -> list[Text]:
    """What an integer may be held to where an expression stands: members of what it names come first, then bounds and
    what nothing reads."""
    pool = pools(program)
    found = [
        atom
        for atom in pool.at(one)
        if atom.type.whole and atom.varying is not True and atom.root != one.text and atom.text not in one.names
    ]
    roles, rounded = pool.roles, _company(program).rounded
    found.sort(
        key=lambda atom: (
            atom.root not in one.names,
            not (roles.get(atom.text, set()) & _BOUNDS or atom.text in rounded or _idle(atom, roles)),
            atom.constant,
            -pool.uses[atom.text],
        )
    )
    return [Text(atom.text, precedence.POSTFIX) for atom in found[:_MOST_BOUNDS]]


def _idle(atom: Atom, roles: Mapping[str, set[str]]) -> bool:
    return atom.text not in roles and atom.root == atom.text


def own_pitches(program: Program, one: Expression) -> list[str]:
    """How far apart the rows are of what a pointer points to, as its uses say, and those of the variable that is made
    of it; the most frequent first."""
    names = {one.text, *(variable.name for variable in one.statement.declares)}
    known = _company(program).pitches
    counted = Counter({text: count for name in names for text, count in known[name].items()} if names else {})
    visible = {atom.text for atom in pools(program).at(one)}
    return [text for text, _ in counted.most_common(_MOST_PITCHES) if text in visible]


def ends(program: Program, one: Expression) -> Iterator[Text]:
    """Where something that begins at a whole number may end: a variable declared just before, and a size more."""
    before = one.statement.block[max(0, one.statement.index - 3) : one.statement.index]
    made = [variable for statement in before[::-1] for variable in statement.declares]
    visible = {atom.text: atom for atom in pools(program).at(one)}
    for variable in made:
        atom = visible.get(variable.name)
        if atom is not None and atom.type.whole and not variable.dimensions:
            more = [text for text in visible if _adds(program, visible[text], atom)][:_MOST_SUMS]
            yield from (binary(Text(atom.text), "+", Text(text, precedence.POSTFIX)) for text in more)


def _adds(program: Program, atom: Atom, to: Atom) -> bool:
    """Whether it is a size that may be added: one that nothing uses, or that is a factor or step somewhere."""
    roles = pools(program).roles.get(atom.text, set())
    fits = not roles or bool(roles & {"pitch", "loop step", "extent"})
    return atom.type.whole and atom.varying is False and not atom.constant and atom.text != to.text and fits


def _company(program: Program) -> _Company:
    return program.once(_Company)
