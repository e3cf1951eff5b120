"""Named ranges of memory, and the elements in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import overload

from wmmadiag.compile.names import full_name


@dataclass(frozen=True, slots=True)
class ExtentPart:
    """An array inside a range of memory."""

    name: str  # in the source
    offset: int  # of its first element from the start of the range, bytes
    item: int  # bytes of an element; 0: not known
    # shape, strides: extents, and bytes from one index to the next, outermost first
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def index(self, offset: int) -> tuple[int, ...] | None:
        """The indices of the element that holds a byte of the range, or None where no element does."""
        rest = offset - self.offset
        if rest < 0 or self.item == 0:
            return None
        found = [0] * len(self.shape)
        axes = [axis for axis in range(len(self.shape)) if self.shape[axis] > 1 and self.strides[axis] > 0]
        for axis in sorted(axes, key=lambda axis: -self.strides[axis]):
            found[axis], rest = divmod(rest, self.strides[axis])
            if found[axis] >= self.shape[axis]:
                return None
        return tuple(found) if rest < self.item and 0 not in self.shape else None

    def indexed(self, index: Iterable[object], comma: bool) -> str:
        """`O[0,1,17,3]`, `sK[3][5]`, or the name alone of what has no indices."""
        words = (",".join if comma else "][".join)(map(str, index))
        return f"{self.name}[{words}]" if words else self.name


@dataclass(frozen=True, slots=True)
class MemoryExtent:
    """A named range of memory: [start, start + size) in one state space, bytes."""

    name: str  # as the PTX or the launch has it
    space: str
    start: int
    size: int
    whole: ExtentPart | None = None  # how all of it is indexed, where that is known
    parts: tuple[
        ExtentPart, ...
    ] = ()  # arrays in it: the logical tensors of an argument, or what is carved out of a buffer
    comma: bool = False  # indices are written `O[0,3]`, as of a tensor, and not `s[0][3]`

    def of(self, whole: ExtentPart, parts: tuple[ExtentPart, ...] = (), *, comma: bool = False) -> MemoryExtent:
        """The same range with what is known of its elements."""
        return replace(self, whole=whole, parts=parts, comma=comma)

    @property
    def label(self) -> str:
        """The name in the source: of `_ZZ4attnPfE2sK` it is `sK`."""
        readable = full_name(self.name)
        return readable if readable == self.name else readable.rpartition("::")[2]

    def part(self, address: int) -> ExtentPart | None:
        """The array in it that holds an address, or None."""
        offset = address - self.start
        known: tuple[ExtentPart, ...] = self.parts if self.whole is None else (*self.parts, self.whole)
        for part in known:
            if part.index(offset) is not None:
                return part
        return None

    def array(self, address: int) -> str:
        """The name of the array in it that holds an address."""
        part = self.part(address)
        return part.name if part is not None else self.label

    def item(self, address: int) -> int:
        """Bytes of an element there; 0 where nobody knows."""
        part = self.part(address)
        return part.item if part is not None else 0

    def element(self, address: int, size: int = 1) -> str:
        """An element, `sK[3][5]`; without a declaration in units of `size` bytes, `s[37]`, or "s, byte 75"."""
        offset = address - self.start
        part = self.part(address)
        if part is not None:
            within = (offset - part.offset) % part.item
            return part.indexed(part.index(offset) or (), self.comma) + (f", byte {within} of it" if within else "")
        known = self.whole.item if self.whole is not None and self.whole.item else size
        if known > 1 and offset % known == 0:
            return f"{self.label}[{offset // known}]"
        return f"{self.label}, byte {offset:,}"

    def describe(self, address: int, length: int) -> tuple[int, str]:
        """Distance in bytes from an access to this range (0: it overlaps), and words for it."""
        end = self.start + self.size
        if address >= end:
            gap = address - end
            return gap, f"{gap} bytes past the end of {self.label} ({self.size} bytes){self._last()}"
        if address + length <= self.start:
            gap = self.start - address
            return gap, f"{gap} bytes before the start of {self.label} ({self.size} bytes)"
        if address + length > end:
            first = address - self.start
            words = f"bytes {first} to {first + length} of {self.size}"
            return 0, f"runs over the end of {self.label}: {words}, from {self.element(address)} on"
        if address < self.start:
            return 0, f"begins {self.start - address} bytes before {self.label} ({self.size} bytes) and runs into it"
        return 0, f"byte {address - self.start} of {self.label} ({self.size} bytes), {self.element(address)}"

    def _last(self) -> str:
        known = self.parts[-1] if self.parts else self.whole
        if known is None or known.item == 0 or self.size == 0:
            return ""
        return f", which ends with {self.element(self.start + self.size - known.item)}"


class NamedExtents(Sequence[MemoryExtent]):
    """Ranges of memory whose elements are found out when one is looked at: that may take a question to the compiler."""

    def __init__(self, plain: Sequence[MemoryExtent], named: Callable[[MemoryExtent], MemoryExtent]) -> None:
        self._plain, self._named = tuple(plain), named
        self._known: dict[int, MemoryExtent] = {}

    def __len__(self) -> int:
        return len(self._plain)

    def of_space(self, space: str) -> Sequence[MemoryExtent]:
        """Those of one space; nothing is asked about the others."""
        return [self[index] for index, one in enumerate(self._plain) if one.space == space]

    def holding(self, space: str, address: int) -> MemoryExtent | None:
        """The one that holds an address, or None; nothing is asked about the others."""
        for index, one in enumerate(self._plain):
            if one.space == space and one.start <= address < one.start + one.size:
                return self[index]
        return None

    @overload
    def __getitem__(self, index: int) -> MemoryExtent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[MemoryExtent]: ...
    def __getitem__(self, index: int | slice) -> MemoryExtent | Sequence[MemoryExtent]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        at = range(len(self._plain))[index]
        if at not in self._known:
            self._known[at] = self._named(self._plain[at])
        return self._known[at]
