"""A place in source text, with the chain of calls that were inlined to get there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """`file:line:column`, and where that function was inlined.

    Attributes:
        file: path as the compiler was given it.
        line: 1-based; 0 when unknown.
        column: 1-based; 0 when unknown.
        function: demangled name of the function that this line belongs to, "" when unknown.
        inlined_at: the place of the call that was inlined, or None for the outermost.
    """

    file: str
    line: int
    column: int = 0
    function: str = ""
    inlined_at: Place | None = None

    def frames(self) -> Iterator[Place]:
        """The place itself, then its callers, innermost first."""
        frame: Place | None = self
        while frame is not None:
            yield frame
            frame = frame.inlined_at

    def chain(self) -> str:
        """The callers as text, one line each, innermost first; empty when nothing was inlined."""
        return "\n".join(f"  inlined at {frame}" for frame in list(self.frames())[1:])

    def __str__(self) -> str:
        return ":".join([self.file, *(str(number) for number in (self.line, self.column) if number)])
