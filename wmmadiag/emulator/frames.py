"""One expansion of a function of a kernel: what it has under names of its own."""

from __future__ import annotations

from wmmadiag.emulator.decoded import REGISTER_BYTES, Value
from wmmadiag.emulator.memory_layout import align_up
from wmmadiag.place import Place
from wmmadiag.ptx.ir import PtxFunction, Register, Space


class Frame:
    """One expansion of a function: its registers, labels and local variables under names of their own.

    Attributes:
        function: the function.
        call: place of the call that was expanded, None for the kernel.
        running: the names of it and of those whose calls were expanded to get here.
        local_base: offset of its frame in local memory, bytes.
        locations: address in local memory of `.local` and `.param` variables and formal parameters.
    """

    def __init__(
        self, function: PtxFunction, number: int, call: Place | None, local_base: int, caller: Frame | None = None
    ) -> None:
        self.function = function
        self.number = number
        self.call = call
        self.running: frozenset[str] = (frozenset() if caller is None else caller.running) | {function.name}
        self.local_end = local_base
        self.locations: dict[str, int] = {}
        self.values: dict[str, Value] = {}
        self.variables = {variable.name: variable for variable in function.variables}
        self._places: dict[Place, Place] = {}
        for variable in function.variables:
            if variable.space in (Space.LOCAL, Space.PARAM):
                self.reserve(variable.name, variable.size, variable.align)

    def reserve(self, name: str, size: int, align: int) -> None:
        """Give a variable its place in this frame of local memory."""
        self.local_end = align_up(self.local_end, max(align, 4))
        self.locations[name] = self.local_end
        self.local_end += max(size, 1)

    def value(self, register: Register) -> Value:
        """The value of a PTX register in this expansion."""
        if register.name not in self.values:
            self.values[register.name] = Value(REGISTER_BYTES[register.type], name=register.name)
        return self.values[register.name]

    def label(self, name: str) -> str:
        """A label's name, unique in the program."""
        return f"{self.number}:{name}"

    def place(self, place: Place) -> Place:
        """The place with the chain of calls that led here; what stands in no file is at the call."""
        if self.call is None:
            return place
        if not place.file:
            return self.call
        if place not in self._places:
            self._places[place] = _extend(place, self.call)
        return self._places[place]


def _extend(place: Place, call: Place) -> Place:
    outer = call if place.inlined_at is None else _extend(place.inlined_at, call)
    return Place(place.file, place.line, place.column, place.function, outer)
