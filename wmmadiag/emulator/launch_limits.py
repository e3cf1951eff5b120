"""Which grids and blocks a kernel can be launched with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmmadiag.emulator.limits import SHARED_WITHOUT_OPT_IN, limits
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.errors import ConfigurationError, KernelFault, UnsupportedError
from wmmadiag.launch import Dim3, Launch

_INTEGERS = (int, np.integer)
_MAX_BLOCKS = 0xFFFFFFF0


MOST_CLUSTER = 16
"""Blocks of a cluster; more than 8 need cudaFuncAttributeNonPortableClusterSizeAllowed (CUDA C++ Programming Guide)."""


def cluster_of(kernel: LoweredKernel, launch: Launch) -> Dim3:
    """Blocks of a cluster in x, y and z: as the launch says, else as the kernel was compiled, else one."""
    x, y, z = launch.cluster or kernel.entry.limits.get("reqnctapercluster") or (1, 1, 1)
    return x, y, z


def check_shape(kernel: LoweredKernel, launch: Launch) -> None:
    """Refuse a grid or block that the kernel cannot be launched with.

    Raises:
        KernelFault: the chip would refuse it.
        ConfigurationError: it is no launch at all.
    """
    entry, arch = kernel.entry, kernel.arch
    bounds = limits(arch)
    if any(
        len(shape) != 3 or not all(isinstance(n, _INTEGERS) for n in shape) for shape in (launch.grid, launch.block)
    ):
        raise ConfigurationError(
            f"grid {launch.grid} of blocks {launch.block} cannot be launched", hint="give both as three integers"
        )
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    place = entry.place
    if min(*launch.grid, *launch.block) < 1:
        raise ConfigurationError(
            f"grid {launch.grid} of blocks {launch.block} cannot be launched",
            hint="every extent must be at least 1",
        )
    if threads > bounds.threads_per_block or launch.block[2] > 64:
        raise KernelFault(
            f"a block of {launch.block} has {threads} threads; {arch} allows {bounds.threads_per_block}",
            kind="launch-limits", place=place, hint="launch smaller blocks",
        )  # fmt: skip
    if launch.shared_bytes < 0:
        raise ConfigurationError(f"{launch.shared_bytes} bytes of dynamic shared memory", hint="pass 0 or more")
    if launch.grid[0] >= 1 << 31 or launch.grid[1] > 65535 or launch.grid[2] > 65535:
        raise KernelFault(
            f"grid {launch.grid}: x may be 2^31 - 1 at most, y and z 65535",
            kind="launch-limits",
            place=place,
            hint="put the long extent into x",
        )
    blocks = int(launch.grid[0]) * int(launch.grid[1]) * int(launch.grid[2])
    if blocks > _MAX_BLOCKS:
        raise UnsupportedError(
            f"grid {launch.grid} has {blocks:,} blocks; the emulator runs {_MAX_BLOCKS:,} at most",
            place=place,
            hint="take a smaller case",
        )
    for name, bound in (("maxntid", None), ("reqntid", None)):
        shape = entry.limits.get(name, bound)
        if shape is None:
            continue
        most = int(np.prod(shape))
        if name == "reqntid" and tuple(launch.block) != tuple(shape):  # (PTX ISA: each dimension must be equal)
            raise KernelFault(
                f"a block of {_times(launch.block)} threads; the kernel was compiled for exactly {_times(shape)}",
                kind="launch-limits", place=place, hint="launch it with the block that .reqntid in its PTX says",
            )  # fmt: skip
        if threads > most:
            raise KernelFault(
                f"{threads} threads per block, but the kernel was compiled for at most {most}",
                kind="launch-limits", place=place, hint="make __launch_bounds__ and the launch agree",
            )  # fmt: skip
    cluster = cluster_of(kernel, launch)
    if any(extent % side for extent, side in zip(launch.grid, cluster, strict=True)) or np.prod(cluster) > MOST_CLUSTER:
        raise KernelFault(
            f"a grid of {_times(launch.grid)} blocks in clusters of {_times(cluster)}",
            kind="launch-limits", place=place,
            hint="the grid must be a multiple of the cluster, which has 8 blocks at most, or 16 with the opt-in",
        )  # fmt: skip
    static = kernel.layout.declared_static_bytes
    if static > SHARED_WITHOUT_OPT_IN:
        raise KernelFault(
            f"the kernel declares {static:,} bytes of static shared memory; ptxas allows {SHARED_WITHOUT_OPT_IN:,}",
            kind="launch-limits", place=place, hint="use dynamic shared memory (extern __shared__) with the opt-in",
            space="shared",
        )  # fmt: skip
    total = kernel.dynamic_offset + launch.shared_bytes
    if total > bounds.shared_per_block:
        raise KernelFault(
            f"the block needs {total:,} bytes of shared memory ({kernel.static_shared:,} static, "
            f"{launch.shared_bytes:,} dynamic); "
            f"{arch} has {bounds.shared_per_block:,}",
            kind="launch-limits", place=place, hint="use smaller tiles or fewer stages", space="shared",
        )  # fmt: skip


def _times(shape: Sequence[int]) -> str:
    """(32, 4, 1) → "32 × 4 × 1"."""
    return " × ".join(map(str, shape))
