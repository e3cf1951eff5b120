"""Which row and column a lane takes: the formulas of ldmatrix addresses and of mma fragments, in the user's variables.

Expressions are compared by what they are for every lane, not as text: `lane & 15` is not replaced by `lane % 16`, and
what is right already stays. Sources: PTX ISA 9.0, "ldmatrix" (lane 8i + r gives row r of matrix i) and "Matrix
Fragments for mma.m16n8k16" (lane l holds row l / 4 and columns 2 (l % 4), 2 (l % 4) + 1).

Bad:
    ldmatrix_x4(b, &sh[(row + (lane & 7)) * LD + k + (lane >> 3) * 8]);        // rows 8 to 15 are never addressed

Good:
    ldmatrix_x4(b, &sh[(row + lane % 16) * LD + k + lane / 16 * 8]);
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.lanes import LANES, Atom, Values
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "lane-functions"
_ROWS_KIND = "ldmatrix-rows"
_SHOWS = ("write-conflict", "unwritten-output", "out-of-bounds", "alignment", "uninitialised-memory", "partial-fill")
"""Where a wrong row or column may show first."""
_ADDRESS = ("ldmatrix-address", *_SHOWS, "index-arithmetic", "fragment-map", "operand-layout", "swizzle-mismatch")
_MAP = ("fragment-map", *_SHOWS, "index-arithmetic", "ldmatrix-address")


@dataclass(frozen=True, slots=True)
class Formula:
    """A function of the lane: its text with {lane}, and what it is."""

    text: str
    of: Callable[[int], int]

    @property
    def values(self) -> Values:
        """For lanes 0 to 31."""
        return tuple(map(self.of, range(LANES)))


_MOD_16 = Formula("{lane} % 16", lambda lane: lane % 16)
_MOD_8 = Formula("{lane} % 8", lambda lane: lane % 8)
_UPPER = Formula("{lane} / 16 * 8", lambda lane: lane // 16 * 8)
_SECOND = Formula("{lane} / 8 % 2 * 8", lambda lane: lane // 8 % 2 * 8)
_PAIRED = Formula("{lane} / 16 * 8 + {lane} % 8", lambda lane: lane // 16 * 8 + lane % 8)
GROUP = Formula("{lane} / 4", lambda lane: lane // 4)
_PLACE = Formula("{lane} % 4", lambda lane: lane % 4)
TWICE = Formula("{lane} % 4 * 2", lambda lane: lane % 4 * 2)
_NONE = Formula("0", lambda _: 0)

_ROWS: dict[str, tuple[tuple[Formula, Formula], ...]] = {
    "x4": ((_MOD_16, _UPPER), (_PAIRED, _SECOND)),
    "x2": ((_MOD_8, _SECOND), (_MOD_16, _NONE)),
    "x1": ((_MOD_8, _NONE),),
}
"""(row, column) of the address that a lane gives, by the number of matrices: of A, and of B stored by columns."""

_OTHER = 0.02
"""What it weighs that an address is right for another operand as it stands: not to be tried unless it is claimed."""

_CHUNKS = 4
"""Matrices that one ldmatrix reads at most: columns below that are counted in matrices."""

_FRAGMENTS = ((GROUP, TWICE), (TWICE, GROUP))
"""(row, column) of the first element that a lane holds: as it lies in memory, and where that is transposed."""


@generator(_ROWS_KIND, *_ADDRESS, derived=True)
def rows(view: View) -> Iterator[Edit]:
    """The rows that lanes name for ldmatrix, where wanted lines have others."""
    if view.lines is None:
        return
    for call, count in ldmatrix_calls(view.model):
        for argument in view.model.calls[call].arguments:
            yield from _addressed(view, argument, count)


@generator(_KIND, *_MAP, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """The elements that lanes hold of mma fragments, where wanted lines load or store others."""
    if view.lines is None:
        return
    model = view.model
    named = (argument for call, _ in ldmatrix_calls(model) for argument in model.calls[call].arguments)
    taken = {atom.piece.start for argument in named for atom in model.lanes.atoms(argument)}
    if _MULTIPLIES.search(model.text):
        for site in _sites(model):
            if taken.isdisjoint(atom.piece.start for atom in model.lanes.atoms(site)):
                yield from _held(view, site)


_MULTIPLIES = re.compile(r"\bmma\.sync")


def ldmatrix_calls(model: SourceModel) -> Iterator[tuple[int, str]]:
    """(index of the call, number of matrices) of calls of wrappers and macros that are an ldmatrix."""
    wrappers = dict(_wrappers(model.text))
    for index, call in enumerate(model.calls):
        if call.name in wrappers:
            yield index, wrappers[call.name]


def _wrappers(text: str) -> Iterator[tuple[str, str]]:
    for found in MACRO.finditer(text):
        yield from _counted(found[1], found[2])
    for found in _DEFINED.finditer(text):
        end = text.find("}", found.end())  # no asm statement of ldmatrix ends before its first closing brace
        end = text.find("}", text.find(";", end)) if "asm" in text[found.end() : end] else end
        yield from _counted(found[1], text[found.end() : end])


MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_DEFINED = re.compile(r"__device__[^;{}()]*?\b(\w+)\s*\([^{};]*\)\s*(?=\{)")
_COUNT = re.compile(r"ldmatrix[^\"]*?\.(x[124])\b")


def _counted(name: str, body: str) -> Iterator[tuple[str, str]]:
    if "ldmatrix" in body:
        found = _COUNT.search(body)
        yield name, found[1] if found else "x1"


def _sites(model: SourceModel) -> Iterator[Span]:
    """Addresses of single elements: indices, and initialisers of pointers."""
    for one in model.subscripts:
        yield model.span(model.token_at(one.start), model.token_at(one.end - 1) + 1)
    for variable in model.variables:
        if variable.pointer and variable.initial is not None and variable.kind == "local":
            yield variable.initial


def _addressed(view: View, argument: Span, count: str) -> Iterator[Edit]:
    row, column = _pair(view, argument)
    if row is None:
        return
    used = 8 * int(count[1])
    if column is not None and max(column.values[:used]) < _CHUNKS:  # counted in rows of eight elements
        known = tuple((a, _MULTIPLES[b.text][1] if b.text in _MULTIPLES else b) for a, b in _ROWS[count])
    else:
        known = _ROWS[count]
    for position, wanted in enumerate(known):
        pairs = [(row, wanted[0])] if column is None else [(row, wanted[0]), (column, wanted[1])]
        if column is None and wanted[1] is not _NONE:
            continue
        off = [(atom, formula) for atom, formula in pairs if atom.values[:used] != formula.values[:used]]
        other = _OTHER if len(off) == 2 and _known(row, column, known, used) else 0.0
        yield from _set(view, off, _ROWS_KIND, _ADDRESS, 0.02 + 0.01 * position + other)


def _held(view: View, site: Span) -> Iterator[Edit]:
    row, column = _pair(view, site)
    if row is None:
        return
    for position, wanted in enumerate(_FRAGMENTS):
        pairs = [(row, wanted[0])] if column is None else [(row, wanted[0]), (column, wanted[1])]
        off = [(atom, formula) for atom, formula in pairs if atom.values[:LANES] != formula.values]
        alone = 0.04 if column is None else 4 * _OTHER if _known(row, column, _FRAGMENTS, LANES) else 0.0
        yield from _set(view, off, _KIND, _MAP, 0.03 + alone + 0.02 * position)


def _known(row: Atom, column: Atom | None, pairs: Sequence[tuple[Formula, Formula]], used: int) -> bool:
    """Whether an address is one that some operand needs."""
    have = row.values[:used], column.values[:used] if column is not None else (0,) * used
    return any(have == (a.values[:used], b.values[:used]) for a, b in pairs)


def _pair(view: View, piece: Span) -> tuple[Atom | None, Atom | None]:
    """The atoms that count rows and columns; (None, None) where there are more, or they depend on the warp."""
    functions = view.model.lanes
    found = {atom.piece.start: atom for atom in functions.atoms(piece)}
    atoms = list(found.values())
    if not 1 <= len(atoms) <= 2 or not all(functions.of_lane(atom.values) for atom in atoms):
        return None, None
    if len(atoms) == 1:
        return (atoms[0], None) if atoms[0].role != "column" else (None, None)
    first, second = atoms
    if first.role == "column" or (second.role == "row" and first.role != "row"):
        first, second = second, first
    return first, second


def _set(
    view: View, off: list[tuple[Atom, Formula]], kind: str, faults: tuple[str, ...], rank: float
) -> Iterator[Edit]:
    """Each wrong part of an address as its formula, where it stands and where it was defined."""
    if not off:
        return
    for put, later in ((_here, 0.0), (_at_definition, 0.005)):
        places = [put(view.model, atom, formula) for atom, formula in off]
        known = [place for place in places if place is not None]
        if len(known) < len(places):
            continue
        changes: list[Change] = []
        said: list[str] = []
        short: list[str] = []
        for place in known:
            text = spelled(view.model, place.formula, place.piece.start)
            said.append(f"`{place.piece.text}` must be `{text}`")
            short.append(f"{text} instead of {place.piece.text}")
            changes.append(replaced(place.piece, f"({text})" if place.inside and not text.isidentifier() else text))
        # A name that only this address uses is wrong where it is made; one that others use as well is right for them.
        own = all(place.alone for place in known)
        line = view.model.line_of(changes[0].start)
        more = 0.015 * (len(changes) - 1) + (-later if own else later)
        cause = f"{' and '.join(said)} here, as {_WHOLE[kind]}"
        summary = f"take {', '.join(short)}"
        yield from view.offer(kind, faults, line, summary, tuple(changes), rank + more, cause)


_WHOLE = {_KIND: "the map of the fragment has it", _ROWS_KIND: "ldmatrix takes its row addresses"}


@dataclass(frozen=True, slots=True)
class _Put:
    """Where a formula is to stand: inside a product, or as all of an initialiser that this address `alone` uses."""

    piece: Span
    formula: Formula
    inside: bool = False
    alone: bool = False


def _here(model: SourceModel, atom: Atom, formula: Formula) -> _Put | None:
    piece = atom.piece
    return _Put(piece, formula, atom.inside or model.match[piece.first] == piece.last - 1)


def _at_definition(model: SourceModel, atom: Atom, formula: Formula) -> _Put | None:
    """The initialiser of the variable that an atom is, or is a multiple of."""
    tokens = model.tokens[atom.piece.first : atom.piece.last]
    name = next((token for token in tokens if token.kind == "id"), None)
    variable = model.variable(name.text, name.offset) if name is not None else None
    if variable is None or variable.initial is None:
        return None
    if len(tokens) != 1:
        rest = {token.text for token in tokens} - {variable.name, "*", "(", ")"}
        factor, part = _MULTIPLES.get(formula.text, (0, formula))
        if len(tokens) != 3 or rest != {str(factor)}:
            return None
        formula = part
    uses = sum(token.text == variable.name for token in model.tokens)
    return _Put(variable.initial, formula, alone=uses == 2)


_MULTIPLES = {
    TWICE.text: (2, _PLACE),
    _UPPER.text: (8, Formula("{lane} / 16", lambda lane: lane // 16)),
    _SECOND.text: (8, Formula("{lane} / 8 % 2", lambda lane: lane // 8 % 2)),
}
"""Formula → (factor, formula that it is a multiple of)."""


def spelled(model: SourceModel, formula: Formula, offset: int) -> str:
    """A formula in the variables that code at an offset can use."""
    functions = model.lanes
    if formula is _NONE:
        return "0"
    name = functions.named(formula.values, offset)
    if name:
        return name
    if formula is TWICE:
        inner = functions.named(_PLACE.values, offset)
        if inner:
            return f"{inner} * 2"
    return formula.text.format(lane=_lane(model, offset))


def _lane(model: SourceModel, offset: int) -> str:
    return model.lanes.named(_IDENTITY, offset) or ("threadIdx.x" if model.lanes.one_warp else "(threadIdx.x % 32)")


_IDENTITY: Values = tuple(range(LANES))
