"""The card of a kernel that a host function beside it describes: the calls, sizes and readings that are tried.

Inputs are random, so that a kernel which is right by a call is right by no chance. One that is wrong by every reading
is WRONG only where names leave no doubt that the functions say what it should compute.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain

from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.hostcode.terms import NotWritten, Number
from wmmadiag.numerics.element_types import element_type
from wmmadiag.ops.expressions import ExpressionError, evaluate, names_in
from wmmadiag.subject.card import Card
from wmmadiag.subject.drafts.given_source import GivenSource
from wmmadiag.subject.drafts.guards import guarded_by_any_block
from wmmadiag.subject.drafts.guess import DraftParameter
from wmmadiag.subject.drafts.host_calls.candidates import Candidate, candidates
from wmmadiag.subject.drafts.host_calls.card_text import Written, card_text, written
from wmmadiag.subject.drafts.host_calls.elsewhere import candidates_elsewhere
from wmmadiag.subject.drafts.host_calls.readings import may_write, readings
from wmmadiag.subject.drafts.host_calls.sizes import size_sets
from wmmadiag.subject.drafts.host_calls.trying import Tries, is_right, surely_wrong, weight
from wmmadiag.subject.drafts.kernel import SourceKernel
from wmmadiag.subject.drafts.sizes import OTHER_SHAPE, RAGGED, beside_block
from wmmadiag.subject.drafts.text import parsed_card
from wmmadiag.subject.host_functions.probe import Probed, Question
from wmmadiag.subject.host_functions.text import host_function

# What writes through a pointer in its own name, or may do so.
_STORES = r"\b{}\b\s*(?:\[[^;]*?\])?\s*[-+*/|&^]?=(?!=)|\w*(?:[Ss]tore|atomic)\w*\s*\(\s*&?\s*{}\b|&\s*{}\b|\*\s*{}\b"
_MOST_RUNS, _MOST_INSTRUCTIONS = 30, 50_000_000  # runs, and their warp instructions; each candidate is tried once
_MOST_ELEMENTS = 1 << 22
_LIGHTER = 8  # how many times less there is to do at sizes that are tried where a run did not end


def host_card(
    source: GivenSource, kernel: SourceKernel, assumed: Sequence[str], named: str = "", *, guessed: bool = False
) -> tuple[Card | None, tuple[str, ...]]:
    """The card by the host functions by which the kernel is right, or surely should be, None if there are none; and
    of others that were tried what that gave, each a clause.

    Args:
        named: the function that the user named as the reference.
        guessed: whether nobody says that the kernel is made for its template's arguments, so that it is never wrong.
    """
    try:
        held = _Held(source, kernel, written(kernel, source.wishes))
    except NotWritten:
        return None, ()
    tries = Tries()
    card = held.right_card(named, tries)
    if card is None and not tries.ragged and (only_read := _only_read(kernel, tries.untouched or set())):
        names = " and ".join(f"'{one.name}'" for one in only_read)
        reading = tuple(replace(one, const=True) if one in only_read else one for one in kernel.parameters)
        again = Tries(tries.session)
        card = replace(held, kernel=replace(kernel, parameters=reading)).right_card(named, again)
        card = None if card is None else replace(card, assumed=(*card.assumed, f"the kernel only reads {names}"))
    card = card or (None if guessed or tries.asked else surely_wrong(kernel, tries, named))
    if card is not None:
        return replace(card, assumed=(*assumed, *card.assumed)), ()
    if tries.ragged:
        return None, (f"it is right by a host function at multiples of its tiles, and not at {tries.ragged}: with the "
                      "sizes that it takes, --symbol says, or --computes, that this is wrong",)  # fmt: skip
    return None, (tries.asked,) if tries.asked else _notes(tries)


def has_candidates(source: GivenSource, kernel: SourceKernel) -> bool:
    """Whether there may be any for a kernel template, once its arrays have types."""
    typed = [replace(one, dtype=one.dtype or "f32") for one in kernel.parameters]
    meant = replace(kernel, parameters=tuple(typed))
    return bool(candidates(meant)) or next(candidates_elsewhere(source, meant), None) is not None


def _notes(tries: Tries) -> tuple[str, ...]:
    """What came of the candidates by which the kernel is not right, each a clause."""
    wrong = {one.statements: one for one, _ in tries.wrong}
    died = {one.statements: (one, said) for one, _, said in tries.died if one.statements not in wrong}
    notes = [(one, f"it does not compute what {one.told()} does") for one in wrong.values()]
    notes += [(one, f"with the arrays of {one.told()} it ends by: {said}") for one, said in died.values()]
    says = "which may be no reference of it: --computes {} says that it is"
    return tuple(f"{note}, {says.format(one.functions[-1].function.name)}" for one, note in notes)


def _only_read(kernel: SourceKernel, untouched: Set[str]) -> list[DraftParameter]:
    """The arrays that the kernel may write and never does, though its code names them: it reads them, then."""
    declared = kernel.declared
    if declared is None or declared.function.body is None:
        return []
    body = declared.source.text(declared.function.body)
    named = [one for one in kernel.parameters if one.name in untouched and _mentions(body, r"\b{}\b", one.name)]
    return [one for one in named if not _mentions(body, _STORES, one.name)]


def _mentions(body: str, pattern: str, name: str) -> bool:
    return re.search(pattern.replace("{}", re.escape(name)), body) is not None


def is_host_function(source: GivenSource, kernel: SourceKernel) -> bool:
    """Whether the source, or another of its project, has a function of the named name that may be a reference."""
    name = source.options.computes
    own = kernel.machine is not None and host_function(kernel.machine.program, name) is not None
    return own or next(candidates_elsewhere(source, kernel, name), None) is not None


def named_host_card(source: GivenSource, kernel: SourceKernel, assumed: Sequence[str]) -> Card:
    """The card by the host function that the user named as what the kernel computes.

    Raises:
        ConfigurationError: it does not tell what the kernel computes.
    """
    path, name = source.path, source.options.computes
    card, _ = host_card(source, kernel, assumed, name)
    if card is None:
        raise ConfigurationError(
            f"{path}: the function '{name}' does not tell what '{kernel.entry}' computes: its arrays and "
            "numbers are not the kernel's by name, or it does not run by itself",
            hint=f"write a card with `wmmadiag init {shlex.quote(str(path))} --computes python`, and in its [computes] "
            f'host = "{path.name}", call = "{name}(…)"',
        )
    return card


def _guards(kernel: SourceKernel) -> Mapping[str, int]:
    """The kernel's numbers with which it compares indices, and what these are multiples of."""
    if kernel.declared is None or kernel.machine is None:
        return kernel.tiling.guards
    return guarded_by_any_block(kernel.machine.program, kernel.declared, kernel.constants)


def _number(text: str) -> Number:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _threads(launched: Written) -> frozenset[str]:
    """The symbols that count threads of a block."""
    return frozenset(name for text in launched.block for name in names_in(text))


@dataclass(frozen=True, slots=True)
class _Held:
    """A kernel that is held against host functions, with what host code says of its launch."""

    source: GivenSource
    kernel: SourceKernel
    launched: Written

    def right_card(self, named: str, tries: Tries) -> Card | None:
        """The first card by which the kernel is right; `named`: the function that the user named, "" for any."""
        for one in chain(candidates(self.kernel), candidates_elsewhere(self.source, self.kernel, named)):
            if named and named not in {found.function.name for found in one.functions}:
                continue
            for card, question in self._cards(one):
                said = f"judged by {one.told()}, called as {one.statements}; --computes says otherwise"
                if weight(card) * _LIGHTER > tries.heavy:
                    continue
                told = replace(card, assumed=(said, *card.assumed))
                if is_right(told, one, tries):
                    if question:
                        tries.asked = question
                        break
                    whole = self._with_ragged(one, told, tries)
                    return whole if whole is None else self._with_other_shape(one, whole)
                if tries.runs >= _MOST_RUNS or tries.instructions >= _MOST_INSTRUCTIONS:
                    break
        return None

    def _cards(self, candidate: Candidate) -> Iterator[tuple[Card, str]]:
        """The cards of one candidate: by sizes, and by what arrays begin with, each with what has to be asked then."""
        needed, counted = self.launched.names(candidate), self._threads()
        free = [one for one in self._extents(candidate) if one in needed and one not in counted]
        held = [one for one in sorted(needed) if one not in free]
        seen: list[Mapping[str, Number]] = []
        for sizes in size_sets(free, held, self.kernel.usual, counted):
            sizes |= {name: _number(text) for name, text in self.source.options.symbols.items()}
            if sizes in seen or not self._is_affordable(sizes):
                continue
            seen.append(sizes)
            try:
                yield from self._cards_at(candidate, sizes)
            except WmmadiagError:  # the functions do not compile by themselves, at any size
                return

    def _cards_at(
        self, candidate: Candidate, sizes: Mapping[str, Number], name: str = "small"
    ) -> Iterator[tuple[Card, str]]:
        """The cards of one candidate at some sizes, their case so named, as `_cards`.

        Raises:
            WmmadiagError: the functions do not compile by themselves.
        """
        kernel, path = self.kernel, self.source.path
        extents = [value for one in self._extents(candidate) if isinstance(value := sizes.get(one), int) and value > 1]
        below = min(extents, default=2)
        probed = self._probed(candidate, sizes, below)
        if probed is None:
            return
        counts: dict[str, Number] = {f"elements_of_{array}": count for array, count in probed.counts.items()}
        for reading in readings(kernel, candidate, self.launched, probed, self.source.options.computes):
            shapes = {one.shape for one in reading.uses.values()}
            shown = {**sizes, **{symbol: one for symbol, one in counts.items() if symbol in shapes}}
            text = card_text(
                kernel, candidate, self.launched, reading.uses, shown,
                source=path.name, name=path.stem, below=below, given=probed.given, inputs=probed.inputs, case=name,
                host=os.path.relpath(candidate.file, path.parent) if candidate.file is not None else "",
            )  # fmt: skip
            yield replace(parsed_card(text, self.source, reading.said, kernel.entry), text=text), reading.asked

    def _with_ragged(self, candidate: Candidate, card: Card, tries: Tries) -> Card | None:
        """A right card with a case whose sizes are no multiples of tiles, where the kernel compares its indices with
        them.

        What it stores outside its arrays there is wrong. None where its numbers are: nobody says whether it takes them.
        """
        from wmmadiag.subject.check import run_case

        sizes = {name: _number(str(value)) for name, value in card.cases[0].symbols.items()}
        ragged = {name: one for name, one in sizes.items() if not name.startswith("elements_of_")}
        fixed = self.source.options.symbols.keys() | self._threads()
        for guard, step in _guards(self.kernel).items():
            for name in names_in(self.launched.numbers.get(guard, "")) - fixed:
                value = ragged.get(name)
                if isinstance(value, int) and value > step:
                    ragged[name] = value - step
        if all(sizes[name] == one for name, one in ragged.items()):
            return card
        for other, _ in self._cards_at(candidate, ragged, RAGGED):
            if other.assumed != card.assumed[1:]:
                continue
            result = run_case(tries.session_of(other), other.cases[0], other.variants[0], None, "")[0]
            fault = result.problem
            outside = fault is not None and fault.kind == "out-of-bounds" and fault.message.startswith("write")
            if result.status == "passed" or outside or result.overwritten:
                return replace(other, assumed=card.assumed, cases=(*card.cases, *other.cases))
            tries.ragged = " ".join(f"{name}={value}" for name, value in ragged.items())
            return None
        return card

    def _with_other_shape(self, candidate: Candidate, card: Card) -> Card:
        """A right card with a case of another shape in which host code launches the kernel, too."""
        kernel = self.kernel
        shape = {name: int(one) for name, one in kernel.other_shape.numbers.items()}
        sizes = {name: _number(str(value)) for name, value in card.cases[0].symbols.items()}
        sizes = {name: one for name, one in sizes.items() if not name.startswith("elements_of_")}
        if not shape or not shape.keys() <= sizes.keys() or shape.keys() & self.source.options.symbols.keys():
            return card
        try:
            threads = int(math.prod(evaluate(text, {**sizes, **shape}.__getitem__) for text in self.launched.block))
        except (ExpressionError, KeyError, ValueError, ArithmeticError):
            return card
        fixed = self.source.options.symbols.keys() | self._threads() | shape.keys()
        for name in self._extents(candidate):
            if isinstance(size := sizes.get(name), int) and name not in fixed:
                sizes[name] = beside_block(size, kernel.usual.get(name), threads)
        if not self._is_affordable(sizes | shape):
            return card
        with contextlib.suppress(WmmadiagError):
            for other, _ in self._cards_at(candidate, sizes | shape, OTHER_SHAPE):
                if other.assumed == card.assumed[1:]:
                    return replace(card, cases=(*card.cases, *other.cases))
        return card

    def _threads(self) -> frozenset[str]:
        """The symbols that count threads of a block."""
        return frozenset(name for text in self.launched.block for name in names_in(text))

    def _extents(self, candidate: Candidate) -> list[str]:
        """The symbols that functions or the kernel take as numbers, or arrays are sized by, in their order."""
        numbers = self.launched.numbers
        texts = [numbers.get(one, one) for one in re.findall(r"[A-Za-z_]\w*", candidate.statements)]
        texts += [*numbers.values(), *self.launched.sizes.values()]
        return list(dict.fromkeys(name for text in texts for name in sorted(names_in(text))))

    def _is_affordable(self, sizes: Mapping[str, Number]) -> bool:
        """Whether no array that host code makes is too large at these sizes."""
        try:
            counts = [evaluate(text, sizes.__getitem__) for text in self.launched.sizes.values()]
        except (ExpressionError, KeyError, ValueError, ArithmeticError):
            return False
        return all(0 < one <= _MOST_ELEMENTS for one in counts)

    def _probed(self, candidate: Candidate, sizes: Mapping[str, Number], below: int) -> Probed | None:
        """What the functions do with the arrays at some sizes; None where they do not end.

        Raises:
            WmmadiagError: they do not compile by themselves, or there is no compiler.
        """
        from wmmadiag.subject.reference_process import asked_probe

        options, launched, arrays = self.source.options, self.launched, candidate.arrays
        numbers: dict[str, tuple[float, bool]] = {
            name: (float(one), isinstance(one, float)) for name, one in sizes.items()
        }
        counts: dict[str, int] = {}
        known = [one for one in self.kernel.parameters if one.pointer and one.name in arrays]
        try:
            for one in self.kernel.parameters:
                if not one.pointer:
                    element = element_type(one.dtype or "")
                    value = float(evaluate(launched.numbers[one.name], sizes.__getitem__))
                    numbers[one.name] = value, element is not None and element.is_float
            for one in known:
                if one.name in launched.sizes:
                    counts[arrays[one.name]] = int(evaluate(launched.sizes[one.name], sizes.__getitem__))
        except (ExpressionError, KeyError, ValueError, ArithmeticError):
            return None
        question = Question(
            candidate.file or self.source.path,
            options.include_paths,
            tuple(options.macros.items()),
            candidate.statements,
            numbers,
            tuple(dict.fromkeys(arrays[one.name] for one in known)),
            counts,
            frozenset(arrays[one.name] for one in known if may_write(one, candidate)),
            frozenset(arrays[one.name] for one in known if one.const) & candidate.written,
            below,
        )
        return asked_probe(question)
