"""A place in source text, with the chain of calls that were inlined to get there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

# Headers of the toolkit and the compiler, <root>/include/crt/mma.hpp, cuda_fp16.hpp, cuda/std/…; ours in their place
_HEADER = re.compile(
    r"/include/|(^|/)(crt|cooperative_groups|cuda/std|cub)/|(^|/)(cuda_|mma\.|sm_|device_|__nv_nvrtc_builtin)[^/]*\.(h|hpp)$"
    r"|/wmmadiag/compile/stubs/"
)
_PACKAGE = re.compile(r"/(?:site|dist)-packages/([^/]+)")


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


def own_place(place: Place) -> Place:
    """The innermost frame in the user's code: not in a CUDA header, where every WMMA call ends, nor in a package of
    Python's that the kernel's own file does not belong to, where `tl.sum` does.
    """
    frames = list(place.frames())
    own = _package(frames[-1].file)
    for frame in frames:
        file = frame.file.replace("\\", "/")
        if not _HEADER.search(file) and _package(file) in ("", own):
            return frame
    return frames[-1]


def _package(file: str) -> str:
    """The installed package that a file belongs to: ".../site-packages/triton/language/core.py" → "triton"."""
    match = _PACKAGE.search(file.replace("\\", "/"))
    return match[1] if match is not None else ""


def chain_of(innermost: Place, shown: Place) -> str:
    """The frames inside the one that is shown, then its callers."""
    frames = list(innermost.frames())
    at = next(index for index, frame in enumerate(frames) if frame is shown)
    inside = [f"  inside {_plain(f.function)} ({PurePath(f.file).name}:{f.line})" for f in frames[:at]]
    return "\n".join([*inside, *(f"  inlined at {frame}" for frame in frames[at + 1 :])])


def _plain(function: str) -> str:
    """A demangled name without template arguments and parameters."""
    return re.sub(r"<.*", "", function.split("(")[0]) or "a header"
