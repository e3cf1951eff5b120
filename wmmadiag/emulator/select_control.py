"""Branches, calls (expanded where they stand), returns, and the functions that the CUDA runtime provides."""

from __future__ import annotations

from collections.abc import Callable

from wmmadiag.emulator.contraction import contracted
from wmmadiag.emulator.decoded import Value
from wmmadiag.emulator.frames import Frame
from wmmadiag.emulator.modifiers import pack
from wmmadiag.emulator.selection import Selector, selects
from wmmadiag.ptx.calls import INDIRECT, function_address, targets
from wmmadiag.ptx.ir import Instruction, Label, Operand, PtxFunction, PtxParameter, Register, SymbolAddress, Vector

_INLINE_LIMIT = 200_000
"""Operations beyond which expanding calls is given up."""
_DEPTH_LIMIT = 100
"""Nested calls beyond which it is given up."""
NO_FUNCTION = "call through a pointer that holds no function's address"
RECURSION = "recursion: "
WRONG_FREE = "free of what malloc and new did not give in a kernel, or of what was freed already"
"""Texts of the operations that end such lanes."""
ENDS = {
    NO_FUNCTION: "let the pointer hold a device function before it is called",
    WRONG_FREE: "free each pointer once, as malloc or new gave it",
}
"""Such a text → the next step."""


def expand(select: Selector, function: PtxFunction) -> None:
    """Emit a function's body in the selector's current frame."""
    if select.fuse:
        function = contracted(function)
    by_index: dict[int, list[str]] = {}
    for name, index in function.labels.items():
        by_index.setdefault(index, []).append(name)
    for index, instruction in enumerate(function.instructions):
        for name in by_index.get(index, ()):
            select.labels[select.frame.label(name)] = len(select.nodes)
        select.run(instruction)
    for name in by_index.get(len(function.instructions), ()):
        select.labels[select.frame.label(name)] = len(select.nodes)
    select.local_bytes = max(select.local_bytes, select.frame.local_end)


@selects("bra")
def branch(select: Selector, instruction: Instruction) -> None:
    (target,) = instruction.operands
    if not isinstance(target, Label):
        raise select.malformed(f"{instruction.text}: the target is no label")
    select.emit("bra", target=select.frame.label(target.name))


@selects("brx.idx")
def branch_indexed(select: Selector, instruction: Instruction) -> None:
    index, targets = instruction.operands
    if not isinstance(targets, Label):
        raise select.malformed(f"{instruction.text}: the targets are no list of labels")
    names = select.frame.function.branch_targets[targets.name]
    select.emit("brx.idx", s=(select.read(index, "u32"),), targets=tuple(select.frame.label(name) for name in names))


@selects("ret")
def give_back(select: Selector, _instruction: Instruction) -> None:
    if select.frame.call is None:
        select.end_thread()
    else:
        select.emit("bra", target=select.frame.label(END))


END, _SKIPPED = "%end of call", "%call skipped"


@selects("exit")
def end_thread(select: Selector, _instruction: Instruction) -> None:
    select.end_thread()


@selects("trap", "brkpt")
def trap(select: Selector, instruction: Instruction) -> None:
    if instruction.op == "brkpt":
        select.emit("nop")
    elif select.frame.function.name == "free":  # the heap's own
        select.emit("trap").text = WRONG_FREE
    else:
        select.emit("trap")


@selects("call")
def call(select: Selector, instruction: Instruction) -> None:
    returns, callee, arguments = instruction.operands
    if not isinstance(callee, SymbolAddress) or not isinstance(returns, Vector) or not isinstance(arguments, Vector):
        raise select.malformed(f"{instruction.text}: the callee is no function")
    function = select.module.functions.get(callee.name)
    if function is None:
        raise select.malformed(f"call of unknown function {callee.name}")
    if function.declared_only:
        runtime = DEVICE_RUNTIME.get(callee.name)
        if runtime is None:
            raise select.unsupported(
                f"function {callee.name} is declared here, and nothing that is compiled with it defines it"
            )
        runtime(select, returns.elements, arguments.elements)
        return
    _expand_call(select, function, returns.elements, arguments.elements)


@selects(INDIRECT)
def call_through_pointer(select: Selector, instruction: Instruction) -> None:
    """The pointer is compared with each function that it may hold; the lanes that hold it call that one."""
    returns, pointer, arguments = instruction.operands
    if not isinstance(pointer, Register) or not isinstance(returns, Vector) or not isinstance(arguments, Vector):
        raise select.malformed(f"{instruction.text}: the callee is no register")
    held, number = select.register(pointer), len(select.nodes)
    end = select.frame.label(f"%end of calls {number}")
    select.skip_to(end)
    known: dict[int, str] = {}
    for one in targets(select.module, select.frame.function, instruction):
        address = function_address(one.name)
        if known.setdefault(address, one.name) != one.name:
            raise select.unsupported(f"{instruction.text}: {known[address]} and {one.name} have one address")
        after = select.frame.label(f"%not {one.name} {number}")
        other = select.temporary(0)
        holds = select.constant(address, held.bytes)
        select.lane(f"setp.b{8 * held.bytes}", other, held, holds, modifiers=pack({"compare": "ne"}))
        select.branch_if(other, after)
        if one.declared_only:
            raise select.unsupported(f"function {one.name} is declared here, and its address is taken")
        _expand_call(select, one, returns.elements, arguments.elements)
        select.guard = None
        select.emit("bra", target=end)
        select.labels[after] = len(select.nodes)
    select.emit("trap").text = NO_FUNCTION
    select.land(end)


def _expand_call(
    select: Selector, function: PtxFunction, returns: tuple[Operand, ...], arguments: tuple[Operand, ...]
) -> None:
    caller, guard = select.frame, select.guard
    if any(select.circles[one] == select.circles[function.name] for one in caller.running):
        select.emit("trap").text = f"{RECURSION}a call that may come to itself again"
        return
    if len(select.nodes) > _INLINE_LIMIT:
        raise select.unsupported(f"calls expand to more than {_INLINE_LIMIT} operations")
    if len(caller.running) > _DEPTH_LIMIT:
        raise select.unsupported(f"calls are nested more than {_DEPTH_LIMIT} deep")
    select.frames += 1
    callee = Frame(function, select.frames, select.place, caller.local_end, caller)
    after = callee.label(END)
    if guard is not None:  # the whole call is skipped by lanes whose guard does not hold
        select.emit("bra", target=callee.label(_SKIPPED)).guard_negated = not guard[1]
    formals = [*zip(function.parameters, arguments, strict=True), *zip(function.returns, returns, strict=True)]
    incoming: list[tuple[Register, Value]] = []
    for formal, actual in formals:
        if isinstance(formal, PtxParameter):
            if not isinstance(actual, SymbolAddress) or actual.name not in caller.locations:
                raise select.malformed(f"argument {formal.name} of {function.name} is no .param variable")
            callee.locations[formal.name] = caller.locations[actual.name]
        elif formal in function.parameters:
            incoming.append((formal, select.read(actual, formal.type)))
    select.guard = None
    select.frame = callee
    for register, value in incoming:
        select.move(select.register(register), value)
    place, line = select.place, select.ptx_line
    expand(select, function)
    select.place, select.ptx_line, select.guard = place, line, None
    select.labels[after] = len(select.nodes)
    outgoing = [
        (actual, select.register(formal))
        for formal, actual in zip(function.returns, returns, strict=True)
        if isinstance(formal, Register)
    ]
    select.frame = caller
    for actual, value in outgoing:
        destination = select.write(actual)
        if destination is not None:
            select.move(destination, value)
    select.land(callee.label(_SKIPPED))


def _argument(select: Selector, operand: Operand, width: int) -> Value:
    """The value of a call's argument, loaded from its `.param` variable where it has one."""
    if isinstance(operand, SymbolAddress) and operand.name in select.frame.locations:
        value = select.temporary(width)
        select.in_local("ld", select.address_of(operand.name, operand.offset, 8), value)
        return value
    return select.read(operand, f"b{8 * width}")


def _return(select: Selector, returns: tuple[Operand, ...], value: Value) -> None:
    for operand in returns:
        if isinstance(operand, SymbolAddress) and operand.name in select.frame.locations:
            select.in_local("st", select.address_of(operand.name, 0, 8), value)
        elif (destination := select.write(operand)) is not None:
            select.move(destination, value)


def _vprintf(select: Selector, returns: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
    pattern, values = (_argument(select, argument, 8) for argument in arguments)
    written = select.temporary(4)
    select.emit("vprintf", d=written, s=(pattern, values))
    _return(select, returns, written)


def _assertfail(select: Selector, _returns: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
    message, file, line, function, *_ = (
        _argument(select, argument, width) for argument, width in zip(arguments, (8, 8, 4, 8, 8), strict=True)
    )
    select.emit("assertfail", s=(message, file, line, function))


DEVICE_RUNTIME: dict[str, Callable[[Selector, tuple[Operand, ...], tuple[Operand, ...]], None]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
}
"""Functions of the CUDA device runtime that a kernel may call → how they are run."""
