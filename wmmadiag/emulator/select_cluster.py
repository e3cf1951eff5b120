"""Clusters of blocks (distributed shared memory).

The engine runs a cluster as one block: the shared memories of its blocks lie behind each other, so that an address
says whose it is, and the cluster's barrier is an mbarrier behind them all.
"""

from __future__ import annotations

from collections.abc import Iterable

from wmmadiag.emulator.decoded import ADDRESS32, CODE_SHIFT, SPACES, Value
from wmmadiag.emulator.native import SHARED_WINDOW
from wmmadiag.emulator.select_memory import BARRIER_OPS
from wmmadiag.emulator.selection import Selector, selects
from wmmadiag.ptx.ir import Instruction, Module, PtxFunction, Special

_OPS = ("mapa", "getctarank", "barrier.cluster.arrive", "barrier.cluster.wait")


def in_clusters(module: Module, entry: PtxFunction, functions: Iterable[str]) -> bool:
    """Whether a kernel knows of clusters; one that does not is the same in any.

    Args:
        functions: that it comes to, its own name among them.
    """
    return "reqnctapercluster" in entry.limits or any(
        one.op in _OPS or any(isinstance(operand, Special) and "cluster" in operand.name for operand in one.operands)
        for name in functions
        for one in module.functions[name].instructions
    )


class ClusterValues:
    """What a kernel that knows of clusters has from its first instruction on.

    Attributes:
        stride: bytes from one block's shared memory to the next one's.
        own: where this block's shared memory begins; `wide`: the same in 64 bits.
        barrier: address of the cluster's barrier.
        phase: of the barrier, that this thread waits for next: its parity.
    """

    def __init__(self, select: Selector) -> None:
        self.stride = select.special("%shared_stride", 4)
        self.barrier = select.special("%cluster_barrier", 4)
        self.own, self.wide, self.phase = (select.temporary(width) for width in (4, 8, 4))
        select.lane("mul.lo.u32", self.own, select.special("%cluster_ctarank", 4), self.stride)
        select.lane("cvt.u64.u32", self.wide, self.own)
        select.lane("mov.b32", self.phase, select.constant(0, 4))

    def arrive(self, select: Selector, op: str) -> None:
        """Emit an arrival at the cluster's barrier; `arrive_drop` of a thread that ends."""
        select.emit("mbarrier", s=(self.barrier, None), space=SPACES["shared"], flags=_flags(op))

    def offset(self, select: Selector, address: Value) -> Value:
        """An address in the block's shared memory as one in the cluster's."""
        d = select.temporary(address.bytes)
        select.lane(f"add.u{8 * d.bytes}", d, address, self.own if d.bytes == 4 else self.wide)
        return d


def _cluster(select: Selector) -> ClusterValues:
    assert select.cluster is not None  # `in_clusters` has seen the instruction
    return select.cluster


def _flags(op: str) -> int:
    return ADDRESS32 | BARRIER_OPS.index(op) << CODE_SHIFT


@selects("mapa")
def map_address(select: Selector, instruction: Instruction) -> None:
    d, a, b = instruction.operands
    to = select.write(d)
    if to is None:
        return
    bits = 8 * to.bytes
    address, rank = select.read(a, f"u{bits}"), select.resize(select.read(b, "u32"), to.bytes)
    cluster = _cluster(select)
    far, begin = select.temporary(to.bytes), select.temporary(to.bytes)
    select.lane(f"sub.u{bits}", begin, address, cluster.own if bits == 32 else cluster.wide)
    select.lane(f"mul.lo.u{bits}", far, rank, select.resize(cluster.stride, to.bytes))
    select.lane(f"add.u{bits}", to, begin, far)


@selects("getctarank")
def rank_of_address(select: Selector, instruction: Instruction) -> None:
    d, a = instruction.operands
    to, bits = select.write(d), instruction.specs[1].type[1:]
    if to is None:
        return
    address = select.read(a, f"u{bits}")
    if instruction.attributes["space"] == "generic":
        offset = select.temporary(8)
        select.lane("sub.u64", offset, address, select.constant(SHARED_WINDOW, 8))
        address = offset
    select.lane("div.u32", to, select.resize(address, 4), _cluster(select).stride)


@selects("barrier.cluster.arrive")
def arrive(select: Selector, _instruction: Instruction) -> None:
    _cluster(select).arrive(select, "arrive")


@selects("barrier.cluster.wait")
def wait(select: Selector, _instruction: Instruction) -> None:
    cluster, number = _cluster(select), len(select.nodes)
    again, passed = select.frame.label(f"%cluster {number}"), select.frame.label(f"%cluster passed {number}")
    select.skip_to(passed)
    select.labels[again] = len(select.nodes)
    over = select.temporary(0)
    select.emit(
        "mbarrier", d=over, s=(cluster.barrier, cluster.phase), space=SPACES["shared"], flags=_flags("try_wait")
    )
    select.branch_if(over, again, negated=True)
    select.lane("xor.b32", cluster.phase, cluster.phase, select.constant(1, 4))
    select.land(passed)
