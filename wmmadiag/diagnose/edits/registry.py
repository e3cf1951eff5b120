"""The generators that there are, found by walking this package, and what one works on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import TypeAlias

from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.ranking import MOST, MOST_ANYWHERE, MOST_AT_LINES, ordered
from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.model import Number, SourceModel, Span, Variable

_NONE: Mapping[str, Number] = MappingProxyType({})
_MOST = 80  # edits of one kind for one set of lines
_MACHINERY = frozenset({"model", "registry", "document", "building", "terms", "ranking"})


@dataclass(frozen=True)
class View:
    """What a generator works on: a model, the lines of interest, and known numbers.

    Attributes:
        model: of the source.
        lines: 1-based lines that edits must touch; None for all.
        values: symbols of the case and what else is known, such as "ldm" for the pitch that memory shows.
        hypotheses: faults that are asked for; None for all.
    """

    model: SourceModel
    lines: frozenset[int] | None
    values: Mapping[str, Number]
    hypotheses: frozenset[str] | None = None

    def offer(
        self, kind: str, hypotheses: Sequence[str], line: int, summary: str, changes: Sequence[Change], rank: float,
        cause: str = "",
    ) -> Iterator[Edit]:  # fmt: skip
        """One change that may mend several faults, the likeliest first: as the edit for the first that is asked for."""
        for position, hypothesis in enumerate(hypotheses):
            if self.hypotheses is None or hypothesis in self.hypotheses:
                yield Edit(kind, hypothesis, line, summary, tuple(changes), min(rank + 0.001 * position, 1.0), cause)
                return

    @cached_property
    def _wanted(self) -> frozenset[int]:
        """The lines, grown to the whole simple statements and heads of compound ones that they touch."""
        lines = self.lines or frozenset()
        grown = set(lines)
        for statement in self.model.statements:
            last = statement.last_line if statement.simple else self.model.line_of(max(statement.head_end - 1, 0))
            if last > statement.line and not lines.isdisjoint(range(statement.line, last + 1)):
                grown.update(range(statement.line, last + 1))
        return frozenset(grown)

    @cached_property
    def _extent(self) -> tuple[int, int]:
        """Offsets between which all lines of interest lie: what is outside needs no further look."""
        if not self._wanted:
            return 0, 0
        starts = self.model.line_starts
        first, last = min(self._wanted), max(self._wanted)
        return starts[min(max(first - 1, 0), len(starts) - 1)], starts[max(min(last, len(starts) - 1), 0)]

    def wanted(self, start: int, end: int | None = None) -> bool:
        """Whether code between two offsets is on a line of interest."""
        if self.lines is None:
            return True
        low, high = self._extent
        if start >= high or (start if end is None else end) < low:
            return False
        first = self.model.line_of(start)
        last = first if end is None else self.model.line_of(max(end - 1, start))
        return any(line in self._wanted for line in range(first, last + 1))

    def line_wanted(self, *lines: int) -> bool:
        """Whether one of these lines is of interest."""
        return self.lines is None or any(line in self._wanted for line in lines)

    def number(self, name: str) -> Number | None:
        """The value of a name: a constant of the source, a known number of that name, or what such make."""
        found = self.model.constants.get(name)
        if found is None:
            found = self.values.get(name)
        return self._made(name) if found is None else found

    def _made(self, name: str) -> Number | None:
        """The value of a name that is declared once, as const, from known numbers."""
        if name not in self._of_constants:
            self._of_constants[name] = None  # meanwhile: one that depends on itself has no value
            named = [one for one in self.model.variables if one.name == name]
            if len(named) == 1 and named[0].const and not named[0].pointer and not named[0].dims:
                self._of_constants[name] = self.value(named[0].initial)
        return self._of_constants[name]

    @cached_property
    def _of_constants(self) -> dict[str, Number | None]:
        return {}

    def value(self, span: Span | None) -> Number | None:
        """The value of an expression where all of its names are known."""
        if span is None or not span:
            return None
        return evaluate(self.model.tokens[span.first : span.last], self.number)

    def integers(self, offset: int) -> tuple[Variable, ...]:
        """Integer variables that code at an offset can use, arrays and pointers left out."""
        return tuple(v for v in self.model.visible(offset) if not v.pointer and not v.dims and is_integer(v))


def is_integer(variable: Variable) -> bool:
    """Whether a variable's type is an integer type; `auto` counts."""
    return _is_integer(variable.element)


@cache
def _is_integer(element: str) -> bool:
    words = set(element.replace("std::", "").split())
    return bool(words) and words <= INTEGERS


INTEGERS = frozenset(
    {"int", "unsigned", "signed", "long", "short", "size_t", "uint", "auto", "ptrdiff_t", "static", "constexpr"}
    | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (16, 32, 64)}
)

Generate: TypeAlias = Callable[[View], Iterable[Edit]]


@dataclass(frozen=True, slots=True)
class Generator:
    """One kind of edit: what it may mend, and how to make its edits. `doc` is its module's docstring."""

    kind: str
    hypotheses: frozenset[str]
    generate: Generate
    needs_lines: bool
    derived: bool
    doc: str


_FOUND: dict[str, Generator] = {}


def generator(
    kind: str, *hypotheses: str, needs_lines: bool = False, derived: bool = False
) -> Callable[[Generate], Generate]:
    """Register a function as the generator of a kind of edit.

    `needs_lines`: it makes edits only where lines of interest are given. `derived`: they follow from how hardware lays
    out fragments, or from what the source says elsewhere, not from what might have been mistyped, so that how far away
    they are says less.

    Raises:
        ValueError: the kind is taken.
    """

    def register(function: Generate) -> Generate:
        if kind in _FOUND:
            raise ValueError(f"{function.__module__}: there is a generator {kind!r} already")
        doc = importlib.import_module(function.__module__).__doc__ or ""
        _FOUND[kind] = Generator(kind, frozenset(hypotheses), function, needs_lines, derived, doc)
        return function

    return register


@cache
def generators() -> tuple[Generator, ...]:
    """All generators, by kind."""
    package = importlib.import_module("wmmadiag.diagnose.edits")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in _MACHINERY:
            importlib.import_module(f"{package.__name__}.{module.name}")
    return tuple(_FOUND[kind] for kind in sorted(_FOUND))


def derived(model: SourceModel, lines: Collection[int]) -> Iterator[Edit]:
    """What lines of interest have otherwise than hardware lays out fragments, as edits for any fault."""
    view = View(model, frozenset(lines), _NONE)
    for one in generators():
        if one.derived:
            yield from _kept(one.generate(view), view, None)


@cache
def derived_kinds() -> frozenset[str]:
    """The kinds whose edits follow from how hardware lays out fragments."""
    return frozenset(one.kind for one in generators() if one.derived)


def edits(
    model: SourceModel,
    *,
    hypotheses: Collection[str] | None = None,
    lines: Collection[int] | None = None,
    values: Mapping[str, Number] = _NONE,
) -> tuple[Edit, ...]:
    """Candidate edits, the most plausible first; the same change is offered once; `ranking` says how many.

    Args:
        model: of the source.
        hypotheses: only edits that would mend one of these faults; None for all.
        lines: only edits whose code or changes touch these lines; a statement over several lines counts for all.
        values: known numbers, by the name that the source uses (D, seq_len), and "ldm": the pitch that memory shows.
            A replacement that evaluates to what is wanted ranks first, and a name that does before a literal.
    """
    wanted = None if hypotheses is None else frozenset(hypotheses)
    view = View(model, None if lines is None else frozenset(lines), values, wanted)
    best: dict[tuple[Change, ...], Edit] = {}
    for one in generators():
        if (wanted is not None and one.hypotheses.isdisjoint(wanted)) or (one.needs_lines and lines is None):
            continue
        for edit in _few(_kept(one.generate(view), view, wanted), view):
            key = tuple(sorted(edit.changes, key=lambda c: (c.start, c.end, c.text)))
            known = best.get(key)
            if known is None or edit.rank < known.rank:
                best[key] = edit
    anywhere = lines is None and wanted is None
    most = MOST_ANYWHERE if lines is None else MOST_AT_LINES if wanted is None else MOST
    return ordered(best.values(), model, most, spread=anywhere)


def _few(found: Iterable[Edit], view: View) -> Iterable[Edit]:
    """The best of one kind, where lines are given: each will be compiled and run."""
    return found if view.lines is None else sorted(found, key=lambda e: e.rank)[:_MOST]


def _kept(found: Iterable[Edit], view: View, wanted: frozenset[str] | None) -> Iterator[Edit]:
    text = view.model.text
    for edit in found:
        if wanted is not None and edit.hypothesis not in wanted:
            continue
        if all(text[change.start : change.end] == change.text for change in edit.changes):
            continue
        if not view.line_wanted(edit.line) and not any(view.wanted(c.start, c.end) for c in edit.changes):
            continue
        yield edit
