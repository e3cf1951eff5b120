"""Names of memory as the user wrote it: `sK[3][5]`, `O[0,1,17,3]`, and words where it says less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wmmadiag.compile.languages import is_c_family
from wmmadiag.compile.model import Resources
from wmmadiag.compile.names import demangle, full_name
from wmmadiag.compile.origin import PtxOrigin
from wmmadiag.emulator.extents import ExtentPart, MemoryExtent, NamedExtents
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.launch import Launch

if TYPE_CHECKING:
    from wmmadiag.compile.ask.arrays import ArraySource, Carved, Elements

_MOST_BYTES = 4 << 20  # of a source file that is read for its declarations


@dataclass(slots=True)
class ArrayNames:
    """Turns a kernel's ranges of memory into arrays with elements."""

    kernel: LoweredKernel  # whose memory it is
    origin: PtxOrigin | None = None  # the source that it was compiled from, where this process compiled it
    _source: ArraySource | None = field(default=None, init=False)

    def named(self, extents: Sequence[MemoryExtent], launch: Launch) -> NamedExtents:
        """The same ranges with what is known of their elements, which is found out when one is looked at."""
        return NamedExtents(extents, lambda one: self._argument(one, launch) or self._declared(one, launch) or one)

    def _argument(self, extent: MemoryExtent, launch: Launch) -> MemoryExtent | None:
        if extent.space != "global":
            return None
        for index, argument in enumerate(launch.arguments):
            name = launch.name(index)
            if name != extent.name or not isinstance(argument, np.ndarray):
                continue
            item = argument.itemsize
            parts = tuple(
                ExtentPart(
                    view.name, view.offset * item, item, view.shape, tuple(stride * item for stride in view.strides)
                )
                for view in launch.views
                if view.argument == index
            )
            shape = argument.shape if argument.ndim else (1,)
            return extent.of(ExtentPart(name, 0, item, shape, argument.strides or (item,)), parts, comma=True)
        return None

    def _declared(self, extent: MemoryExtent, launch: Launch) -> MemoryExtent | None:
        if extent.space not in ("shared", "global"):
            return None
        function, name = _declared_in(extent.name)
        elements = self.source().elements(name, function, extent.size)
        carved = self._carved(name, extent, launch)
        if elements is None and not carved:
            carved = self._members(name, function, extent)
        if elements is None and not carved:
            return None
        whole = ExtentPart(name, 0, 0, (), ()) if elements is None else _part(name, 0, elements)
        return extent.of(whole, carved)

    def _members(self, name: str, function: str, extent: MemoryExtent) -> tuple[ExtentPart, ...]:
        found = self.source().members(name, function, extent.size) if extent.space == "shared" else ()
        return tuple(_part(f"{name}.{one.name}", one.offset, one.elements) for one in found)

    def _carved(self, name: str, extent: MemoryExtent, launch: Launch) -> tuple[ExtentPart, ...]:
        if extent.space != "shared" or extent.name not in {
            key.rpartition(":")[2] for key in self.kernel.layout.dynamic
        }:
            return ()
        given = [(i, launch.arguments[one.start]) for i, one in enumerate(launch.parameters()) if len(one) == 1]
        scalars = {i: int(a) for i, a in given if isinstance(a, (int, np.integer))}
        found = [
            one
            for one in self.source().carved(name, demangle(self.kernel.entry.name), scalars)
            if one.offset < extent.size
        ]
        return tuple(_pieces(found, extent.size))

    def resources(self) -> Resources | None:
        """What ptxas said of the kernel, if it was asked in this process."""
        known = self.origin.resources if self.origin is not None else ()
        return next((one for one in known if one.entry == self.kernel.entry.name), None)

    def source(self) -> ArraySource:
        """The declarations of the files that the kernel's code comes from."""
        from wmmadiag.compile.ask.arrays import ArraySource
        from wmmadiag.compile.ask.questions import AskedSource

        if self._source is None:
            one = self.origin
            asked = None if one is None else AskedSource(one.text, one.file, one.options)
            self._source = ArraySource(self._texts(), asked)
        return self._source

    def _texts(self) -> dict[str, str]:
        """File → text of those whose declarations can be read: PTX and Python have none of C++."""
        files = {self.kernel.entry.place.file} if self.kernel.entry.place else set()
        for node in self.kernel.nodes:
            files |= {frame.file for frame in node.place.frames()}
        own = self.origin if self.origin is not None and is_c_family(self.origin.file) else None
        texts = {} if own is None else {own.file: own.text}
        for file in sorted(files - set(texts)):
            path = Path(file)
            if re.search(r"/include/|/crt/", path.as_posix()) or not file or not is_c_family(file):
                continue
            try:
                if path.stat().st_size <= _MOST_BYTES:
                    texts[file] = path.read_text("utf-8", "replace")
            except (OSError, ValueError):
                continue
        return texts


def _declared_in(symbol: str) -> tuple[str, str]:
    """Function ("attn<64>") that declares a variable, "" at namespace scope, and the variable's own name."""
    readable = full_name(symbol)
    if readable == symbol:
        return "", symbol
    scope, _, name = readable.rpartition("::")
    if not symbol.startswith("_ZZ"):
        return "", name or readable
    if not scope.endswith(")"):  # of a function with C linkage
        return scope, name
    depth = 0
    for at in range(len(scope) - 1, -1, -1):
        depth += (scope[at] == ")") - (scope[at] == "(")
        if depth == 0:
            return scope[:at], name
    return "", name


def _part(name: str, offset: int, elements: Elements) -> ExtentPart:
    strides, step = [], elements.item
    for extent in reversed(elements.shape):
        strides.append(step)
        step *= extent
    return ExtentPart(name, offset, elements.item, elements.shape, tuple(reversed(strides)))


def _pieces(found: Sequence[Carved], size: int) -> Iterator[ExtentPart]:
    """Each carved pointer up to the next one; of several at one place the first; one at the start alone is no news."""
    starts = sorted({one.offset for one in found})
    if starts in ([], [0]):
        return
    for start, end in zip(starts, [*starts[1:], size], strict=True):
        one = next(one for one in found if one.offset == start)
        yield ExtentPart(one.name, start, one.item, ((end - start) // one.item,), (one.item,))
