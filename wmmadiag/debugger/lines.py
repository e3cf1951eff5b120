"""From program counters to the user's lines, and back: where a break at a line, a function or an operation stops."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from wmmadiag.emulator.decoded import Decoded
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.place import Place, own_place

HERE = "wmmadiag_here"
"""The register that a marker before a statement writes."""
MULTIPLICATIONS = frozenset({"mma"})
"""Operations that multiply matrices: wmma.mma and mma."""
TENSOR = frozenset({"mma", "wmma.load", "wmma.store", "ldmatrix", "stmatrix", "movmatrix"})
"""Operations on fragments and 8×8 matrices."""
BLOCK_BARRIERS = frozenset({"bar.sync", "bar.arrive", "bar.red"})
BARRIERS = BLOCK_BARRIERS | {"bar.warp.sync"}


@dataclass(frozen=True)
class SourceLines:
    """The lines of a kernel."""

    kernel: LoweredKernel  # whose they are
    main: str  # the file that was compiled
    texts: dict[str, str] = field(default_factory=dict)  # file → its text, as it was compiled where that is known

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The place of each instruction in the user's own code: never in a CUDA header."""
        return tuple(own_place(node.place) for node in self.kernel.nodes)

    @cached_property
    def outer(self) -> tuple[Place, ...]:
        """The place of each instruction in the kernel itself: the call, for inlined functions."""
        return tuple(list(node.place.frames())[-1] for node in self.kernel.nodes)

    @cached_property
    def _frames(self) -> tuple[frozenset[tuple[str, int]], ...]:
        return tuple(frozenset((f.file, f.line) for f in node.place.frames() if f.line) for node in self.kernel.nodes)

    @cached_property
    def _leaders(self) -> frozenset[int]:
        """First instructions of basic blocks."""
        starts = {0}
        for pc, targets in self.kernel.branches.items():
            starts |= {pc + 1, *targets}
        return frozenset(starts)

    @cached_property
    def code_lines(self) -> dict[str, tuple[int, ...]]:
        """File → the lines that have instructions."""
        found: dict[str, set[int]] = {}
        for frames in self._frames:
            for file, line in frames:
                found.setdefault(file, set()).add(line)
        return {file: tuple(sorted(lines)) for file, lines in found.items()}

    @cached_property
    def functions(self) -> dict[str, tuple[int, ...]]:
        """Name of a function, without scope, arguments and parameters → its instructions."""
        found: dict[str, list[int]] = {}
        for pc, node in enumerate(self.kernel.nodes):
            for name in {plain_function(frame.function) for frame in node.place.frames() if frame.function}:
                found.setdefault(name, []).append(pc)
        return {name: tuple(pcs) for name, pcs in found.items()}

    def text(self, file: str) -> tuple[str, ...]:
        """The lines of a file; empty when it cannot be read."""
        if file not in self.texts:
            try:
                self.texts[file] = Path(file).read_bytes().decode("utf-8", "replace")
            except (OSError, ValueError):
                self.texts[file] = ""
        return tuple(self.texts[file].split("\n")) if self.texts[file] else ()

    def source_line(self, place: Place) -> str:
        """The text of a place's line, "" when it is not known."""
        lines = self.text(place.file)
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""

    def file(self, name: str) -> str:
        """The file with code whose path ends with a name; "" for the main one.

        Raises:
            ConfigurationError: there is none.
        """
        if not name:
            return self.main
        wanted = Path(name).parts
        for file in sorted(self.code_lines, key=lambda file: file != self.main):
            if Path(file).parts[-len(wanted) :] == wanted:
                return file
        known = sorted({Path(file).name for file in self.code_lines})
        raise ConfigurationError(f"no code of this kernel comes from '{name}'", hint=_near(name, known, "files"))

    def at_line(self, line: int, file: str = "") -> bytes:
        """Where to stop for a line: once in each stretch of code without branches, and at each fragment operation.

        Raises:
            ConfigurationError: no instruction belongs to the line.
        """
        path = self.file(file)
        table = self.table(self._entries((path, line)))
        if not any(table):
            lines = self.code_lines.get(path, ())
            near = min(lines, key=lambda other: (abs(other - line), other), default=0)
            later = next((other for other in lines if other > line), None)
            said = f"the next line that has some is {later}" if later else f"the last line that has some is {near}"
            raise ConfigurationError(
                f"no instruction belongs to line {line} of {Path(path).name}",
                hint=said if lines else "compile with line information",
            )
        return table

    def slid(self, line: int, file: str = "") -> int:
        """The line itself if it has code, else the next that has; itself where none has (`at_line` says why)."""
        lines = self.code_lines.get(self.file(file), ())
        return next((other for other in lines if other >= line), line)

    def _entries(self, key: tuple[str, int]) -> Iterable[int]:
        marked = [pc for pc in self._stops if key in self._frames[pc]]
        if marked:
            yield from marked
            return
        block: list[int] = []
        for pc, frames in enumerate(self._frames):
            if pc in self._leaders:
                yield from _chosen(block, self.kernel.nodes)
                block = []
            if key in frames:
                block.append(pc)
        yield from _chosen(block, self.kernel.nodes)

    @cached_property
    def _stops(self) -> tuple[int, ...]:
        """Markers before statements, where the source was compiled with some (`kept.py`)."""
        return tuple(
            pc for pc, node in enumerate(self.kernel.nodes)
            if any(one.name.partition("@")[0] == HERE for one in node.written())
        )  # fmt: skip

    def at_function(self, name: str) -> bytes:
        """Where a function begins, wherever it was inlined.

        Raises:
            ConfigurationError: there is no such function, or all of it was optimised away.
        """
        if plain_function(name) not in self.functions:
            hint = _near(name, sorted(self.functions), "functions with code")
            raise ConfigurationError(f"no code of a function '{name}'", hint=hint)
        inside = set(self.functions[plain_function(name)])
        return self.table(pc for pc in inside if pc - 1 not in inside or (pc == 0))

    def where(self, matches: Callable[[Decoded], bool]) -> bytes:
        """A table of the instructions for which something holds."""
        return bytes(int(matches(node)) for node in self.kernel.nodes)

    @property
    def multiplies(self) -> bool:
        """Whether it uses tensor cores at all."""
        return any(node.op in MULTIPLICATIONS for node in self.kernel.nodes)

    def operations(self, names: frozenset[str]) -> bytes:
        """A table of the operations of these names."""
        return self.where(lambda node: node.op in names)

    def other_line(self, pc: int, *, into: bool = True) -> bytes:
        """A table of the instructions that belong to another line than this one, as far as they have one.

        Args:
            into: lines of inlined functions count; otherwise those of the kernel itself.
        """
        places = self.places if into else self.outer
        here = places[pc].file, places[pc].line
        return bytes(int(place.line > 0 and (place.file, place.line) != here) for place in places)

    def table(self, pcs: Iterable[int]) -> bytes:
        """One byte per instruction, 1 for these."""
        table = bytearray(len(self.kernel.nodes))
        for pc in pcs:
            table[pc] = 1
        return bytes(table)


def _chosen(pcs: list[int], nodes: tuple[Decoded, ...]) -> list[int]:
    """Of a line's instructions in one basic block: its fragment operations, or else the first one."""
    tensor = [pc for pc in pcs if nodes[pc].op in TENSOR]
    return tensor or pcs[:1]


def plain_function(function: str) -> str:
    """A function's name without scope, template arguments and parameters."""
    head = re.sub(r"<.*", "", function.split("(")[0]).strip()
    return head.rpartition("::")[2].split(" ")[-1] or function


def _near(name: str, known: list[str], what: str) -> str:
    return did_you_mean(name, known, f"{what}: {', '.join(known[:12]) or 'none'}")
