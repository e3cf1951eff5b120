"""Which grids and blocks a kernel can be launched with."""

from __future__ import annotations

import math
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
    _check_extents(launch)
    _check_block(kernel, launch)
    _check_grid(kernel, launch)
    _check_shared(kernel, launch)


def _check_extents(launch: Launch) -> None:
    shapes = (launch.grid, launch.block)
    refused = f"grid {launch.grid} of blocks {launch.block} cannot be launched"
    if any(len(shape) != 3 or not all(isinstance(n, _INTEGERS) for n in shape) for shape in shapes):
        raise ConfigurationError(refused, hint="give both as three integers")
    if min(*launch.grid, *launch.block) < 1:
        raise ConfigurationError(refused, hint="every extent must be at least 1")
    if launch.shared_bytes < 0:
        raise ConfigurationError(f"{launch.shared_bytes} bytes of dynamic shared memory", hint="pass 0 or more")


def _check_block(kernel: LoweredKernel, launch: Launch) -> None:
    threads, allowed = math.prod(launch.block), limits(kernel.arch).threads_per_block
    if threads > allowed or launch.block[2] > 64:
        what = f"a block of {launch.block} has {threads} threads; {kernel.arch} allows {allowed}"
        raise _refused(kernel, what, "launch smaller blocks")
    exact = kernel.entry.limits.get("reqntid")
    if exact is not None and tuple(launch.block) != tuple(exact):  # (PTX ISA: each dimension must be equal)
        raise _refused(
            kernel,
            f"a block of {_times(launch.block)} threads; the kernel was compiled for exactly {_times(exact)}",
            "launch it with the block that .reqntid in its PTX says",
        )
    most = math.prod(kernel.entry.limits.get("maxntid", launch.block))
    if threads > most:
        what = f"{threads} threads per block, but the kernel was compiled for at most {most}"
        raise _refused(kernel, what, "make __launch_bounds__ and the launch agree")


def _check_grid(kernel: LoweredKernel, launch: Launch) -> None:
    if launch.grid[0] >= 1 << 31 or launch.grid[1] > 65535 or launch.grid[2] > 65535:
        what = f"grid {launch.grid}: x may be 2^31 - 1 at most, y and z 65535"
        raise _refused(kernel, what, "put the long extent into x")
    blocks = math.prod(map(int, launch.grid))
    if blocks > _MAX_BLOCKS:
        raise UnsupportedError(
            f"grid {launch.grid} has {blocks:,} blocks; the emulator runs {_MAX_BLOCKS:,} at most",
            place=kernel.entry.place,
            hint="take a smaller case",
        )
    cluster = cluster_of(kernel, launch)
    if (
        any(extent % side for extent, side in zip(launch.grid, cluster, strict=True))
        or math.prod(cluster) > MOST_CLUSTER
    ):
        raise _refused(
            kernel,
            f"a grid of {_times(launch.grid)} blocks in clusters of {_times(cluster)}",
            "the grid must be a multiple of the cluster, which has 8 blocks at most, or 16 with the opt-in",
        )


def _check_shared(kernel: LoweredKernel, launch: Launch) -> None:
    static = kernel.layout.declared_static_bytes
    if static > SHARED_WITHOUT_OPT_IN:
        what = f"the kernel declares {static:,} bytes of static shared memory; ptxas allows {SHARED_WITHOUT_OPT_IN:,}"
        raise _refused(kernel, what, "use dynamic shared memory (extern __shared__) with the opt-in", "shared")
    total, allowed = kernel.dynamic_offset + launch.shared_bytes, limits(kernel.arch).shared_per_block
    if total > allowed:
        parts = f"{kernel.static_shared:,} static, {launch.shared_bytes:,} dynamic"
        what = f"the block needs {total:,} bytes of shared memory ({parts}); {kernel.arch} has {allowed:,}"
        raise _refused(kernel, what, "use smaller tiles or fewer stages", "shared")


def _refused(kernel: LoweredKernel, message: str, hint: str, space: str = "") -> KernelFault:
    return KernelFault(message, kind="launch-limits", place=kernel.entry.place, hint=hint, space=space)


def _times(shape: Sequence[int]) -> str:
    """(32, 4, 1) → "32 × 4 × 1"."""
    return " × ".join(map(str, shape))
