"""Fragments of a stopped launch, by their names in the source or as operands of the multiplication at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from wmmadiag.csource.nodes import Node, arguments, called, descendants
from wmmadiag.csource.tree import Source
from wmmadiag.csource.writes import base
from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.declared import SourceDeclarations
from wmmadiag.debugger.fragment_view import FragmentOrigin, FragmentView, register_names
from wmmadiag.debugger.lines import MULTIPLICATIONS, SourceLines
from wmmadiag.debugger.machine import Standing, StoppableLaunch
from wmmadiag.debugger.registers import LETTERS, fragment_values, layout
from wmmadiag.debugger.target import Target
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.place import Place
from wmmadiag.subject.binding import BoundCase

# Operation → call → position of each operand's fragment among its arguments. (CUDA C++ Programming Guide, "Warp Matrix
# Functions")
_ARGUMENTS: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    "mma": {name: {"d": 0, "a": 1, "b": 2, "c": 3} for name in ("mma_sync", "bmma_sync")},
    "wmma.load": {"load_matrix_sync": {"d": 0}},
    "wmma.store": {"store_matrix_sync": {"d": 1}},
}


@dataclass(frozen=True, slots=True)
class FragmentUse:
    """A fragment of the source in one operation."""

    pc: int  # of the operation
    letter: str  # operand: "a" to "d" (of a load or store "d")
    name: str  # of the variable
    text: str  # as the call has it: "q_fragment[kk]"
    writes: bool  # whether the operation writes it


def fragment_uses(lines: SourceLines, sources: Mapping[str, Source]) -> tuple[FragmentUse, ...]:
    """Every fragment of every operation that a WMMA call of the source stands for.

    Args:
        sources: file → its tree.
    """
    found: list[FragmentUse] = []
    known = {name for calls in _ARGUMENTS.values() for name in calls}
    calls = {
        file: [one for one in descendants(source.root, "call_expression") if called(one) in known]
        for file, source in sources.items()
    }
    for pc, node in enumerate(lines.kernel.nodes):
        if node.op not in _ARGUMENTS:
            continue
        place = lines.places[pc]
        call = _call([one for one in calls.get(place.file, ()) if called(one) in _ARGUMENTS[node.op]], place)
        if call is None:
            continue
        given = arguments(call)
        for letter, position in _ARGUMENTS[node.op][called(call)].items():
            name = base(given[position]) if position < len(given) else None
            if name is not None:
                source = sources[place.file]
                writes = node.op == "wmma.load" or (node.op == "mma" and letter == "d")
                found.append(FragmentUse(pc, letter, source.text(name), source.words(given[position]), writes))
    return tuple(found)


def _call(calls: Sequence[Node], place: Place) -> Node | None:
    """The call at a place; of several in a line the last that begins at or before the column."""
    here = [one for one in calls if one.start_point[0] + 1 <= place.line <= one.end_point[0] + 1]
    before = [one for one in here if (one.start_point[0] + 1, one.start_point[1] + 1) <= (place.line, place.column)]
    return before[-1] if before else here[0] if here else None


class FragmentInspection:
    """Fragments of a stopped launch."""

    target: Target
    case: BoundCase
    machine: StoppableLaunch
    lines: SourceLines
    warp: int

    def standing(self, warp: int | None = None) -> Standing | None:
        """The group of lanes that is looked at."""
        raise NotImplementedError

    # Fragments

    @cached_property
    def declared(self) -> SourceDeclarations:
        """What the sources declare."""
        return SourceDeclarations(self.lines)

    @cached_property
    def uses(self) -> tuple[FragmentUse, ...]:
        """Fragments of the source in operations."""
        return fragment_uses(self.lines, self.declared.sources)

    @property
    def fragment_names(self) -> tuple[str, ...]:
        """Names of the source's fragments that have registers."""
        return tuple(dict.fromkeys(use.name for use in self.uses))

    def fragment(self, name: str, warp: int | None = None) -> FragmentView:
        """A fragment of the warp by its name in the source, or operand "a" to "d" of the multiplication at hand.

        What the warp's next operation reads, if it uses the fragment; otherwise as the last operation that used it left
        it. What arithmetic on `frag.x[i]` has changed since then is in other registers, and shows with the next use.

        Raises:
            ConfigurationError: there is no such fragment, or the warp has not touched it yet.
        """
        chosen = self.warp if warp is None else warp
        base, _, rest = name.partition("[")
        uses = [use for use in self.uses if use.name == base and (not rest or use.text.replace(" ", "") == name)]
        if not uses and base in LETTERS:
            return self.multiplication(chosen)[base]
        if not uses:
            if base in self.fragment_names:
                texts = sorted({use.text for use in self.uses if use.name == base})
                raise ConfigurationError(f"no operation uses '{name}'", hint=f"the source says {', '.join(texts)}")
            known = [*self.fragment_names, *LETTERS]
            raise ConfigurationError(f"there is no fragment '{name}'", hint=did_you_mean(base, known))
        standing = self.standing(chosen)
        if standing is not None:
            now = [use for use in uses if use.pc == standing.pc and not (use.writes and use.letter == "d")]
            if now:
                return self.view(now[0].pc, now[0].letter, chosen, "before", name, now[0].text)
        return self._last_use(name, uses, chosen)

    def _last_use(self, name: str, uses: list[FragmentUse], warp: int) -> FragmentView:
        start, table = self.machine.block_starts[-1], self.lines.table(use.pc for use in uses)
        with self.machine.returning() as time:
            stop = self.machine.last_before(Conditions(before=table, block=self.machine.block, warp=warp), time, start)
        if stop is None:
            raise ConfigurationError(
                f"warp {warp} has not touched '{name}' yet in this block",
                hint="go on with `tensor`, or break at a line that uses it",
            )
        here = sorted((use for use in uses if use.pc == stop.pc), key=lambda use: not use.writes)
        return self.view(here[0].pc, here[0].letter, warp, "after", name, here[0].text)

    def multiplication(self, warp: int | None = None) -> dict[str, FragmentView]:
        """Operands "a", "b", "c" and result "d" of the multiplication that the warp runs next, or else ran last.

        Raises:
            ConfigurationError: it has run none yet in this block.
        """
        chosen = self.warp if warp is None else warp
        nodes = self.target.kernel.kernel.nodes
        standing = self.standing(chosen)
        with self.machine.returning() as at:
            if standing is None or nodes[standing.pc].op not in MULTIPLICATIONS:
                table = self.lines.operations(MULTIPLICATIONS)
                here = Conditions(before=table, block=self.machine.block, warp=chosen)
                stop = self.machine.last_before(here, at, self.machine.block_starts[-1])
                if stop is None:
                    raise ConfigurationError(
                        f"warp {chosen} has multiplied nothing yet in this block", hint="go on with `tensor`"
                    )
                at, pc = stop.time, stop.pc
            else:
                pc = standing.pc
            self.machine.seek(at)
            found = {letter: self.view(pc, letter, chosen, "before") for letter in "abc"}
            executed = self.machine.executed(chosen)
            everywhere = bytes([1]) * len(nodes)
            block = self.machine.block
            while self.machine.executed(chosen) == executed and self.machine.next is not None:
                self.machine.run(Conditions(before=everywhere, block=block, warp=chosen, block_end=True))
            if self.machine.block == block:
                found["d"] = self.view(pc, "d", chosen)
        return found

    def view(
        self, pc: int, letter: str, warp: int, state: str = "after", name: str = "", text: str = ""
    ) -> FragmentView:
        """An operand of a fragment operation, in the registers as they are now.

        Raises:
            ConfigurationError: the operation has no such operand.
        """
        kernel = self.target.kernel.kernel
        node = kernel.nodes[pc]
        where = layout(kernel, node, letter)
        if where is None:
            raise ConfigurationError(f"{node.text} has no operand {letter}", hint="`mma` shows those that it has")
        origin = FragmentOrigin(self.machine, self.target.bind, kernel.slots, where, self.machine.time, warp)
        values = fragment_values(kernel, where, self.machine.registers(warp))
        return FragmentView(
            name or letter, text or name or letter, where.letter, where.type, values, where.lane, where.position,
            register_names(where), self.lines.places[pc], state, self.machine.block, warp, self.machine.time, origin,
        )  # fmt: skip
