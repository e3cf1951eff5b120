"""Fragments of a stopped launch, by their names in the source or as operands of the multiplication at hand."""

from __future__ import annotations

from functools import cached_property

from wmmadiag.debugger.conditions import Conditions
from wmmadiag.debugger.declared import SourceDeclarations
from wmmadiag.debugger.fragment_names import FragmentUse, fragment_uses
from wmmadiag.debugger.fragment_view import FragmentOrigin, FragmentView, register_names
from wmmadiag.debugger.lines import MULTIPLICATIONS, SourceLines
from wmmadiag.debugger.machine import Standing, StoppableLaunch
from wmmadiag.debugger.registers import LETTERS, fragment_values, layout
from wmmadiag.debugger.target import Target
from wmmadiag.errors import ConfigurationError
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.suggest import did_you_mean


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
        time, start = self.machine.time, self.machine.block_starts[-1]
        table = self.lines.table(use.pc for use in uses)
        stop = self.machine.last_before(Conditions(before=table, block=self.machine.block, warp=warp), time, start)
        self.machine.seek(time)
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
        time, start = self.machine.time, self.machine.block_starts[-1]
        standing = self.standing(chosen)
        at = time
        if standing is None or nodes[standing.pc].op not in MULTIPLICATIONS:
            table = self.lines.operations(MULTIPLICATIONS)
            here = Conditions(before=table, block=self.machine.block, warp=chosen)
            stop = self.machine.last_before(here, time, start)
            if stop is None:
                self.machine.seek(time)
                raise ConfigurationError(
                    f"warp {chosen} has multiplied nothing yet in this block", hint="go on with `tensor`"
                )
            at, pc = stop.time, stop.pc
        else:
            pc = standing.pc
        try:
            self.machine.seek(at)
            found = {letter: self.view(pc, letter, chosen, "before") for letter in "abc"}
            executed = self.machine.executed(chosen)
            everywhere = bytes([1]) * len(nodes)
            block = self.machine.block
            while self.machine.executed(chosen) == executed and self.machine.next is not None:
                self.machine.run(Conditions(before=everywhere, block=block, warp=chosen, block_end=True))
            if self.machine.block == block:
                found["d"] = self.view(pc, "d", chosen)
        finally:
            self.machine.seek(time)
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
