"""What index expressions are as functions of the lane: their values for lanes 0 to 31, through the variables they name.

`lane % 16`, `lane & 15` and `row` with `int row = threadIdx.x & 15;` are the same function. A term of an address that
is such a function is an atom: `(warp * 16 + (lane & 15)) * LD + kk + (lane >> 4) * 8` has two, one that counts rows
and one that counts columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.model import Number, SourceModel, Span, Token, Variable

LANES = 32
THREADS = 2 * LANES
"""Threads whose values are looked at: what differs from warp to warp is no function of the lane."""
Values: TypeAlias = tuple[int, ...]
Role: TypeAlias = Literal["row", "column", ""]

_DEEP = 8
_NOTHING: Mapping[str, Values] = MappingProxyType({})
_ROW_FROM = 16  # a constant factor from here on is a pitch
_LOOSER = frozenset({"<<", ">>", "&", "^", "|", "?", ":", "<", ">", "==", "&&", "||"})
_WARP = frozenset({"32", "WARP_SIZE", "warpSize", "WARP", "kWarpSize"})
_INTEGER = frozenset({"int", "unsigned", "long", "short", "size_t", "auto", "const", "static_cast", "constexpr"})


@dataclass(frozen=True, slots=True)
class Atom:
    """The part of an index that depends on the lane alone.

    Attributes:
        piece: in the source: a term, neighbouring terms, or a factor.
        values: for threads 0 to 63.
        role: whether it counts rows (it is multiplied by a pitch, or stands in an index but the last) or columns; ""
            where its place does not say.
        inside: it is a factor of a product: what replaces it needs brackets.
        through: names of the variables between it and the address, the outermost first.
    """

    piece: Span
    values: Values
    role: Role
    inside: bool
    through: tuple[str, ...] = ()


class LaneFunctions:
    """Expressions of one source as functions of the lane."""

    def __init__(self, model: SourceModel) -> None:
        self._model = model
        self._known: dict[int, Values | None] = {}

    def values(self, piece: Span) -> Values | None:
        """Values for threads 0 to 63; None where it depends on more than lane and constants, or is not understood."""
        return self._of_tokens(piece.first, piece.last)

    def values_with(self, piece: Span, name: str, numbers: Iterable[int]) -> list[Values] | None:
        """Values for threads 0 to 63 with each of these numbers for a variable that is not known; None as above."""
        out = []
        for number in numbers:
            values = self._of_tokens(piece.first, piece.last, {name: (number,) * THREADS})
            if values is None:
                return None
            out.append(values)
        return out

    @cached_property
    def one_warp(self) -> bool:
        """Whether nothing tells warps of a block apart, so that a thread's number is its lane."""
        texts = [token.text for token in self._model.tokens]
        divided = any(a == "/" and b in _WARP for a, b in itertools.pairwise(texts))
        # `>>` is two tokens where it may close templates.
        return not divided and not any(
            b == "5" and (a == ">>" or (a == ">" and texts[at - 1] == ">"))
            for at, (a, b) in enumerate(itertools.pairwise(texts))
        )

    def of_lane(self, values: Values) -> bool:
        """Whether values are a function of the lane, the same in every warp, rather than of the thread's number."""
        return self.one_warp or values[:LANES] == values[LANES:]

    def steady(self, values: Values) -> bool:
        """Whether all lanes of a warp have the same value."""
        return len(set(values if self.one_warp else values[:LANES])) == 1

    def named(self, wanted: Values, offset: int) -> str:
        """The name of an integer that code at an offset can use and that is this function of the lane; "" if none."""
        for variable in reversed(self._model.visible(offset)):
            if variable.initial is not None and not variable.initial.start <= offset < variable.initial.end:
                known = self._variable(variable)
                if known is not None and known[:LANES] == wanted[:LANES] and self.of_lane(known):
                    return variable.name
        return ""

    def atoms(self, piece: Span) -> tuple[Atom, ...]:
        """The atoms of an address or index, those in the initialisers of the variables that it names included."""
        return tuple(self._atoms(piece, "", (), 0))

    # Values

    def _of_tokens(self, first: int, last: int, given: Mapping[str, Values] = _NOTHING) -> Values | None:
        tokens = self._joined(first, last)
        if not tokens or len(tokens) > 40:
            return None
        names: dict[str, Values] = {}
        for token in tokens:
            if token.kind in ("str", "char") or token.text in ("[", "{", "=", "."):
                return None
            if token.kind != "id" or token.text in _INTEGER or token.text in names or token.text.endswith("_t"):
                continue
            found = given[token.text] if token.text in given else self._name(token)
            if found is None:
                return None
            names[token.text] = found
        if not names:
            value = evaluate(tokens, self._model.constants.get)
            return (value,) * THREADS if isinstance(value, int) else None
        out: list[int] = []
        for lane in range(THREADS):
            value = evaluate(tokens, {name: values[lane] for name, values in names.items()}.get)
            if not isinstance(value, int):
                return None
            out.append(value)
        return tuple(out)

    def _joined(self, first: int, last: int) -> list[Token]:
        """The tokens, `threadIdx . x` as one."""
        found: list[Token] = []
        index = first
        while index < last:
            token = self._model.tokens[index]
            if token.text == "threadIdx" and index + 2 < last:
                found.append(Token(token.offset, token.line, f"threadIdx.{self._model.tokens[index + 2].text}", "id"))
                index += 3
                continue
            found.append(token)
            index += 1
        return found

    def _name(self, token: Token) -> Values | None:
        if token.text == "threadIdx.x":
            return tuple(range(THREADS))
        if token.text == "warpSize":
            return (LANES,) * THREADS
        variable = self._model.variable(token.text, token.offset)
        constant: Number | None = self._model.constants.get(token.text)
        if isinstance(constant, int) and (variable is None or variable.const):
            return (constant,) * THREADS
        return None if variable is None else self._variable(variable)

    def _variable(self, variable: Variable) -> Values | None:
        key = variable.name_at
        if key not in self._known:
            self._known[key] = None  # what names itself has no value
            plain = not (variable.pointer or variable.dims or variable.shared) and variable.kind in ("local", "global")
            once = plain and variable.initial is not None and variable.name not in self._assigned
            if once and variable.initial is not None:
                self._known[key] = self._of_tokens(variable.initial.first, variable.initial.last)
        return self._known[key]

    @cached_property
    def _assigned(self) -> frozenset[str]:
        """Names that change after their declaration."""
        tokens = self._model.tokens
        found = {one.target.text for one in self._model.assignments}
        for index, token in enumerate(tokens):
            if token.text in ("++", "--"):
                found |= {tokens[at].text for at in (index - 1, index + 1) if 0 <= at < len(tokens)}
        return frozenset(found)

    # Atoms

    def _atoms(self, piece: Span, role: Role, through: tuple[str, ...], depth: int) -> Iterator[Atom]:
        if depth > _DEEP or not piece:
            return
        first, last = self._opened(piece.first, piece.last)
        run: list[tuple[int, int, Values]] = []
        terms = list(self._split(first, last, ("+", "-")))
        for one in [*terms, None]:
            values = None if one is None else self._of_tokens(*one)
            if values is not None and self.steady(values):
                continue
            part = None if one is None or values is None else self._by_pitch(*one)
            if one is not None and values is not None and part is None and self.of_lane(values):
                # What is multiplied by nothing beside a row counts columns.
                run.append((*one, values))
                continue
            if run:
                yield self._atom(run, role, through)
                run = []
            if one is None:
                return
            if part is not None:
                yield from self._factor(*part, through, depth)
                continue
            inner = list(self._mixed(*one, role, through, depth))
            if values is not None and not (inner and all(self.of_lane(atom.values) for atom in inner)):
                inner = [Atom(self._model.span(*one), values, role, False, through)]  # of the thread's number
            yield from inner

    def _atom(self, run: list[tuple[int, int, Values]], role: Role, through: tuple[str, ...]) -> Atom:
        values = tuple(map(sum, zip(*(values for _, _, values in run), strict=True)))
        return Atom(self._model.span(run[0][0], run[-1][1]), values, role, False, through)

    def _mixed(self, first: int, last: int, role: Role, through: tuple[str, ...], depth: int) -> Iterator[Atom]:
        """Atoms of a term that depends on more than the lane."""
        model, tokens = self._model, self._model.tokens
        parts = list(self._split(first, last, ("*",)))
        if len(parts) > 1:
            for part in parts:
                values = self._of_tokens(*part)
                if values is None or not self.steady(values):
                    yield from self._factor(*part, through, depth)
            return
        index = first
        while index < last:
            token = tokens[index]
            if token.text in ("(", "[") and index < model.match[index] < last:
                close = model.match[index]
                several = list(self._split(index + 1, close, (",",)))
                for position, one in enumerate(several):
                    inner: Role = role
                    if token.text == "[":
                        following = close + 1 < len(tokens) and tokens[close + 1].text == "["
                        before = tokens[index - 1].text == "]"
                        inner = "row" if following else "column" if before else role
                    elif len(several) == 2:
                        inner = "row" if position == 0 else "column"
                    yield from self._atoms(model.span(*one), inner, through, depth + 1)
                index = close + 1
                continue
            if token.kind == "id" and (index == 0 or tokens[index - 1].text not in (".", "->", "::")):
                variable = model.variable(token.text, token.offset)
                made = variable.initial if variable is not None else None
                if variable is None or made is None or variable.dims or variable.kind != "local":
                    pass
                elif not made.start <= token.offset < made.end:
                    yield from self._atoms(made, role, (*through, variable.name), depth + 1)
            index += 1

    def _factor(self, first: int, last: int, through: tuple[str, ...], depth: int) -> Iterator[Atom]:
        """What counts rows in a factor: all of it, or where it depends on the warp or more, its own terms."""
        values = self._of_tokens(first, last)
        if values is not None and self.of_lane(values):
            yield Atom(self._model.span(first, last), values, "row", True, through)
        else:
            yield from self._atoms(self._model.span(first, last), "row", through, depth + 1)

    def _by_pitch(self, first: int, last: int) -> tuple[int, int] | None:
        """The factor that counts rows, where a term is a function of the lane times a pitch."""
        parts = list(self._split(first, last, ("*",)))
        if len(parts) < 2:
            return None
        known = [(part, self._of_tokens(*part)) for part in parts]
        steady = [values[0] for _, values in known if values is not None and self.steady(values)]
        moving = [part for part, values in known if values is not None and not self.steady(values)]
        if len(moving) == 1 and len(moving) + len(steady) == len(parts) and max(steady, default=0) >= _ROW_FROM:
            return moving[0]
        return None

    def _opened(self, first: int, last: int) -> tuple[int, int]:
        """Without the brackets around all of it."""
        tokens, match = self._model.tokens, self._model.match
        while last - first > 2 and tokens[first].text == "(" and match[first] == last - 1:
            first, last = first + 1, last - 1
        return first, last

    def _split(self, first: int, last: int, operators: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        """Operands of these operators at the top level; a product is split only after what divides or takes a rest."""
        tokens, match = self._model.tokens, self._model.match
        cuts: list[int] = []
        index = first
        while index < last:
            text = tokens[index].text
            if text in ("(", "[", "{") and index < match[index] < last:
                index = match[index]
            elif text in operators and index > first and tokens[index - 1].text not in ("(", ",", "+", "-", "*", "="):
                cuts.append(index)
            elif operators == ("*",) and text in ("/", "%"):
                cuts = []
            elif "+" in operators and text in _LOOSER and index > first:  # a first `&` takes an address
                yield first, last
                return
            index += 1
        start = first
        for cut in cuts:
            yield start, cut
            start = cut + 1
        if start < last:
            yield start, last
