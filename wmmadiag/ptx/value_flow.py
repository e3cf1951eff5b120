"""Where the values of a kernel flow, between registers and through memory, and what its instructions say of them.

Nothing depends on the order of the instructions: what may flow counts as flowing. A kernel and what it calls are one
graph, calls from different places not told apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.ptx import ir
from wmmadiag.ptx.calls import INDIRECT, callees
from wmmadiag.ptx.types import CLASSES, WIDTHS

ValueHolder: TypeAlias = Hashable
"""What holds a value: a register ("r", function, name), bytes of a parameter of the kernel ("p", offset) or of a call
("c", function, variable, offset), or memory."""

SHARED: ValueHolder = ("shared",)
"""Shared memory, all of it: which bytes of it meet is not known."""
_COPIES = ("mov.", "selp.", "shfl", "cvta", "movmatrix")
"""Operations whose results are their sources; what integer type they name says nothing of the value."""
_BITS = ("and.", "or.", "xor.", "not.", "lop3", "shl.", "shr.", "shf.", "prmt.", "bfe.", "bfi.")
"""Operations on bits: they move elements, or take apart and put together what is no element (packed weights)."""
_WHOLE = frozenset((16, 32, 48))
"""Distances by which shifts move elements of 16 or 32 bits whole."""
_ARITHMETIC = frozenset(("add", "sub", "mul", "mad", "mad24", "mul24", "min", "max", "abs", "neg", "div", "rem", "sad"))
_INTEGER = _ARITHMETIC | {"dp4a", "dp2a", "setp", "set", "cvt", "atom", "red", "mma", "wmma"}
"""Operations that compute with an integer as such; shifts and masks may take the bits of something else apart."""
POINTER_OPS = ("mov.", "cvta", "cvt.", "selp.", "add.", "sub.", "mad.", "max.", "min.", "and.", "or.", "xor.", "lop3.")
"""Operations through which a pointer stays one: sums, products only as what is added; rounding to alignments."""
_ELEMENTS = {
    "f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "s16x2": "s16", "u16x2": "u16", "s8x4": "s8", "u8x4": "u8",
}  # fmt: skip
_MEMORY_OPS = frozenset(("ld", "ldu", "st", "atom", "red", "wmma.load", "wmma.store", "cp.async"))


@dataclass(slots=True)
class MemoryAccess:
    """An access to global memory, or to memory that may be global."""

    base: ValueHolder  # what holds its address
    mode: str  # "read", "written", or "added" for an atomic sum
    width: int  # bytes of each element that is moved
    # loaded, stored: what holds the values
    loaded: tuple[ValueHolder, ...] = ()
    stored: tuple[ValueHolder, ...] = ()
    types: frozenset[str] = frozenset()  # what the instruction itself says of them


@dataclass(slots=True)
class ValueFlow:
    """A graph of what holds values."""

    entry: ir.PtxFunction  # the kernel
    # forwards, backwards: a value goes on as it is, as a part, or put together with others
    forwards: dict[ValueHolder, set[ValueHolder]] = field(default_factory=dict)
    backwards: dict[ValueHolder, set[ValueHolder]] = field(default_factory=dict)
    # loose_forwards, loose_backwards: operations on bits, which may take apart what is no element
    loose_forwards: dict[ValueHolder, set[ValueHolder]] = field(default_factory=dict)
    loose_backwards: dict[ValueHolder, set[ValueHolder]] = field(default_factory=dict)
    # used_as, made_as: types of operands that instructions read, and that they compute
    used_as: dict[ValueHolder, set[str]] = field(default_factory=dict)
    made_as: dict[ValueHolder, set[str]] = field(default_factory=dict)
    addresses: dict[ValueHolder, set[ValueHolder]] = field(default_factory=dict)  # a pointer here is one there, too
    accesses: list[MemoryAccess] = field(default_factory=list)  # to memory
    members: set[tuple[int, int]] = field(default_factory=set)  # what is loaded of the parameter block: (offset, bytes)
    certain: set[ValueHolder] = field(default_factory=set)  # what instructions say to be addresses in global memory
    indexed: set[str] = field(default_factory=set)  # parameters that are read at computed offsets
    passed: set[tuple[str, str, str, str]] = field(default_factory=set)  # caller, variable, callee, formal
    cells: set[tuple[str, str, int]] = field(default_factory=set)

    def flow(self, source: ValueHolder, target: ValueHolder, *, loosely: bool = False) -> None:
        forwards = self.loose_forwards if loosely else self.forwards
        backwards = self.loose_backwards if loosely else self.backwards
        forwards.setdefault(source, set()).add(target)
        backwards.setdefault(target, set()).add(source)


def value_flow(module: ir.Module, entry: str) -> ValueFlow:
    """The graph of a kernel and of what it calls."""
    graph = ValueFlow(module.functions[entry])
    for function in _reached(module, graph.entry):
        _FlowReader(graph, function, module).read()
    _join_calls(graph)
    return graph


def _reached(module: ir.Module, kernel: ir.PtxFunction) -> Iterator[ir.PtxFunction]:
    waiting, seen = [kernel.name], {kernel.name}
    while waiting:
        function = module.functions[waiting.pop()]
        yield function
        for target in sorted({one.name for call in function.instructions for one in callees(module, function, call)}):
            if target not in seen:
                seen.add(target)
                waiting.append(target)


class _FlowReader:
    """Puts one function's instructions into the graph."""

    def __init__(self, graph: ValueFlow, function: ir.PtxFunction, module: ir.Module) -> None:
        self.graph = graph
        self.name = function.name
        self.function = function
        self.module = module
        self.kernel = function is graph.entry
        self.parameters = {one.name: one for one in function.parameters if isinstance(one, ir.PtxParameter)}
        # A register that holds the address of a parameter, and nothing else: how structs' members are read.
        self.places: dict[str, tuple[str, int]] = {}

    def read(self) -> None:
        self._addresses_of_parameters()
        for instruction in self.function.instructions:
            if instruction.op in ("call", INDIRECT):
                for target in callees(self.module, self.function, instruction):
                    self._call(instruction, target)
            elif instruction.op == "cp.async":
                self._copy(instruction)
            elif instruction.op in _MEMORY_OPS or instruction.op in ("ldmatrix", "stmatrix"):
                self._memory(instruction)
            elif instruction.op != "unsupported":
                self._compute(instruction)

    def _addresses_of_parameters(self) -> None:
        written: dict[str, int] = {}
        for one in self.function.instructions:
            for operand, spec in zip(one.operands, one.specs, strict=True):
                if spec.access is ir.Access.WRITE:
                    for register in _registers(operand):
                        written[register.name] = written.get(register.name, 0) + 1
        for one in self.function.instructions:
            if not one.op.startswith(("mov.b64", "cvta", "add.s64", "add.u64")) or len(one.operands) < 2:
                continue
            target, source = one.operands[0], one.operands[1]
            if not isinstance(target, ir.Register) or written.get(target.name) != 1:
                continue
            extra = 0
            if one.op.startswith("add"):
                last = one.operands[2]
                if not isinstance(last, ir.Immediate):
                    continue
                extra = last.value
            if isinstance(source, ir.SymbolAddress) and source.name in self.parameters:
                self.places[target.name] = (source.name, source.offset + extra)
            elif isinstance(source, ir.Register) and source.name in self.places:
                name, offset = self.places[source.name]
                self.places[target.name] = (name, offset + extra)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _register(self, register: ir.Register) -> ValueHolder:
        return ("r", self.name, register.name)

    def _cell(self, name: str, offset: int) -> ValueHolder:
        """Bytes of a `.param` variable."""
        if self.kernel and name in self.parameters:
            return ("p", self.parameters[name].offset + offset)
        self.graph.cells.add((self.name, name, offset))
        return ("c", self.name, name, offset)

    def _nodes(self, operand: ir.Operand | None) -> tuple[ValueHolder, ...]:
        return tuple(self._register(one) for one in _registers(operand))

    # -- instructions --------------------------------------------------------------------------------------------

    def _compute(self, one: ir.Instruction) -> None:
        reads: list[ValueHolder] = []
        writes: list[ValueHolder] = []
        signed = one.op.startswith("cvt.") and _widens(one.op)
        stem = one.op.split(".")[0]
        for operand, spec in zip(one.operands, one.specs, strict=True):
            types = _told(spec.type, stem in _INTEGER and (stem != "cvt" or signed or _to_float(one.op)))
            for node in self._nodes(operand):
                if spec.access is ir.Access.WRITE:
                    writes.append(node)
                    self.graph.made_as.setdefault(node, set()).update(types)
                else:
                    reads.append(node)
                    self.graph.used_as.setdefault(node, set()).update(types)
        copies = one.op.startswith(_COPIES) or (stem == "cvt" and not _to_float(one.op))
        if copies or one.op.startswith(_BITS):
            loosely = not copies and not _moves_whole(one)
            for source in reads:
                for target in writes:
                    self.graph.flow(source, target, loosely=loosely)
        if one.op.startswith(POINTER_OPS):
            factors = ("a", "b") if stem == "mad" else ()
            for operand, spec in zip(one.operands, one.specs, strict=True):
                if spec.access is ir.Access.READ and WIDTHS.get(spec.type) == 64 and spec.role not in factors:
                    for source in self._nodes(operand):
                        self.graph.addresses.setdefault(source, set()).update(writes)
        if one.op == "cvta" and one.attributes.get("space") == "global":
            self.graph.certain.update(reads)

    def _memory(self, one: ir.Instruction) -> None:
        space = one.attributes.get("space", "generic")
        address = one.operand("addr")
        data = one.operand("d") if one.op in ("ld", "ldu", "ldmatrix", "wmma.load") else one.operand("b")
        data = one.operand("c") if one.op == "wmma.store" else data
        if data is None and one.op == "wmma.store":
            data = one.operand("d")
        nodes = self._nodes(data)
        type_name = one.attributes.get("type", "b32")
        types = set(_told(type_name, one.op in ("atom", "red") or type_name.startswith("s")))
        if not isinstance(address, ir.Address):
            return
        if space == "param" or self._names_parameter(address):
            self._parameter(one, address, nodes)
            return
        if space in ("shared", "local", "const"):
            memory = SHARED if space == "shared" else (space, self.name)
            for node in nodes:
                if one.op in ("ld", "ldu", "ldmatrix", "wmma.load"):
                    self.graph.flow(memory, node)
                else:
                    self.graph.flow(node, memory)
            self._typed(nodes, types)
            return
        self._typed(nodes, types)
        if not isinstance(address.base, ir.Register):
            return
        base = self._register(address.base)
        width = WIDTHS.get(type_name, 32) // 8
        if one.op in ("atom", "red"):
            mode = "added" if one.attributes.get("operation") == "add" else "written"
            self.graph.accesses.append(MemoryAccess(base, mode, width, types=frozenset(types)))
            if one.op == "atom":
                self.graph.accesses.append(MemoryAccess(base, "read", width, types=frozenset(types)))
        elif one.op in ("st", "wmma.store"):
            self.graph.accesses.append(MemoryAccess(base, "written", width, stored=nodes, types=frozenset(types)))
        else:
            self.graph.accesses.append(MemoryAccess(base, "read", width, loaded=nodes, types=frozenset(types)))

    def _names_parameter(self, address: ir.Address) -> bool:
        base = address.base
        if isinstance(base, str):
            return base in self.parameters
        return isinstance(base, ir.Register) and base.name in self.places

    def _parameter(self, one: ir.Instruction, address: ir.Address, nodes: tuple[ValueHolder, ...]) -> None:
        """A load or store of a `.param` variable."""
        base = address.base
        if isinstance(base, ir.Register):
            known = self.places.get(base.name)
            if known is None:
                self.graph.indexed.update(self.parameters)
                return
            name, offset = known[0], known[1] + address.offset
        elif isinstance(base, str):
            name, offset = base, address.offset
        else:
            return
        type_name = one.attributes.get("type", "b32")
        width = WIDTHS.get(type_name, 32) // 8
        for position, node in enumerate(nodes):
            cell = self._cell(name, offset + position * width)
            if one.op == "st":
                self.graph.flow(node, cell)
                self.graph.addresses.setdefault(node, set()).add(cell)
                continue
            if isinstance(cell, tuple) and cell[0] == "p":
                self.graph.members.add((cell[1], width))
            self.graph.flow(cell, node)
            self.graph.addresses.setdefault(cell, set()).add(node)
            self.graph.used_as.setdefault(node, set()).update(_told(type_name, type_name.startswith("s")))

    def _typed(self, nodes: Iterable[ValueHolder], types: set[str]) -> None:
        for node in nodes:
            self.graph.used_as.setdefault(node, set()).update(types)
            self.graph.made_as.setdefault(node, set()).update(types)

    def _copy(self, one: ir.Instruction) -> None:
        source, size = one.operand("src"), one.operand("size")
        if isinstance(source, ir.Address) and isinstance(source.base, ir.Register):
            width = size.value if isinstance(size, ir.Immediate) else 16
            self.graph.accesses.append(MemoryAccess(self._register(source.base), "read", width, loaded=(SHARED,)))

    def _call(self, one: ir.Instruction, function: ir.PtxFunction) -> None:
        returns, arguments = one.operand("ret"), one.operand("args")
        if not isinstance(returns, ir.Vector) or not isinstance(arguments, ir.Vector):
            return
        pairs = [*zip(function.parameters, arguments.elements, strict=False)]
        for formal, actual in [*pairs, *zip(function.returns, returns.elements, strict=False)]:
            if isinstance(formal, ir.PtxParameter) and isinstance(actual, ir.SymbolAddress):
                self.graph.passed.add((self.name, actual.name, function.name, formal.name))
            elif isinstance(formal, ir.Register) and isinstance(actual, ir.Register):
                inner, outer = ("r", function.name, formal.name), self._register(actual)
                source, into = (outer, inner) if formal in function.parameters else (inner, outer)
                self.graph.flow(source, into)
                self.graph.addresses.setdefault(source, set()).add(into)


def _join_calls(graph: ValueFlow) -> None:
    """What is stored into a call's argument is what the function loads, and the same of its result."""
    offsets: dict[tuple[str, str], set[int]] = {}
    for function, name, offset in graph.cells:
        offsets.setdefault((function, name), set()).add(offset)
    for caller, actual, called, formal in graph.passed:
        for offset in offsets.get((caller, actual), set()) | offsets.get((called, formal), set()):
            outer: ValueHolder = ("c", caller, actual, offset)
            inner: ValueHolder = ("c", called, formal, offset)
            for source, target in ((outer, inner), (inner, outer)):
                graph.flow(source, target)
                graph.addresses.setdefault(source, set()).add(target)


def _moves_whole(one: ir.Instruction) -> bool:
    """Whether an operation on bits moves elements of 16 or 32 bits, as packing and unpacking do."""
    stem = one.op.split(".")[0]
    last = one.operands[-1]
    number = last.value if isinstance(last, ir.Immediate) and last.type == "int" else None
    if stem == "or":
        return number is None
    if stem in ("shl", "shr"):
        return number in _WHOLE
    if stem == "prmt" and number is not None:
        pairs = [((number >> shift) & 15, (number >> (shift + 4)) & 15) for shift in (0, 8)]
        return all(high == low + 1 and low % 2 == 0 for low, high in pairs)
    return False


def _told(type_name: str, integers: bool) -> set[str]:
    """What a type in an instruction says of the value, in a card's names."""
    plain = _ELEMENTS.get(type_name, type_name)
    kind = CLASSES.get(plain)
    if kind == "float" or (kind == "packed" and WIDTHS[plain] == 8 and not plain.endswith("x2")):
        return {plain}
    return {plain} if kind == "integer" and integers and WIDTHS[plain] >= 8 and "x" not in plain else set()


def _to_float(op: str) -> bool:
    """Whether a conversion has a float on either side: it computes, and does not only move bits."""
    return any(CLASSES.get(part) in ("float", "packed") for part in op.split(".")[1:])


def _widens(op: str) -> bool:
    """Whether a conversion between integers extends a sign: `cvt.s64.s32`."""
    target, source = op.split(".")[1:3]
    return source.startswith("s") and WIDTHS.get(source, 64) < WIDTHS.get(target, 0)


def _registers(operand: ir.Operand | None) -> Iterator[ir.Register]:
    if isinstance(operand, ir.Register):
        yield operand
    elif isinstance(operand, ir.Vector):
        for element in operand.elements:
            yield from _registers(element)
    elif isinstance(operand, ir.OperandPair):
        yield from _registers(operand.first)
