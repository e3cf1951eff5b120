"""Loads whose value nobody believes: it is only offered to a compare-and-swap of the same place.

`old = *p; do { seen = old; old = atomicCAS(p, seen, f(seen)); } while (old != seen);` (CUDA C++ Programming Guide,
atomic functions). Whatever the first load finds, old or new, the swap takes place only where it is still there. Where
the guess decides besides whether a swap is tried (`while (v > old)`), an old one may leave it out: that is right of
values that go one way, and the launch's results tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmmadiag.emulator.control_flow import ENDS
from wmmadiag.emulator.decoded import Decoded, Value
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.ptx.meaning import meaning

_NO_VALUE_LEAVES = frozenset({"ld", "st", "atom", "red", "bra", "exit", "shfl", "vote", "match", "redux"})
"""Operations whose result is not made of their operands' values alone, or that let these out of the thread."""


def is_validated(kernel: LoweredKernel, pc: int) -> bool:
    """Whether the value of the load at `pc` reaches nothing but compare-and-swaps of its own place, by value and by
    what is computed from it, and comparisons with what these found there.
    """
    return _reaches_swaps_alone(kernel, pc, decides=False)


def is_guess(kernel: LoweredKernel, pc: int) -> bool:
    """Whether it reaches, besides, comparisons that decide what is done next, and a swap is offered it."""
    return _reaches_swaps_alone(kernel, pc, decides=True)


def is_offered(kernel: LoweredKernel, pc: int) -> bool:
    """Whether it is one of both."""
    return is_validated(kernel, pc) or is_guess(kernel, pc)


def _reaches_swaps_alone(kernel: LoweredKernel, pc: int, *, decides: bool) -> bool:
    nodes = kernel.nodes
    load = nodes[pc]
    held = load.written()
    if load.op != "ld" or len(held) != 1:
        return False
    place = _address(kernel, load)
    swaps = [node for node in nodes if _swaps(node, load) and _address(kernel, node) == place]
    if not swaps:
        return False
    found = {node.extra[0] for node in swaps}
    before: dict[int, frozenset[Value]] = {}
    offered = False
    queue = [(after, frozenset(held)) for after in _after(kernel, pc)]
    while queue:
        at, derived = queue.pop()
        derived |= before.get(at, frozenset())
        if derived == before.get(at):
            continue
        before[at] = derived
        node = nodes[at]
        tests = meaning(node.text).opcode == "setp"
        used = derived.intersection(_operands(node))
        if at == pc or not used:
            derived = derived.difference(node.written()) if node.guard is None else derived
        elif node in swaps:
            if node.extra[1] not in derived or node.s[0] in derived:
                return False
            offered = True
        elif tests and (decides or found.intersection(_operands(node))):
            pass
        elif node.op in _NO_VALUE_LEAVES or node.tensor is not None or tests or node.extra:
            return False
        else:
            derived = derived.union(node.written())
        queue += [(after, derived) for after in _after(kernel, at)] if derived else []
    return offered or not decides


def _swaps(node: Decoded, load: Decoded) -> bool:
    """Whether it is a compare-and-swap in the memory that a load reads, as wide."""
    compares = node.op == "atom" and meaning(node.text).attributes["operation"] == "cas"
    return compares and node.space == load.space and _bytes(node) == _bytes(load) and load.count < 2


def _address(kernel: LoweredKernel, node: Decoded) -> tuple[Value | None, int]:
    """Where an access goes: a register and an offset, or None and an address that is known."""
    at, offset = node.s[0], node.immediate
    while at is not None:
        if at.constant is not None:
            return None, offset + at.constant
        made = [one for one in kernel.nodes if at in one.written()]
        if len(made) != 1 or made[0].guard is not None or made[0].op not in ("mov.b64", "add.s64"):
            break
        operands = [value for value in made[0].s if value is not None]
        varying = [value for value in operands if value.constant is None]
        if len(varying) > 1:
            break
        offset += sum(value.constant or 0 for value in operands)
        at = varying[0] if varying else None
    return at, offset


def _operands(node: Decoded) -> list[Value]:
    values = [value for value in node.s if value is not None]
    values += [one for i, one in enumerate(node.extra) if isinstance(one, Value) and i not in node.writes_extra]
    return values if node.guard is None else [*values, node.guard]


def _after(kernel: LoweredKernel, pc: int) -> Sequence[int]:
    """Where a thread may come next."""
    node = kernel.nodes[pc]
    targets = list(kernel.branches.get(pc, ()))
    if node.guard is None and (targets or node.op in ENDS):
        return targets
    return [*targets, pc + 1] if pc + 1 < len(kernel.nodes) else targets


def _bytes(node: Decoded) -> list[int]:
    return [value.bytes for value in node.written()]
