"""Where a session stands, and how that is told: the selected thread, the moment, and why it stopped there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape

from wmmadiag.debugger.inspect import Inspection
from wmmadiag.debugger.machine import Standing, Stop
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a session stands.

    Attributes:
        reason: why it stopped there: as `Stop.reason`, or "start", "step", "moved".
        words: one sentence.
        place: the user's line that runs next (or did it, after an access); None at the end.
        block, warp, lane: selected; block as a linear index.
        time: warp instructions executed since the launch began.
        pc: of the instruction; None at the end.
        code: the source line's text.
    """

    reason: str
    words: str
    place: Place | None
    block: int
    warp: int
    lane: int
    time: int
    pc: int | None
    code: str = ""

    @property
    def line(self) -> int | None:
        """The line of `place`."""
        return None if self.place is None else self.place.line

    def __str__(self) -> str:
        from wmmadiag.debugger.text import moment_text

        return moment_text(self)

    def _repr_html_(self) -> str:
        from wmmadiag.debugger.notebook import moment_html

        return moment_html(self)


class Position(Inspection):
    """The standing half of a session."""

    moment: Moment  # where it stands, and why

    @property
    def time(self) -> int:
        """Warp instructions executed so far."""
        return self.machine.time

    @property
    def block(self) -> int:
        """Linear index of the running block."""
        return self.machine.block

    @property
    def finished(self) -> bool:
        """Whether the launch has ended or died."""
        return self.machine.next is None

    def standing(self, warp: int | None = None) -> Standing | None:
        """The group of lanes of a warp that the selected lane is in, or else its first; None when all have exited."""
        wanted = self.warp if warp is None else warp
        groups = [one for one in self.machine.standings if one.warp == wanted]
        return next((one for one in groups if one.lanes >> self.lane & 1), groups[0] if groups else None)

    def where(self) -> tuple[Place, ...]:
        """The selected thread's place and, for inlined functions, the calls that led there, innermost first."""
        standing = self.standing()
        if standing is None:
            return ()
        return tuple(self.target.kernel.kernel.place(standing.pc).frames())

    def __repr__(self) -> str:
        return f"<session on {self.target.title}>\n{self.moment}"

    def _repr_html_(self) -> str:
        from wmmadiag.debugger.notebook import moment_html

        return f"<b>{escape(self.target.title)}</b>{moment_html(self.moment)}"

    def arrive(self, time: int, reason: str, words: str, warp: int | None = None) -> Moment:
        """Go to a time, and say why."""
        self.machine.seek(time)
        self.moment = self._at_next(reason, words, warp)
        return self.moment

    # Inside

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """What fails or is interrupted leaves the session where it was."""
        kept = self.warp, self.lane, self.moment
        time = self.machine.time
        try:
            yield
        except BaseException:
            self.machine.seek(time)
            self.warp, self.lane, self.moment = kept
            raise

    def _at_next(self, reason: str, words: str, warp: int | None = None) -> Moment:
        """The moment as it is, at the warp that runs next or at a chosen one."""
        standing = self.machine.next if warp is None else self.standing(warp)
        if standing is None:
            return self._ended(reason, words)
        if not standing.lanes >> self.lane & 1:
            self.lane = (standing.lanes & -standing.lanes).bit_length() - 1
        self.warp = standing.warp
        return self._moment_at(reason, words, standing.pc)

    def _moment_at(self, reason: str, words: str, pc: int | None = None) -> Moment:
        place = None if pc is None else self.lines.places[pc]
        code = "" if place is None else self.lines.source_line(place)
        return Moment(reason, words, place, self.block, self.warp, self.lane, self.time, pc, code)

    def _ended(self, reason: str, words: str) -> Moment:
        place = self.machine.fault_place
        if place is not None:
            error = self.machine.fault
            _, self.warp, self.lane, pc = place
            return self._moment_at("fault", error.message if error is not None else "the launch died", pc)
        if self.machine.next is None:
            return self._moment_at("finished", words or "the launch has ended")
        return self._moment_at(reason, words or f"warp {self.warp} has exited")

    def _moment(self, stop: Stop, reason: str = "") -> Moment:
        if stop.reason in ("finished", "fault"):
            return self._ended(stop.reason, "")
        if stop.reason in ("watch", "nan"):
            self.warp = stop.warp
            self.lane = (stop.lanes & -stop.lanes).bit_length() - 1 if stop.lanes else 0
            return self._moment_at(stop.reason, self._did(stop), stop.pc)
        if stop.reason == "block-end":
            return self._at_next("block-end", f"block {self.coordinates(self.block - 1)} has ended")
        if stop.reason == "stuck":
            from wmmadiag.debugger.progress import stuck_words

            return self._at_next("stuck", stuck_words(self), stop.warp)
        if stop.reason == "interrupted":
            return self._at_next("interrupted", "interrupted")
        return self._at_next(reason or stop.reason, "", stop.warp)

    def _did(self, stop: Stop) -> str:
        node = self.target.kernel.kernel.nodes[stop.pc]
        if stop.reason == "nan":
            return f"{node.text} made a NaN in {stop.lanes.bit_count()} lanes"
        space = "shared" if stop.address < 1 << 32 else "global"
        return f"{self.arrays.name(space, stop.address)}: {stop.access} by {node.text}"
