"""One run of host code: what it has met, which ways it took, and what it found out."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.compile.ask.questions import AskScope
from wmmadiag.csource.nodes import Node
from wmmadiag.hostcode import terms
from wmmadiag.hostcode.events import Event, HostLaunch
from wmmadiag.hostcode.program import HostFunction, HostProgram, Site
from wmmadiag.hostcode.scopes import Scope
from wmmadiag.hostcode.terms import Number, Term
from wmmadiag.hostcode.types import is_real
from wmmadiag.hostcode.values import Buffer, Cell, Closure, Pointer, Tensor, Unknown, Value

Supposition: TypeAlias = "tuple[str, AskScope]"
SupposedAnswer: TypeAlias = "Callable[[Sequence[Supposition]], Sequence[Number | None]]"
"""Asks the compiler for the values of constant expressions, None for what is no such thing."""

OF_CASES = frozenset({"name", "inputs", "seed", "tolerance"})
"""Words that a card's case has a meaning for, so that no symbol of it can have them."""

_MOST_STEPS = 20_000
_SUPPOSED = 256  # of a size that nobody says: a block of so many threads, a row of so many elements
_DEEPEST = 40


class PathEnd(Exception):
    """Host code ended the program: exit, abort, throw, or more steps than anybody waits for."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A branch whose condition the run could not know, or that may lead elsewhere."""

    place: Site  # where it stands
    taken: int  # the number of the branch that was taken
    others: Mapping[int, frozenset[Site]]  # number → what that branch may launch
    alike: Sequence[int] = ()  # branches with no other launches, whose instantiations may be others


@dataclass(slots=True)
class Machine:
    """A run."""

    program: HostProgram
    script: Sequence[int] = ()  # branches to take, by the order of decisions; beyond it the machine chooses
    usual: dict[str, Number] = field(default_factory=dict)  # symbol → its usual value
    # symbol → names of variables that have been given it, its own first
    names: dict[str, list[str]] = field(default_factory=dict)
    # (condition, whether it holds) of the branches that were taken and of checks that passed
    facts: list[tuple[Term, bool]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    launches: list[HostLaunch] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    sites: set[Site] = field(default_factory=set)  # places that name a kernel and have been run
    # symbols whose values only the compiler can say: an expression, and where it stands
    asked: dict[str, Supposition] = field(default_factory=dict)
    answer: SupposedAnswer | None = None  # asks the compiler for such values
    # root: qualified name of the function that the run began with; which of the instantiations that are asked for of it
    root: str = ""
    instance: int = 0
    # C types that the source's tensor-core operations name: a dispatch over types chooses these
    multiplied: Sequence[str] = ()
    # what parameters of templates that nobody instantiates stand for
    types: Mapping[str, str] = field(default_factory=dict)
    # symbol → the tensor, "size", "stride", "dim" or "numel", and the axis that it is
    extents: dict[str, tuple[Tensor, str, int]] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)  # of these, what only a list of all has, of a tensor of unknown rank
    tensors: list[Tensor] = field(default_factory=list)  # that host code makes
    # name of memory in a "load" term → that memory. stores: (memory, index, value) of elements that host code sets.
    loads: dict[str, Buffer] = field(default_factory=dict)
    stores: list[tuple[Buffer, Term, Value]] = field(default_factory=list)
    globals: dict[str, Cell] = field(default_factory=dict)
    # lambdas that launch something and that nobody has called yet
    waiting: dict[Site, Closure] = field(default_factory=dict)
    # launches of further turns of a loop that makes them in another shape each turn: nothing else is kept of those
    further: list[HostLaunch] = field(default_factory=list)
    further_turn: bool = False  # whether such a turn is run
    # (a branch, its condition) → what its script had a run take, though the condition's usual value is another
    forced: dict[tuple[Site, Term], int] = field(default_factory=dict)
    supposed: set[str] = field(default_factory=set)  # symbols that were given a value so that a loop could be run
    steps: int = 0
    depth: int = 0
    indices: int = 0
    loops: int = 0
    repeating: int = 0  # loops around what is run that launch something

    def step(self) -> None:
        """Count one statement or call.

        Raises:
            PathEnd: there have been too many.
        """
        self.steps += 1
        if self.steps > _MOST_STEPS or self.depth > _DEEPEST:
            raise PathEnd

    def symbol(self, name: str, usual: Number | None = None) -> Term:
        """A new symbol for an integer of that name."""
        plain = re.sub(r"\W+", "_", name).strip("_") or "n"
        plain += "_" * (keyword.iskeyword(plain) or plain in OF_CASES)  # a card's expressions are Python's
        own, count = plain, 1
        while own in self.names:
            count += 1
            own = f"{plain}_{count}"
        self.names[own] = [name]
        if usual is not None:
            self.usual[own] = usual
        return terms.symbol(own)

    def suppose(self, condition: Value) -> None:
        """Give sizes that a condition depends on a value: what follows from it holds for that alone."""
        if self.known(condition) is None and isinstance(condition, Term):
            self.settle()
            for name in terms.symbols(condition) - self.usual.keys() - self.asked.keys():
                self.usual[name] = _SUPPOSED
                self.supposed.add(name)

    def called(self, term: Value, name: str) -> None:
        """Note that a variable of that name has been given a value."""
        if isinstance(term, Term) and term.op == "symbol":
            known = self.names.get(term.args[0])  # None: what stands for a sum over a loop's turns
            if known is not None and name not in known:
                known.append(name)
        elif isinstance(term, Pointer) and not term.buffer.name:
            term.buffer.name = name
        elif isinstance(term, Tensor) and not term.name:
            term.name = term.buffer.name = name

    def known(self, value: Value | None) -> Number | None:
        """The number that a value usually is; None for what is no number, or not known."""
        return terms.value(value, self.usual) if isinstance(value, Term) else None

    def buffer(self, name: str, size: Term | None = None, element: str = "") -> Buffer:
        """New memory."""
        return Buffer(name, size, element)

    def decide(
        self, place: Site, condition: Value, source_sites: Sequence[frozenset[Site]], ends: Sequence[bool]
    ) -> int:
        """Which of several branches a run takes; number 0 is the one where the condition holds.

        Args:
            place: of the branch.
            source_sites: by branch, what it may launch.
            ends: by branch, whether it ends the function or the program.
        """
        known = self.known(condition)
        if known is None and any(source_sites):
            self.settle()
            known = self.known(condition)
        others = {number: sites for number, sites in enumerate(source_sites) if sites - self.sites}
        if known is not None:
            taken = 0 if known else 1
        else:
            open_ones = [number for number, end in enumerate(ends) if not end] or [0]
            taken = next((number for number in open_ones if number in others), open_ones[0])
        if (before := self._forced(place, condition)) is not None:
            taken = before
        elif others or (known is None and any(source_sites)):
            taken = self._decided(place, taken, others, source_sites if known is None else (), condition)
        if isinstance(condition, Term):
            self.facts.append((condition, taken == 0))
        return taken

    def _forced(self, place: Site, condition: Value) -> int | None:
        """What the run took before against the same condition's usual value: a number is the same in the next turn."""
        return self.forced.get((place, condition)) if isinstance(condition, Term) else None

    def _decided(
        self,
        place: Site,
        taken: int,
        others: Mapping[int, frozenset[Site]],
        open_sites: Sequence[frozenset[Site]],
        condition: Value,
    ) -> int:
        """What a run takes, as its script has it as far as that goes; kept as a decision.

        Args:
            open_sites: by branch, what it may launch, where the condition is not known.
        """
        if self.further_turn:
            return taken
        if len(self.decisions) < len(self.script):
            usual, taken = taken, self.script[len(self.decisions)]
            if isinstance(condition, Term) and condition.op != "number" and not open_sites and usual != taken:
                self.forced[place, condition] = taken
        left = {number: sites for number, sites in others.items() if number != taken}
        alike = [number for number, sites in enumerate(open_sites) if sites and number != taken]
        self.decisions.append(Decision(place, taken, left, alike))
        return taken

    def choose(
        self, place: Site, keys: Sequence[Value | None], value: Value, source_sites: Sequence[frozenset[Site]]
    ) -> int:
        """Which case of a switch a run takes: an index into `keys`, of which None is the default; -1 for none."""
        known = self.known(value)
        found = [self.known(one) for one in keys]
        taken = -1
        if known is not None:
            taken = next((index for index, one in enumerate(found) if one is not None and one == known), -1)
        if taken < 0:
            default = next((index for index, one in enumerate(keys) if one is None), -1)
            first = next((index for index, one in enumerate(source_sites) if one - self.sites), -1)
            taken = default if known is not None or first < 0 else first
        others = {number: sites for number, sites in enumerate(source_sites) if sites - self.sites}
        if (before := self._forced(place, value)) is not None:
            taken = before
        elif others or known is None:
            taken = self._decided(place, taken, others, source_sites if known is None else (), value)
        if 0 <= taken < len(keys) and isinstance(value, Term) and isinstance(keys[taken], Term):
            self.facts.append((terms.combined("==", value, keys[taken]), True))  # type: ignore[arg-type]
        return taken

    def constant(self, scope: Scope, node: Node, text: str = "") -> Value:
        """A constant expression that only the compiler can evaluate: a symbol until it is asked."""
        from wmmadiag.compile.ask.scope import scope_at

        expression = text or scope.source.words(node)
        if self.answer is None or not re.search(r"[A-Za-z_]", expression):
            return Unknown(expression)
        question = expression, scope_at(scope.source, node, expression, scope.bound())
        own = next((name for name, one in self.asked.items() if one == question), "")
        if own:
            return terms.symbol(own)
        found = self.symbol(expression)
        self.asked[found.args[0]] = question
        return found

    def loaded(self, pointer: Pointer, index: Term) -> Term:
        """An element of memory, as a term: `load(memory, index)`."""
        name = next((one for one, buffer in self.loads.items() if buffer is pointer.buffer), f"memory{len(self.loads)}")
        self.loads[name] = pointer.buffer
        place = terms.combined("+", pointer.offset, index)
        return Term("load", (name, place), is_real(pointer.element))

    def settle(self) -> None:
        """Ask the compiler for everything that only it can say and that is not known yet."""
        open_ones = {name: one for name, one in self.asked.items() if name not in self.usual}
        if open_ones and self.answer is not None:
            answers = self.answer(list(open_ones.values()))
            self.usual |= {name: found for name, found in zip(open_ones, answers, strict=True) if found is not None}

    def host_functions(self, name: str) -> tuple[HostFunction, ...]:
        """The host functions of a plain name that have a body; a kernel may have the same name."""
        return tuple(one for one in self.program.functions.get(name, ()) if one.host and one.function.body is not None)

    def found(self, name: str) -> tuple[HostFunction, ...]:
        """The host functions of a plain name."""
        return tuple(one for one in self.program.functions.get(name, ()) if one.host or one.function.body is None)
