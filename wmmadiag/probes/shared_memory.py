"""Shared memory has three limits: 48 KiB for static arrays; 48 KiB for dynamic memory without the opt-in
(`cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)`); and the architecture's own with
it. Both backends opt in by themselves; host code must do so.
"""

from __future__ import annotations

import numpy as np

from wmmadiag.emulator.limits import SHARED_WITHOUT_OPT_IN, limits
from wmmadiag.errors import ConfigurationError, WmmadiagError
from wmmadiag.launch import Argument
from wmmadiag.probes.answer import ProbeAnswer
from wmmadiag.probes.machine import Platform
from wmmadiag.probes.registry import Probe


def run(machine: Platform) -> ProbeAnswer:
    """Sizes around each limit."""
    most = limits(machine.arch).shared_per_block
    dynamic = {size: _launches(machine, "shared_memory", size) for size in (SHARED_WITHOUT_OPT_IN, most, most + 16)}
    fixed = {size: _launches(machine, "fixed", size) for size in (SHARED_WITHOUT_OPT_IN, SHARED_WITHOUT_OPT_IN + 16)}
    data = {f"dynamic {size} bytes": what for size, what in dynamic.items()}
    data |= {f"static {size} bytes": what for size, what in fixed.items()}
    table = tuple(f"{name}: {what}" for name, what in data.items())
    right = list(dynamic.values()) == ["runs", "runs", "refused"] and list(fixed.values()) == ["runs", "refused"]
    if not right:
        return ProbeAnswer(
            "wrong", ("limits of shared memory are not the documented ones: " + "; ".join(table),), table, data
        )
    lines = (
        f"{machine.arch}: a block may have {most:,} bytes ({most >> 10} KiB) of dynamic shared memory, beyond "
        f"{SHARED_WITHOUT_OPT_IN:,} with cudaFuncAttributeMaxDynamicSharedMemorySize; one more and the launch fails",
        f"static __shared__ arrays end at {SHARED_WITHOUT_OPT_IN:,} bytes on every architecture",
    )
    return ProbeAnswer("right", lines, table, data)


def _launches(machine: Platform, entry: str, size: int) -> str:
    out = np.zeros(1, np.int32)
    dynamic = entry == "shared_memory"
    macros = {} if dynamic else {"STATIC": str(size)}
    arguments: list[Argument] = [out, size // 4]
    try:
        fault = machine.run("shared_memory.cu", entry, arguments, shared=size if dynamic else 0, macros=macros)
    except ConfigurationError:
        raise
    except WmmadiagError:
        return "refused"
    if fault:
        return "refused" if fault == "launch-limits" else fault
    return "runs" if int(out[0]) == 3 else "wrong"


PROBE = Probe("shared-memory", "how much shared memory may a block have?", "shared_memory.cu", run)
