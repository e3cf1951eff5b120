"""Calls of functions that come to themselves again.

Other calls are expanded where they stand. A recursive function has one body, behind the kernel: each call puts a frame
on a stack in the thread's local memory, with the function's variables, its arguments and the number of the call, and
keeps there what the caller still needs of its registers, since the next call of the same function writes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.emulator.decoded import Decoded, Value
from wmmadiag.emulator.frames import Frame
from wmmadiag.emulator.memory_layout import align_up
from wmmadiag.emulator.modifiers import pack
from wmmadiag.emulator.select_control import END, expand
from wmmadiag.emulator.selection import Selector
from wmmadiag.ptx.ir import Operand, PtxFunction, PtxParameter, Register, SymbolAddress

STACK_BYTES, MOST_STACK_BYTES = 16 * 1024, 128 * 1024
"""Of a thread, at least and at most: hundreds of calls. (On the chip cudaLimitStackSize decides, 1 KiB at first.)"""
STACK_FULL = "a recursion that takes more than the stack's "
"""How the text of the operation begins that such a thread stops at."""
_ALIGN = 16
_NUMBER = 8  # bytes at the end of a frame: the call's number


class StackedFunction:
    """A recursive function: its one body.

    Attributes:
        frame: of its body; addresses of variables in it count from the stack's pointer.
        bytes: of a frame on the stack, final once the body stands.
        size: the same as a constant of operations.
        returns: where each call goes on; a call's number is its place in it.
        kept: index of each call in the body → registers that survive it.
    """

    def __init__(self, select: Selector, function: PtxFunction) -> None:
        select.frames += 1
        self.frame = Frame(function, select.frames, select.place, 0)
        self.frame.stack = self
        for formal in (*function.parameters, *function.returns):
            if isinstance(formal, PtxParameter):
                self.frame.reserve(formal.name, formal.size, formal.align)
        self.kept: dict[int, tuple[Register, ...]] = {}
        self.bytes = 0
        self.size = select.late(8)
        self.returns: list[str] = []
        self.dispatch: Decoded | None = None  # the operation that goes back to a call


class CallStack:
    """The recursive functions that a kernel calls."""

    def __init__(self, select: Selector, stack_bytes: int = 0) -> None:
        self._select = select
        self._bytes = min(max(stack_bytes, STACK_BYTES), MOST_STACK_BYTES)
        self._functions: dict[str, StackedFunction] = {}
        self._waiting: list[StackedFunction] = []
        self._base = select.late(8)

    def call(self, function: PtxFunction, returns: Sequence[Operand], arguments: Sequence[Operand]) -> None:
        """Emit a call of a recursive function."""
        select, caller = self._select, self._select.frame
        called = self._opened(function)
        number = len(called.returns)
        back, skipped = called.frame.label(f"%back {number}"), called.frame.label(f"%skipped {number}")
        select.skip_to(skipped)  # the whole call, by lanes whose guard does not hold
        called.returns.append(back)
        formals = [*zip(function.parameters, arguments, strict=True)]
        values = [select.read(actual, one.type) for one, actual in formals if isinstance(one, Register)]
        values = [self._copied(value) for value in values]  # the caller's own parameters may be among them
        kept = self._keep(caller)
        inner = self._entered(called, number)
        for formal, actual in formals:
            if isinstance(formal, PtxParameter):
                self._move(formal, called.frame, inner, caller, actual, into=True)
        select.lane("mov.b64", select.stack_pointer, inner)
        registers = [one for one in function.parameters if isinstance(one, Register)]
        for register, value in zip(registers, values, strict=True):
            select.move(called.frame.value(register), value)
        select.emit("bra", target=called.frame.label("%entry"))
        select.labels[back] = len(select.nodes)
        left = select.temporary(8)
        select.lane("mov.b64", left, select.stack_pointer)
        if caller.stack is not None:
            select.lane("sub.s64", select.stack_pointer, select.stack_pointer, caller.stack.size)
        for value, place in kept:
            self._restore(value, place)
        for formal, actual in zip(function.returns, returns, strict=True):
            if isinstance(formal, PtxParameter):
                self._move(formal, called.frame, left, caller, actual, into=False)
            elif (destination := select.write(actual)) is not None:
                select.move(destination, called.frame.value(formal))
        select.land(skipped)

    def finish(self) -> None:
        """Emit the bodies of what was called, and say where the stack begins."""
        select = self._select
        while self._waiting:
            one = self._waiting.pop(0)
            select.frame, select.guard = one.frame, None
            select.labels[one.frame.label("%entry")] = len(select.nodes)
            expand(select, one.frame.function)
            select.guard = None
            select.labels[one.frame.label(END)] = len(select.nodes)
            end, number = select.temporary(8), select.temporary(4)
            select.lane("add.s64", end, select.stack_pointer, one.size)
            select.in_local("ld", end, number, -_NUMBER)
            one.dispatch = select.emit("brx.idx", s=(number,), targets=())
        for one in self._functions.values():
            assert one.dispatch is not None
            one.dispatch.targets = tuple(one.returns)
            one.size.constant = align_up(max(one.bytes, one.frame.local_end) + _NUMBER, _ALIGN)
        if self._functions:
            self._base.constant = align_up(select.local_bytes, _ALIGN)
            select.local_bytes = self._base.constant + self._bytes

    def _opened(self, function: PtxFunction) -> StackedFunction:
        if function.name not in self._functions:
            self._functions[function.name] = StackedFunction(self._select, function)
            self._waiting.append(self._functions[function.name])
        return self._functions[function.name]

    def _entered(self, called: StackedFunction, number: int) -> Value:
        """The pointer of a new frame, with the call's number at its end: what does not fit stops there."""
        select, caller = self._select, self._select.frame
        inner, end = select.temporary(8), select.temporary(8)
        if caller.stack is None:
            select.lane("mov.b64", inner, self._base)
        else:
            select.lane("add.s64", inner, select.stack_pointer, caller.stack.size)
        select.lane("add.s64", end, inner, called.size)
        select.in_local("st", end, select.constant(number, 4), -_NUMBER).text = f"{STACK_FULL}{self._bytes:,} bytes"
        return inner

    def _keep(self, caller: Frame) -> list[tuple[Value, int]]:
        """Store the registers that the caller reads after the call; (register, offset in its frame) of each."""
        select, kept = self._select, []
        for register in self._survivors(caller):
            value = select.register(register)
            name = f"%kept {register.name}"
            if name not in caller.locations:
                caller.reserve(name, value.bytes or 4, min(value.bytes or 4, 8))
            place = caller.locations[name]
            stored = value
            if not value.bytes:
                stored = select.temporary(4)
                select.lane("selp.b32", stored, select.constant(1, 4), select.constant(0, 4), value)
            select.in_local("st", select.stack_pointer, stored, place)
            kept.append((value, place))
        return kept

    def _survivors(self, caller: Frame) -> tuple[Register, ...]:
        """What is expanded inside of a recursive function is left before that begins again, and needs nothing kept."""
        stack = caller.stack
        return stack.kept[caller.index] if stack is not None and stack.frame is caller else ()

    def _restore(self, value: Value, place: int) -> None:
        select = self._select
        if value.bytes:
            select.in_local("ld", select.stack_pointer, value, place)
            return
        stored = select.temporary(4)
        select.in_local("ld", select.stack_pointer, stored, place)
        select.lane("setp.b32", value, stored, select.constant(0, 4), modifiers=pack({"compare": "ne"}))

    def _move(
        self, formal: PtxParameter, frame: Frame, base: Value, caller: Frame, actual: Operand, *, into: bool
    ) -> None:
        """Copy a `.param` variable of the caller to the callee's parameter, or back."""
        select = self._select
        if not isinstance(actual, SymbolAddress) or actual.name not in caller.locations:
            raise select.malformed(f"argument {formal.name} of {frame.function.name} is no .param variable")
        inside = (base, frame.locations[formal.name])
        outside = (
            select.stack_pointer if caller.stack is not None else select.constant(0, 8),
            caller.locations[actual.name],
        )
        (source, at), (target, to) = (outside, inside) if into else (inside, outside)
        done = 0
        while done < formal.size:
            width = next(one for one in (8, 4, 2, 1) if one <= formal.size - done and (formal.align % one == 0))
            value = select.temporary(max(width, 2))
            select.in_local("ld", source, value, at + done, width)
            select.in_local("st", target, value, to + done, width)
            done += width

    def _copied(self, value: Value) -> Value:
        copy = self._select.temporary(value.bytes)
        self._select.move(copy, value)
        return copy
