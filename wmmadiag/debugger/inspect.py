"""What can be seen of a stopped launch: fragments, registers, variables, barriers, who wrote what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.debugger.arrays import Element, NamedArrays
from wmmadiag.debugger.conditions import ANY, Conditions
from wmmadiag.debugger.inspect_fragments import FragmentInspection
from wmmadiag.debugger.local_variables import local_variable
from wmmadiag.debugger.registers import raw_register, register_numbers
from wmmadiag.emulator.decoded import Value
from wmmadiag.emulator.faults import coordinates
from wmmadiag.emulator.kernel import REGISTER_POISON
from wmmadiag.errors import ConfigurationError, did_you_mean
from wmmadiag.launch import Dim3
from wmmadiag.place import Place
from wmmadiag.provenance import SliceStep, explain
from wmmadiag.ptx.meaning import meaning


@dataclass(frozen=True, slots=True)
class LastWriter:
    """Who accessed some bytes last."""

    element: str  # whose
    # place, code: the user's line
    place: Place
    code: str
    # block, warp, lanes: who; lanes of a mask, and of a fragment the lines of its matrix
    block: tuple[int, int, int]
    warp: int
    lanes: int
    time: int  # before the instruction that did it
    instruction: str  # its PTX

    def __str__(self) -> str:
        who = f"block {self.block}, warp {self.warp}"
        return f"{self.element}: written at {self.place} by {who} at time {self.time:,}\n    {self.code.strip()}"


@dataclass(frozen=True, eq=False, slots=True)
class RegisterView:
    """A PTX register of a warp: `values` of its 32 lanes, of the `type` that the instruction which writes it has.

    `unwritten`: all lanes hold what registers hold before they are written.
    """

    name: str
    type: str
    values: NDArray[Any]
    unwritten: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """A group of lanes of a warp: where it stands, and what it waits for ("" for nothing)."""

    warp: int
    lanes: int
    place: Place
    code: str
    waits: str


class Inspection(FragmentInspection):
    """The looking half of a session."""

    arrays: NamedArrays
    lane: int

    # Blocks and warps

    @property
    def grid(self) -> Dim3:
        """Blocks of the launch, (x, y, z)."""
        return self.case.launch.grid

    def coordinates(self, block: int | None = None) -> Dim3:
        """(x, y, z) of a block's linear index; None: the running one."""
        return coordinates(self.machine.block if block is None else block, self.grid)

    def block_index(self, block: int | Sequence[int]) -> int:
        """The linear index of a block.

        Raises:
            ConfigurationError: the grid has no such block.
        """
        x, y, z = self.grid
        if isinstance(block, int):
            index = block
        else:
            at = (*map(int, block), 0, 0)[:3]
            inside = all(0 <= i < n for i, n in zip(at, self.grid, strict=True))
            index = at[0] + x * (at[1] + y * at[2]) if inside else -1
        if not 0 <= index < x * y * z:
            raise ConfigurationError(f"there is no block {block}", hint=f"the grid is {self.grid}, {x * y * z} blocks")
        return index

    def known_warp(self, warp: int) -> int:
        if not 0 <= warp < self.machine.warps:
            last = self.machine.warps - 1
            raise ConfigurationError(f"there is no warp {warp}", hint=f"a block has warps 0 to {last}")
        return warp

    # Memory by name

    def element(self, text: str) -> Element:
        """What `sK[3][5]` stands for; see `NamedArrays.element`."""
        return self.arrays.element(text)

    def shared(self, text: str) -> NDArray[Any]:
        """A shared array, or an element of one, in its declared shape and type; a copy of what it holds now.

        Raises:
            ConfigurationError: there is no such array.
        """
        return self.values(text)

    def values(self, text: str) -> NDArray[Any]:
        """Any named array or element now: shared, argument, or module variable."""
        return np.asarray(self.arrays.values(self.arrays.element(text)))

    # Registers and variables

    @cached_property
    def _registers(self) -> dict[str, tuple[Value, str]]:
        """PTX name → register and type."""
        found: dict[str, tuple[Value, str]] = {}
        slots = self.target.kernel.kernel.slots
        for node in self.target.kernel.kernel.nodes:
            for value in node.written():
                if value.name and value in slots:
                    kind = meaning(node.text).type
                    if value.name not in found or (kind and not found[value.name][1]):
                        found[value.name] = (value, kind)
        for value in slots:
            if value.name:
                found.setdefault(value.name, (value, ""))
        return found

    def registers(self, names: str = "here", warp: int | None = None) -> dict[str, RegisterView]:
        """Registers of a warp by PTX name.

        Args:
            names: "here": those of the instruction at hand; "line": those that its line writes; "all"; or one name.

        Raises:
            ConfigurationError: there is no such register.
        """
        chosen = self.warp if warp is None else warp
        nodes = self.target.kernel.kernel.nodes
        standing = self.standing(chosen)
        wanted: list[str]
        if names == "all":
            wanted = list(self._registers)
        elif names in ("here", "line"):
            pcs = [] if standing is None else [standing.pc]
            if names == "line" and standing is not None:
                place = self.lines.places[standing.pc]
                pcs = [pc for pc, p in enumerate(self.lines.places) if (p.file, p.line) == (place.file, place.line)]
            values = [v for pc in pcs for v in (*(nodes[pc].read() if names == "here" else ()), *nodes[pc].written())]
            wanted = list(dict.fromkeys(value.name for value in values if value.name in self._registers))
        elif names in self._registers:
            wanted = [names]
        else:
            hint = did_you_mean(names, list(self._registers)) if len(self._registers) < 100_000 else ""
            raise ConfigurationError(f"there is no register {names}", hint=hint or "see `info registers`")
        data = self.machine.registers(chosen)
        return {name: self._register(name, data) for name in wanted}

    def _register(self, name: str, data: bytes) -> RegisterView:
        value, kind = self._registers[name]
        raw = raw_register(self.target.kernel.kernel, value, data)
        poison = REGISTER_POISON.to_bytes(4, "little") * (raw.nbytes // 4)
        return RegisterView(name, kind, register_numbers(raw, kind), raw.tobytes() == poison)

    def variable(self, name: str) -> Any:
        """A variable by its name in the source: fragment, array, kernel argument, threadIdx.x and its like, or local.

        A local variable is a `Local`, of a session whose source keeps them (`wmmadiag.debugger.kept`).

        Raises:
            ConfigurationError: it is none of these, it is not kept, or the warp has not assigned it yet.
        """
        if name in self.fragment_names:
            return self.fragment(name)
        if name in self.locals and self.local_here(name):  # it hides an argument, and a card's name for one
            return local_variable(self, name)
        builtin = self.builtin(name)
        if builtin is not None and name not in self.locals:  # a source may have a `warp` and a `lane` of its own
            return builtin
        if (scalar := self.scalar(name)) is not None:
            return scalar
        by_position = self._parameters.get(name)
        if name in self.arrays.parts:
            return self.arrays.values(self.arrays.element(name))
        if by_position is not None:
            return self.arrays.values(self.arrays.element(self.case.arguments[by_position].spec.name))
        if name not in self.locals:
            raise self._unknown(name)
        return local_variable(self, name)

    def local_here(self, name: str) -> bool:
        """Whether a name is a local variable's where the selected thread stands, or in a caller of that."""
        standing = self.standing()
        frames = () if standing is None else self.target.kernel.kernel.place(standing.pc).frames()
        return any(self.declared.local_at(name, frame) is not None for frame in frames)

    def knows(self, name: str) -> bool:
        """Whether a name is a variable's, as `variable` takes them."""
        return (
            name in (*self.fragment_names, *self.arrays.parts, *self.locals, *self._parameters)
            or self.builtin(name) is not None
            or self.scalar(name) is not None
        )

    def scalar(self, name: str) -> Any:
        """A number that the kernel takes, by its name in the card or the source; None for another name."""
        for argument in self.case.arguments:
            if argument.spec.name == name and argument.scalar is not None:
                return argument.scalar
        by_position = self._parameters.get(name)
        return None if by_position is None else self.case.arguments[by_position].scalar

    @cached_property
    def _parameters(self) -> dict[str, int]:
        """Names of the kernel's parameters in the source → index of the argument."""
        from wmmadiag.compile.ask.signatures import declared_kernel

        found = declared_kernel(self.target.compilation, self._entry())
        if found is None:
            return {}
        given = zip(found[1].parameters, self.case.launch.parameters(), strict=False)
        return {one.name: indices.start for one, indices in given if one.name and len(indices) == 1}

    def _entry(self) -> Any:
        symbol = self.target.kernel.kernel.entry.name
        return next(entry for entry in self.target.compilation.entries if entry.name == symbol)

    def builtin(self, name: str) -> int | None:
        """threadIdx.x and its like, of the selected thread; None for another name."""
        base, _, axis = name.partition(".")
        if name in ("warp", "lane"):
            return self.warp if name == "warp" else self.lane
        if axis not in ("x", "y", "z"):
            return None
        x, y, _ = self.case.launch.block
        thread = self.warp * 32 + self.lane
        values = {
            "threadIdx": (thread % x, thread // x % y, thread // x // y),
            "blockIdx": coordinates(self.machine.block, self.case.launch.grid),
            "blockDim": self.case.launch.block,
            "gridDim": self.case.launch.grid,
        }
        return None if base not in values else values[base]["xyz".index(axis)]

    def _unknown(self, name: str) -> ConfigurationError:
        known = [*self.fragment_names, *self.arrays.parts, *self._parameters, *self.locals, "threadIdx.x", "blockIdx.x"]
        hint = did_you_mean(name, list(dict.fromkeys(known)))
        more = "" if self.target.kept else "; after `keep` macros and constants of the source can be asked for, too"
        near = hint if hint.startswith("did you mean") else f"`info variables` lists them{more}"
        return ConfigurationError(f"there is no variable '{name}'", hint=near)

    @cached_property
    def locals(self) -> tuple[str, ...]:
        """Names of the source's local variables that are neither arrays nor fragments."""
        names = [
            one.variable.name
            for one in self.declared.locals
            if not one.variable.dimensions and one.variable.name not in self.fragment_names
        ]
        return tuple(dict.fromkeys(names))

    @cached_property
    def declared_types(self) -> Mapping[str, str]:
        """Element type of each declared array, as the source writes it."""
        arrays = [one.variable for one in self.declared.locals if one.variable.dimensions]
        return {one.name: one.type.split()[-1].rpartition("::")[2] for one in reversed(arrays)}

    # Who did what

    def last_writer(self, text: str) -> LastWriter | None:
        """Who wrote an element, or any of an array, last before now; None: nobody (shared: in this block).

        Raises:
            ConfigurationError: there is no such element.
        """
        element = self.arrays.element(text)
        only = self.machine.block if element.space == "shared" else ANY
        floor = self.machine.block_starts[-1] if element.space == "shared" else 0
        watch = Conditions(watches=(element.watch(block=only),))
        with self.machine.returning() as now:
            stop = self.machine.last_before(watch, now + 1, floor)
        if stop is None or stop.reason != "watch":
            return None
        place = self.lines.places[stop.pc]
        return LastWriter(
            self.arrays.name(element.space, stop.address) if element.index else element.text,
            place,
            self.lines.source_line(place),
            coordinates(stop.block, self.case.launch.grid),
            stop.warp,
            stop.lanes,
            stop.time - 1,
            self.target.kernel.kernel.nodes[stop.pc].text,
        )

    def barriers(self) -> tuple[Waiting, ...]:
        """Where each group of lanes of the block's warps stands, and at which barrier it waits."""
        found = []
        for one in self.machine.standings:
            place = self.lines.places[one.pc]
            waits = {"ready": "", "barrier": f"barrier {one.barrier}", "sync": "other lanes of its warp"}[one.state]
            found.append(Waiting(one.warp, one.lanes, place, self.lines.source_line(place), waits))
        return tuple(found)

    def explain(self, text: str) -> SliceStep:
        """Where an output element comes from: its backward slice, in a run of its own.

        Raises:
            ConfigurationError: there is no such output or element, or nothing stored it.
        """
        role, index = self.output_element(text)
        return explain(self.target.bind(), self.target.compact(), role, index)

    def output_element(self, text: str) -> tuple[str, tuple[int, ...]]:
        """Role and index of an output's element.

        Raises:
            ConfigurationError: it is no element of an output.
        """
        element = self.arrays.element(text)
        for argument in self.case.arguments:
            for role, placement in argument.placements.items():
                if element.part.name in (role, argument.spec.name) and len(element.index) == len(placement.shape):
                    return role, element.index
        raise ConfigurationError(
            f"'{text}' is not one element of an argument", hint="write all indices: explain O[0,0,3,17]"
        )
