"""From verified PTX to engine operations: one small function per PTX operation, found by its canonical name.

`@selects("ld", …)` registers a function that takes the `Selector` and the instruction and emits `Decoded` operations.
An operation without one is a lane operation, if the engine has it; otherwise it is refused at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from wmmadiag.emulator import native
from wmmadiag.emulator.decoded import ADDRESS32, SPACES, Decoded, Value
from wmmadiag.emulator.fragment_maps import MapTable
from wmmadiag.emulator.frames import Frame
from wmmadiag.emulator.memory_layout import GRID_WORKSPACE_BASE, PARAMETER_BASE, MemoryLayout
from wmmadiag.errors import PtxSyntaxError, UnsupportedError
from wmmadiag.place import Place
from wmmadiag.ptx import ir
from wmmadiag.ptx.calls import function_address
from wmmadiag.ptx.lexer import MALFORMED
from wmmadiag.ptx.types import WIDTHS

if TYPE_CHECKING:
    from wmmadiag.emulator.select_cluster import ClusterValues

Select = Callable[["Selector", ir.Instruction], None]
_S = TypeVar("_S", bound=Select)
_SELECTORS: dict[str, Select] = {}


def selects(*ops: str) -> Callable[[_S], _S]:
    """Register a function for canonical operations."""

    def register(function: _S) -> _S:
        for op in ops:
            if op in _SELECTORS:
                raise RuntimeError(f"{function.__module__}: operation {op!r} is selected twice")
            _SELECTORS[op] = function
        return function

    return register


@lru_cache
def lane_operations() -> frozenset[str]:
    """Names of the engine's lane operations."""
    return frozenset(native.lane_op_names())


PRESETS = {
    name: number
    for number, name in enumerate(
        [
            *(f"%{register}.{axis}" for register in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"),
            "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid",
            "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge",
            "%dynamic_smem_size", "%total_smem_size", "",
            *(f"%{register}.{axis}"
              for register in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid") for axis in "xyz"),
            "%cluster_ctarank", "%cluster_nctarank", "%shared_stride", "%cluster_barrier",
        ]
    )
}  # fmt: skip
"""Special registers that hold one value for a warp's whole life → the engine's number (`Preset`, program.hpp); the last
two are the engine's own."""
CLOCKS = {"%clock": 0, "%clock64": 0, "%globaltimer": 0, "%globaltimer_lo": 0, "%clock_hi": 32, "%globaltimer_hi": 32}
"""Special registers that count → right shift of the engine's instruction count."""
_ZERO = frozenset({"%tid.w", "%ctaid.w", "%clusterid.w", "%cluster_ctaid.w"})
_ONE = frozenset({"%ntid.w", "%nctaid.w", "%nclusterid.w", "%cluster_nctaid.w"})


class Selector:
    """Emits operations; holds what they share: virtual registers, constants, memory layout, maps."""

    def __init__(self, module: ir.Module, entry: ir.PtxFunction, layout: MemoryLayout, arch: str) -> None:
        self.module = module
        self.entry = entry
        self.layout = layout
        self.arch = arch
        self.maps = MapTable()
        self.nodes: list[Decoded] = []
        self.labels: dict[str, int] = {}
        self.local_bytes = 0
        self.frame = Frame(entry, 0, None, 0)
        self._constants: dict[tuple[int, int], Value] = {}
        self._presets: dict[str, Value] = {}
        self._dynamic: list[tuple[Value, int, bool]] = []
        self.circles: Mapping[str, int] = {}  # function → number of those that may come to each other
        self.cluster: ClusterValues | None = None  # of a kernel that knows of clusters
        self._parameters = {p.name: p for p in entry.parameters if isinstance(p, ir.PtxParameter)}
        self.place = entry.place or Place("", 0)
        self.ptx_line = 0
        self._text = ""
        self.frames = 0
        self.guard: tuple[Value, bool] | None = None
        self.fuse = True

    # Emission

    def run(self, instruction: ir.Instruction) -> None:
        """Emit the operations of one instruction.

        Raises:
            UnsupportedError: it is not emulated.
        """
        self.place = self.frame.place(instruction.place)
        self.ptx_line = instruction.ptx_line
        self._text = instruction.text
        self.guard = None
        if instruction.guard is not None:
            self.guard = (self.register(instruction.guard.register), instruction.guard.negated)
        select = _SELECTORS.get(instruction.op)
        if select is not None:
            select(self, instruction)
        elif instruction.op in lane_operations():
            _SELECTORS["cvt" if instruction.op.startswith("cvt.") else "lane"](self, instruction)
        else:
            reason = str(instruction.attributes.get("reason") or f"{instruction.text} is not emulated")
            raise self.unsupported(reason)

    def unsupported(self, message: str, hint: str = "") -> UnsupportedError:
        """An error at the current place."""
        return UnsupportedError(message, place=self.place, hint=hint, op=self._text)

    def emit(self, op: str, **fields: object) -> Decoded:
        """Append an operation at the current place, under the current guard."""
        node = Decoded(op, self.place, self.ptx_line, text=self._text, **fields)  # type: ignore[arg-type]
        if self.guard is not None:
            node.guard, node.guard_negated = self.guard
        self.nodes.append(node)
        return node

    def lane(self, op: str, d: Value, *sources: Value, modifiers: int = 0) -> None:
        """Append a lane operation with one destination."""
        self.emit(op, d=d, s=sources, modifiers=modifiers, together=True)

    def moving(self, op: str, values: Sequence[Value | None], *, writes: bool, **fields: object) -> Decoded:
        """Append an operation on several registers, all of them read or all written."""
        written = tuple(range(len(values))) if writes else ()
        return self.emit(op, extra=list(values), writes_extra=written, count=len(values), **fields)

    def in_local(self, op: str, base: Value, value: Value) -> Decoded:
        """Append an "ld" or "st" of local memory, as many bytes as the register has."""
        return self.moving(
            op, [value], writes=op == "ld", s=(base,), space=SPACES["local"], bytes=value.bytes,
            register_bytes=value.bytes, immediate=0,
        )  # fmt: skip

    def skip_to(self, target: str) -> None:
        """Lanes whose guard does not hold go there; what follows is without a guard."""
        if self.guard is not None:
            self.emit("bra", target=target).guard_negated = not self.guard[1]
        self.guard = None

    def branch_if(self, holds: Value, target: str, *, negated: bool = False) -> None:
        """Append a branch for lanes with a predicate; what follows is without a guard."""
        self.guard = (holds, negated)
        self.emit("bra", target=target)
        self.guard = None

    def land(self, *targets: str) -> None:
        """Labels of branches stand here, before an operation of their own."""
        self.labels |= dict.fromkeys(targets, len(self.nodes))
        self.emit("nop")

    # Values

    def temporary(self, width: int) -> Value:
        """A new virtual register of `width` bytes per lane (0: predicate)."""
        return Value(width)

    def constant(self, value: int, width: int) -> Value:
        """The constant `value`, cut to `width` bytes (0: a predicate, all lanes alike)."""
        bits = value & ((1 << 8 * width) - 1) if width else int(bool(value))
        key = (bits, width)
        if key not in self._constants:
            self._constants[key] = Value(width, constant=bits)
        return self._constants[key]

    def move(self, d: Value, source: Value) -> None:
        """Append a copy of a register."""
        self.lane(f"mov.b{8 * d.bytes}" if d.bytes else "mov.pred", d, source)

    def constants(self) -> list[Value]:
        """All constants, final only after `finish`."""
        return [*self._constants.values(), *(value for value, _, _ in self._dynamic)]

    def presets(self) -> list[Value]:
        """Registers that the engine fills when a warp starts."""
        return list(self._presets.values())

    def register(self, register: ir.Register) -> Value:
        """The value of a PTX register in the current frame."""
        return self.frame.value(register)

    def read(self, operand: ir.Operand | None, type_name: str) -> Value:
        """A source operand of a PTX type; conversions of literals included."""
        width = width_of(type_name)
        if isinstance(operand, ir.Register):
            return self.register(operand)
        if isinstance(operand, ir.Immediate):
            return self.constant(immediate_bits(operand, type_name), width)
        if isinstance(operand, ir.SymbolAddress):
            return self.address_of(operand.name, operand.offset, width)
        if isinstance(operand, ir.Special):
            return self.special(operand.name, width)
        if isinstance(operand, ir.Predicate) and not operand.negated:
            return self.register(operand.register)
        raise self.malformed(f"{self._text}: operand {operand!r} cannot stand here")

    def read_predicate(self, operand: ir.Operand | None) -> tuple[Value, bool]:
        """A predicate source and whether it is negated."""
        if isinstance(operand, ir.Predicate):
            return self.register(operand.register), operand.negated
        if isinstance(operand, ir.Immediate):
            return self.constant(operand.value, 0), False
        return self.read(operand, "pred"), False

    def write(self, operand: ir.Operand | None, type_name: str = "") -> Value | None:
        """A destination; None for a sink."""
        if operand is None or isinstance(operand, ir.Sink):
            return None
        if isinstance(operand, ir.Register):
            return self.register(operand)
        if isinstance(operand, ir.Predicate):
            return self.register(operand.register)
        raise self.malformed(f"{self._text}: destination {operand!r} of type {type_name} is no register")

    def write_pair(self, operand: ir.Operand | None) -> tuple[Value | None, Value | None]:
        """Destinations `d|p`, or a single `d`."""
        if isinstance(operand, ir.OperandPair):
            return self.write(operand.first), self.write(operand.second)
        return self.write(operand), None

    def elements(self, operand: ir.Operand | None) -> tuple[ir.Operand, ...]:
        """The elements of a vector operand; a scalar is a vector of one."""
        if operand is None:
            return ()
        return operand.elements if isinstance(operand, ir.Vector) else (operand,)

    def malformed(self, message: str) -> PtxSyntaxError:
        """An error in the PTX at the current place."""
        return PtxSyntaxError(
            message, place=self.place, detail=f"PTX line {self.ptx_line}", op=self._text, hint=MALFORMED
        )

    def special(self, name: str, width: int) -> Value:
        """The value of a special register."""
        if name in PRESETS:
            if name not in self._presets:
                self._presets[name] = Value(4 if name != "%gridid" else 8, preset=PRESETS[name], name=name)
            value = self._presets[name]
            return value if value.bytes == width else self.resize(value, width)
        if name in CLOCKS:
            d = self.temporary(width)
            self.emit("clock", d=d, register_bytes=width, immediate=CLOCKS[name])
            return d
        if name in ("%envreg1", "%envreg2"):
            self.layout.grid_workspace = True
            return self.constant(
                GRID_WORKSPACE_BASE >> 32 if name == "%envreg1" else GRID_WORKSPACE_BASE & 0xFFFFFFFF, width
            )
        if name in _ZERO or name.startswith("%envreg"):
            return self.constant(0, width)
        if name in _ONE:
            return self.constant(1, width)
        if name == "%reserved_smem_offset_1" and self.layout.reserved_shared:
            return self._shared(self.constant(self.layout.open_reserved(), width))
        raise self.unsupported(f"special register {name} is not emulated")

    def resize(self, value: Value, width: int) -> Value:
        """The value cut or extended to another register width, in bytes."""
        if value.bytes == width:
            return value
        if value.constant is not None:
            return self.constant(value.constant, width)
        d = self.temporary(width)
        self.lane(f"cvt.u{8 * width}.u{8 * value.bytes}", d, value)
        return d

    # Addresses

    def address_of(self, name: str, offset: int, width: int) -> Value:
        """The address of a variable in its own state space, as a constant."""
        frame = self.frame
        if name in frame.locations:
            return self.constant(frame.locations[name] + offset, width)
        if name in self._parameters and frame.number == 0:
            return self.constant(PARAMETER_BASE + self._parameters[name].offset + offset, width)
        variable = frame.variables.get(name) or self.module.variables.get(name)
        if variable is None:
            if name in self.module.functions:
                return self.constant(function_address(name), width)
            raise self.malformed(f"unknown symbol {name}")
        if variable.space is ir.Space.SHARED:
            address = self.layout.shared_address(self._key(name), variable)
            if address is None:  # dynamic shared memory: placed when all static variables are known
                value = Value(width, constant=0, name=name)
                self._dynamic.append((value, offset, False))
                return self._shared(value)
            return self._shared(self.constant(address + offset, width))
        if variable.space in (ir.Space.GLOBAL, ir.Space.CONST):
            return self.constant(self.layout.global_address(variable) + offset, width)
        raise self.unsupported(f"variable {name} in {variable.space.value} memory")

    def _shared(self, address: Value) -> Value:
        """An address in the block's shared memory; in a cluster each block's has its own place."""
        return address if self.cluster is None else self.cluster.offset(self, address)

    def _key(self, name: str) -> str:
        return f"{self.frame.function.name}:{name}" if name in self.frame.variables else name

    def ends(self) -> None:
        """Append an exit, so that no path runs off the end of the program."""
        self.guard = None
        self.end_thread()

    def end_thread(self) -> None:
        """Append the end of a thread; the cluster's barrier waits no longer for it."""
        if self.cluster is not None:
            self.cluster.arrive(self, "arrive_drop")
        self.emit("exit")

    def finish(self) -> None:
        """Fill in what depends on the whole program: where dynamic shared memory begins."""
        base = self.layout.reserved_shared + self.layout.dynamic_offset
        for value, offset, _ in self._dynamic:
            value.constant = base + offset

    def address(self, operand: ir.Operand | None, space: str) -> tuple[Value, int, int, int]:
        """(base register or constant, byte offset, flags, engine space) of an `[…]` operand in a PTX space."""
        if not isinstance(operand, ir.Address):
            raise self.malformed(f"{self._text}: {operand!r} is no address")
        engine_space = {"const": "global", "param": "global"}.get(space, space)
        if isinstance(operand.base, str):
            name = operand.base
            if name in self.frame.locations:
                engine_space = "local"
            value = self.address_of(name, operand.offset, 8)
            if space == "generic" and engine_space != "local":
                variable = self.frame.variables.get(name) or self.module.variables.get(name)
                if variable is not None and variable.space is ir.Space.SHARED:
                    engine_space = "shared"
            return value, 0, 0, SPACES[engine_space]
        if operand.base is None:
            return self.constant(operand.offset, 8), 0, 0, SPACES[engine_space]
        if space == "param" and self.frame.number != 0:
            engine_space = "local"
        value = self.register(operand.base)
        return value, operand.offset, ADDRESS32 if value.bytes == 4 else 0, SPACES[engine_space]


def width_of(type_name: str) -> int:
    """Bytes per lane of the register that holds a PTX type (predicates: 0, 8-bit types: 2)."""
    if type_name == "pred":
        return 0
    return max(2, WIDTHS[type_name] // 8)


def immediate_bits(immediate: ir.Immediate, type_name: str) -> int:
    """The bits of a literal as an operand of a type; decimal floats are f64 in PTX, rounded to what they become."""
    if immediate.type == "int":
        if type_name == "f32":
            return int(np.float32(immediate.value).view(np.uint32))
        if type_name == "f64":
            return int(np.float64(immediate.value).view(np.uint64))
        return immediate.value
    if immediate.type == "f32":
        number = np.uint32(immediate.value).view(np.float32)
        return int(np.float64(number).view(np.uint64)) if type_name == "f64" else immediate.value
    number64 = np.uint64(immediate.value).view(np.float64)
    if type_name == "f64" or WIDTHS.get(type_name) == 64:
        return immediate.value
    with np.errstate(over="ignore", invalid="ignore"):
        if WIDTHS.get(type_name) == 16:
            return int(np.float16(number64).view(np.uint16))
        return int(np.float32(number64).view(np.uint32))
