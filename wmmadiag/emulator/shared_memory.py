"""The shared memory of a launch: how much there is, what its parts are called, and how a cluster's blocks share theirs.

The blocks of a cluster run as one: their shared memories lie behind each other, and the cluster's barrier behind them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.emulator.launch_limits import cluster_of
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.memory_layout import align_up
from wmmadiag.launch import Launch

MOST_WARPS, OF_ONE_BLOCK = 32, frozenset(("races", "reversed", "barriers"))
"""Warps of a block, or of a cluster, that these checks of the engine can watch."""
_BARRIER_BYTES, _ALIGN = 8, 128
"""Of a cluster's barrier, and of each block's shared memory in it."""


def shared_bytes(kernel: LoweredKernel, launch: Launch) -> int:
    """Bytes of shared memory that a block has, static and dynamic."""
    return kernel.dynamic_offset + launch.shared_bytes if launch.shared_bytes else kernel.static_shared


def clusters_of(kernel: LoweredKernel, launch: Launch) -> tuple[int, int, int, int, int] | None:
    """Blocks of a cluster in x, y and z, bytes from one's shared memory to the next one's, and of each; None where the
    kernel knows of no clusters."""
    if not kernel.clusters:
        return None
    own = kernel.layout.opened_shared + shared_bytes(kernel, launch)
    x, y, z = cluster_of(kernel, launch)
    return x, y, z, align_up(kernel.layout.shared_begin + own, _ALIGN), own


def whole_shared(kernel: LoweredKernel, launch: Launch) -> int:
    """Bytes of shared memory, from the first that the kernel may use: of a block, or of a cluster."""
    clusters = clusters_of(kernel, launch)
    if clusters is None:
        return kernel.layout.opened_shared + shared_bytes(kernel, launch)
    return math.prod(clusters[:4]) + _BARRIER_BYTES - kernel.layout.shared_begin


def watchable(kernel: LoweredKernel, launch: Launch, checks: Sequence[str]) -> tuple[str, ...]:
    """Those of the engine's checks that can watch a launch: some know so many warps, and a cluster may have more."""
    clusters = clusters_of(kernel, launch)
    if clusters is None or math.prod(clusters[:3]) * -(-math.prod(launch.block) // 32) <= MOST_WARPS:
        return tuple(checks)
    return tuple(one for one in checks if one not in OF_ONE_BLOCK)


def shared_extents(kernel: LoweredKernel, launch: Launch) -> list[MemoryExtent]:
    """Names for shared memory, and for a thread's local memory."""
    found = _of_block(kernel, launch)
    clusters = clusters_of(kernel, launch)
    if clusters is not None:
        *cluster, stride, _ = clusters
        blocks = math.prod(cluster)
        found = [replace(one, start=one.start + rank * stride) for rank in range(blocks) for one in found]
        found.append(MemoryExtent("the cluster's barrier", "shared", blocks * stride, _BARRIER_BYTES))
    return [*found, MemoryExtent("the thread's local memory", "local", 0, kernel.local_bytes)]


def _of_block(kernel: LoweredKernel, launch: Launch) -> list[MemoryExtent]:
    layout = kernel.layout
    extents = [
        MemoryExtent(key.rpartition(":")[2], "shared", placed.address, placed.variable.size)
        for key, placed in layout.shared.items()
    ]
    if layout.opened_shared:
        extents.append(
            MemoryExtent("the block's reserved shared memory", "shared", layout.shared_begin, layout.opened_shared)
        )
    if launch.shared_bytes:
        name = next(iter(layout.dynamic), "dynamic shared memory").rpartition(":")[2]
        begin = layout.reserved_shared + kernel.dynamic_offset
        extents.append(MemoryExtent(name, "shared", begin, launch.shared_bytes))
    return extents
