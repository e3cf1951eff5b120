"""The card of a kernel of which comments say by formulas what it computes.

A formula was not made of the code, so that a kernel which computes it is right by no chance, as inputs are random. One
that does not is no news: the comment may be old, or be read otherwise than it is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from wmmadiag.errors import WmmadiagError
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.terms import NotWritten, Number, Term
from wmmadiag.hostcode.values import Pointer, Struct, Value
from wmmadiag.ops.expressions import names_in
from wmmadiag.ops.formulas.tree import Applied, names_of, nodes
from wmmadiag.subject.alternatives import elements
from wmmadiag.subject.card import Card, Case, Derived
from wmmadiag.subject.drafts.code_facts import uses_tf32
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guess import DraftParameter, folded
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.launched import covering_launches
from wmmadiag.subject.drafts.model import CardDraft
from wmmadiag.subject.drafts.sizes import RAGGED
from wmmadiag.subject.drafts.stated.card_text import card_text, element_of
from wmmadiag.subject.drafts.stated.chosen import Chosen, chosen
from wmmadiag.subject.drafts.stated.comments import Stated, stated
from wmmadiag.subject.drafts.stated.extents import Shapes, numbered_axes, shapes_of
from wmmadiag.subject.drafts.stated.launch_text import WrittenLaunch, by_itself, written
from wmmadiag.subject.drafts.stated.names import array_named, known_numbers, labels_in, meanings
from wmmadiag.subject.drafts.stated.sizes import roles_of, size_sets
from wmmadiag.subject.drafts.text import parsed_card
from wmmadiag.subject.formula_reference import ANY

if TYPE_CHECKING:
    from wmmadiag.results.model import CaseResult, Problem
    from wmmadiag.subject.verdict import Verdict

_MOST_STATEMENTS, _MOST_CARDS, _MOST_RUNS = 6, 12, 16
_MOST_LAUNCHES, _PROBED, _TILE = 4, 4, 64  # that are tried of a kernel which nobody launches, in sizes times that
_TOLD = 0.1  # of the elements of an output: those that their bounds must tell from their neighbours
_EVEN = 256  # a multiple of the tiles that there are
_MOST_ELEMENTS = 1 << 25  # of all arrays of a case
_SETS = 3  # of sizes, of one way in which names are meant
_REAL = frozenset(["f16", "bf16", "f32", "f64"])


@dataclass(slots=True)
class TriedFormulas:
    """What came of formulas."""

    runs: int = 0
    wrong: dict[int, str] = field(default_factory=dict)  # line → the formula there that the kernel does not compute
    ways: set[str] = field(default_factory=set)  # how names and extents were meant, of what ran
    first: Card | None = None  # the first that the kernel is not right by
    died: bool = False  # whether a run told nothing: it did not come to its end, or all numbers are alike
    faulty: Card | None = None  # by which the kernel leaves its arrays at sizes that are multiples of any tile
    fault: Problem | None = None  # what it does then


def stated_card(
    source: GivenSource, kernel: SourceKernel, assumed: Sequence[str]
) -> tuple[Card | None, tuple[str, ...]]:
    """The card by formulas in comments which the kernel computes, None if there are none.

    Returns:
        The card; and what came of other formulas, each a clause.
    """
    arrays = [one for one in kernel.parameters if one.pointer and not one.value]
    if kernel.uninstantiated or not arrays or not all(map(element_of, arrays)):
        return None, ()
    if other := _changed_by(kernel):
        return None, (f"'{other}', which host code launches behind it, may change what it writes",)
    found = stated(source.text, lambda name: array_named(name, arrays, short=False) is not None)
    if not found.formulas:
        return None, ()
    tries = TriedFormulas()
    card = formula_card(source, kernel, found, tries, "judged by what a comment says, {}; --computes says otherwise")
    if card is not None:
        return replace(card, assumed=(*assumed, *card.assumed)), ()
    return None, tuple(f"it does not compute what line {line} says: {text}" for line, text in tries.wrong.items())


def formula_card(
    source: GivenSource, kernel: SourceKernel, found: Stated, tries: TriedFormulas, said: str
) -> Card | None:
    """The card by formulas which the kernel computes, None if there are none.

    Args:
        found: the formulas, and what is said of shapes.
        tries: what comes of them is noted in it.
        said: what is assumed, with a place for the formulas.
    """
    arrays = [one for one in kernel.parameters if one.pointer and not one.value]
    if kernel.uninstantiated or not arrays or not all(map(element_of, arrays)):
        return None
    try:
        kernel, launched = (kernel, written(kernel, source.wishes)) if kernel.launch is not None else by_itself(kernel)
    except NotWritten:
        return None
    for one in islice(chosen(found, arrays), _MOST_STATEMENTS):
        held = _Held(source, kernel, launched, arrays, one)
        ways = islice(_covering(held), _MOST_LAUNCHES) if kernel.launch is None else [("", held)]
        for launch, each in ways:
            card = each.right_card(tries)
            if card is not None:
                told = said.format(one.told(source.path.name))
                return replace(card, assumed=(told, *filter(None, [launch]), *card.assumed))
    return None


def _covering(held: _Held) -> Iterator[tuple[str, _Held]]:
    """A kernel that nobody launches, by each launch with which its blocks cover the output that a comment shapes.

    Yields:
        What that launch is, a clause, and the kernel so.
    """
    wishes = held.source.wishes
    for card, _ in islice(held._cards(), 1):
        case = card.cases[0]
        sizes = {name: str(one * _PROBED) for name, one in _numbers(case).items() if one >= _TILE}
        larger = replace(card, cases=(replace(case, symbols={**case.symbols, **sizes}),))
        for found, shared in covering_launches(held.kernel, wishes, larger):
            block = tuple(map(str, found.block))
            said = (
                f"launched with a grid of ({', '.join(found.grid)}) and blocks of ({', '.join(block)}), by which a run "
                "covers the output, since the source has no launch; --grid and --block say otherwise"
            )
            launched = replace(held.launched, grid=tuple(wishes.grid) or found.grid, block=block, shared=shared)
            yield said, replace(held, launched=launched)


def _numbers(case: Case) -> dict[str, int]:
    """The whole numbers of a case."""
    return {name: int(str(one)) for name, one in case.symbols.items() if str(one).isdecimal()}


def _changed_by(kernel: SourceKernel) -> str:
    """Another kernel that the same function launches later, on an array that this one may write; "" for none.

    Comments then say what both compute.
    """
    launch, machine = kernel.launch, kernel.machine
    if launch is None or machine is None or kernel.together is not None:
        return ""
    pairs = zip(kernel.parameters, kernel.passed, strict=True)
    written = {id(value.buffer) for one, value in pairs if isinstance(value, Pointer) and not one.const}
    same = [one for one in machine.launches if one.function == launch.function]
    at = next((at for at, one in enumerate(same) if one.place == launch.place), len(same))
    later = [one for one in same[at + 1 :] if one.kernel.name != launch.kernel.name]
    return next((one.kernel.name for one in later if written & set(_buffers(one.arguments))), "")


def _buffers(values: Iterable[Value | None]) -> Iterator[int]:
    """The buffers behind arguments, those of structs among them."""
    for value in values:
        if isinstance(value, Pointer):
            yield id(value.buffer)
        elif isinstance(value, Struct):
            yield from _buffers(cell.value for cell in value.members.values())


@dataclass(frozen=True, slots=True)
class _Held:
    """A kernel that is held against statements."""

    source: GivenSource
    kernel: SourceKernel
    launched: WrittenLaunch
    arrays: Sequence[DraftParameter]
    chosen: Chosen

    def right_card(self, tries: TriedFormulas) -> Card | None:
        """The first card by which the kernel is right, at more than one set of sizes."""
        for card, further in islice(self._cards(), _MOST_CARDS):
            for one in self._meant(card):
                if tries.runs >= _MOST_RUNS:
                    return None
                outcome = _outcome(one, tries)
                if outcome == "right":
                    return self._with_more(one, further, tries)
                tries.ways.add(_meaning(one))
                if outcome != "wrong":
                    tries.died = True
                    self._note_fault(one, outcome, tries)
                    break
                tries.first = tries.first or one
                tries.wrong[self.chosen.line] = "; ".join(self.chosen.texts)
        return None

    def _note_fault(self, card: Card, outcome: str, tries: TriedFormulas) -> None:
        """Note whether a run that died leaves its arrays at sizes, too, that are multiples of any tile."""
        if outcome not in ("died", "strays") or tries.faulty is not None:
            return
        case, given = card.cases[0], self.source.options.symbols
        even = {name: _EVEN for name, one in _numbers(case).items() if one >= _TILE and name not in given}
        if any(terms.value(fact, {**_numbers(case), **even}) not in (None, holds) for fact, holds in self._facts):
            return
        case = replace(case, symbols={**case.symbols, **{name: str(one) for name, one in even.items()}})
        even_card = replace(card, cases=(case,))
        fault = _run(even_card, tries)[0].problem
        if fault is not None and fault.kind == "out-of-bounds":
            tries.faulty, tries.fault = even_card, fault

    @property
    def _facts(self) -> Sequence[tuple[Term, bool]]:
        """What host code asks for before it launches the kernel."""
        return self.kernel.launch.facts if self.kernel.launch is not None else ()

    def _cards(self) -> Iterator[tuple[Card, Sequence[Card]]]:
        """Cards by what extents mean and by sizes, each with those for more sizes."""
        numbers = known_numbers(self.kernel, self.launched)
        for shapes in shapes_of(self.kernel, self.launched, self.chosen.statements, self.chosen.shapes, numbers):
            for symbols in self._symbols(shapes):
                made = [card for sizes in self._sizes(shapes, symbols) if (card := self._card(shapes, symbols, sizes))]
                yield from ((card, made[at + 1 :]) for at, card in enumerate(made[:2]))

    def _meant(self, card: Card) -> Iterator[Card]:
        """The card, then those in which what is computed on the way is rounded, and words are meant otherwise."""
        narrow = [one for one in map(element_of, self.arrays) if one in ("f16", "bf16")][:1]
        narrow = ["tf32"] if uses_tf32(self.kernel.code) else narrow
        statements = self.chosen.statements
        calls = {node.name for one in statements for node in nodes(one) if isinstance(node, Applied)}
        words: list[tuple[str, ...]] = [(), *[("gelu_tanh",)] * ("gelu" in calls)]
        if any(one.power == 2 for one in statements) and self._says_squares():
            words.insert(0, ("squares",))
        for further in words:
            for rounding in ("", *narrow):
                said = (f"what is computed on the way is rounded to {rounding}",) * bool(rounding)
                computes = replace(card.computes, formula=(*card.computes.formula, *further), rounding=rounding)
                yield replace(card, computes=computes, assumed=(*card.assumed, *said))

    def _says_squares(self) -> bool:
        """Whether a flag of the kernel's, or one that host code launches it for, says that squares are meant."""
        flags = {name for name, value in self.kernel.constants.items() if value == 1}
        flags |= {fact.args[0] for fact, holds in self._facts if fact.op == "symbol" and holds}
        return any("square" in one.lower() for one in flags)

    def _symbols(self, shapes: Shapes) -> Iterator[dict[str, str]]:
        """What the names of extents, and the numbers of the statements, are over host symbols."""
        wanted = {name for dims in shapes.values() for text in dims for name in names_in(text)}
        counts = numbered_axes(self.chosen.statements, shapes)
        for one in self.chosen.statements:
            wanted |= names_of(one) - labels_in(one)
        wanted -= {one.name for one in self.arrays} | {one.target for one in self.chosen.statements} | {"pi", "inf"}
        names = self.kernel.machine.names if self.kernel.machine is not None else ()
        free = [one for one in names if one not in self.kernel.usual]
        known = known_numbers(self.kernel, self.launched)
        if self.kernel.launch is None:  # a number of blocks that the kernel is not told: that of batches, say
            folds = {folded(one) for one in known.exact}
            known = replace(known, exact={**known.exact, **{one: one for one in wanted if folded(one) not in folds}})
        for found in meanings(sorted(wanted), known, free):
            if wanted <= found.keys():
                yield {name: text for name, text in found.items() if name != text} | counts

    def _sizes(self, shapes: Shapes, symbols: Mapping[str, str]) -> Iterator[dict[str, Number | str]]:
        """Values of all host symbols that a card needs."""
        launched = self.launched
        every = [*launched.grid, *launched.block, launched.shared, *launched.numbers.values(), *symbols.values()]
        every += [text for dims in shapes.values() for text in dims]
        every += [part.partition("}")[0] for part in launched.entry.split("{")[1:]]
        needed = sorted({name for text in every for name in names_in(text)} - symbols.keys())
        numbers = {launched.numbers.get(one.name, ""): one for one in self.kernel.parameters if not one.pointer}
        reals = [one for one in needed if one in numbers and numbers[one].dtype in _REAL]
        usual = {name: value for name, value in self.kernel.usual.items() if name in needed}
        given: dict[str, Number] = {}
        for name, text in self.source.options.symbols.items():
            given[name] = int(text) if text.lstrip("-").isdecimal() else float(text)
        roles = roles_of(self.kernel, shapes, symbols, needed, reals)
        yield from islice(size_sets(roles, usual, self._facts, given), _SETS)

    def _card(self, shapes: Shapes, symbols: Mapping[str, str], sizes: Mapping[str, Number | str]) -> Card | None:
        path = self.source.path
        text = card_text(
            self.kernel, self.launched, self.chosen, shapes, symbols, sizes, source=path.name, name=path.stem
        )
        try:
            card = parsed_card(text, self.source, (), self.kernel.entry)
        except WmmadiagError:
            return None
        draft = CardDraft(self.kernel.entry, "python")
        return replace(card, text=text, derived=Derived(self.source.options, frozenset(), draft, self.kernel))

    def _with_more(self, card: Card, further: Sequence[Card], tries: TriedFormulas) -> Card | None:
        """A right card with a case of other sizes, and one of sizes that are no multiples of tiles.

        None where it is not right at the others: what fits one set of sizes alone is no formula of it, nor is what fits
        whole tiles alone of a kernel that guards its edges.
        """
        cases = list(card.cases)
        for other in further:
            one = replace(other.cases[0], name="tiles")
            outcome = _outcome(replace(card, cases=(one,)), tries)
            if outcome == "wrong":
                return None
            if outcome == "right":
                cases.append(one)
                break
        ragged = self._ragged(card.cases[0])
        outcome = _outcome(replace(card, cases=(ragged,)), tries) if ragged is not None else ""
        if outcome == "wrong":
            return None
        if ragged is not None and outcome in ("right", "strays"):
            cases.append(ragged)
        return replace(card, cases=tuple(cases))

    def _ragged(self, case: Case) -> Case | None:
        """The case with sizes that the kernel compares its indices with, less one step; None where there are none."""
        sizes = _numbers(case)
        less = dict(sizes)
        for guard, step in self.kernel.tiling.guards.items():
            for name in names_in(self.launched.numbers.get(guard, "")):
                if less.get(name, 0) > step and name not in self.source.options.symbols:
                    less[name] = sizes[name] - step
        refused = any(terms.value(fact, less) not in (None, holds) for fact, holds in self._facts)
        if less == sizes or refused:
            return None
        return replace(case, name=RAGGED, symbols={**case.symbols, **{name: str(one) for name, one in less.items()}})


def _meaning(card: Card) -> str:
    """How names and extents are meant in a card, its sizes aside."""
    shapes = [one.shape for argument in card.arguments for one in argument.views]
    return repr((shapes, card.symbols))


def _tells(verdict: Verdict) -> bool:
    """Whether bounds are so narrow that an element is not taken for its neighbour: else any kernel would be right."""
    for role, expected in verdict.expected.items():
        bound, values = verdict.judgements[role].bound.reshape(-1), expected.reshape(-1)
        judged = bound < ANY
        with np.errstate(invalid="ignore"):
            apart = np.abs(np.roll(values, 1) - values) > 2 * bound
        if not judged.any() or (apart[judged].mean() < _TOLD and not (values[judged] == values[judged][0]).all()):
            return False
    return True


def is_store_outside(problem: Problem) -> bool:
    """Whether a run ended by a store outside of its arrays."""
    return problem.kind == "out-of-bounds" and problem.message.startswith("write")


def _run(card: Card, tries: TriedFormulas) -> tuple[CaseResult, Verdict | None]:
    """The first case of a card; no verdict where the kernel does not come to its end."""
    from wmmadiag.subject.card_session import tried_in
    from wmmadiag.subject.check import run_case

    tries.runs += 1
    result, _, verdict = run_case(tried_in(None, card), card.cases[0], card.variants[0], None, "")
    return result, verdict


def _outcome(card: Card, tries: TriedFormulas) -> str:
    """What the first case of a card gives: "right", "wrong", "mute" where its numbers are too much alike to tell,
    "died", or "strays" where it stores outside its arrays."""
    if elements(card)(card.cases[0]) > _MOST_ELEMENTS:
        return "died"
    result, verdict = _run(card, tries)
    if verdict is None:
        return "strays" if result.problem is not None and is_store_outside(result.problem) else "died"
    if result.status != "passed":
        return "wrong"
    return "right" if _tells(verdict) else "mute"
