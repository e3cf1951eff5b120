"""Where a session stands, and why."""

from __future__ import annotations

from dataclasses import dataclass

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
