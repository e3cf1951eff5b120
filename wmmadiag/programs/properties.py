"""The properties of the device that a program sees, by architecture.

Source: CUDA C++ Programming Guide 13, "Technical Specifications per Compute Capability"; multiprocessors, L2 and clocks
of one well-known part of each: T4, A100 SXM 40 GB, RTX 3090, Orin, L40S, H100 SXM, B200, RTX 5090 (NVIDIA's data
sheets and white papers).
"""

from __future__ import annotations

import os

from wmmadiag.emulator.limits import SHARED_WITHOUT_OPT_IN, limits
from wmmadiag.numerics.architecture import architecture

_MB = 1 << 20

# number: (threads and blocks of a multiprocessor, multiprocessors, L2 in MB, clock in kHz,
# memory clock in kHz, bus width in bits)
_PARTS = {
    75: (1024, 16, 40, 4, 1_590_000, 5_001_000, 256),
    80: (2048, 32, 108, 40, 1_410_000, 1_215_000, 5120),
    86: (1536, 16, 82, 6, 1_695_000, 9_751_000, 384),
    87: (1536, 16, 16, 4, 1_300_000, 3_199_000, 256),
    88: (1536, 16, 16, 4, 1_300_000, 3_199_000, 256),
    89: (1536, 24, 142, 96, 2_520_000, 9_001_000, 384),
    90: (2048, 32, 132, 50, 1_980_000, 2_619_000, 5120),
    100: (2048, 32, 148, 126, 1_965_000, 3_996_000, 8192),
    103: (2048, 32, 148, 126, 1_965_000, 3_996_000, 8192),
    107: (2048, 32, 148, 126, 1_965_000, 3_996_000, 8192),
    110: (1536, 24, 20, 32, 1_575_000, 4_266_000, 256),
    120: (1536, 24, 170, 96, 2_407_000, 14_001_000, 512),
    121: (1536, 24, 48, 24, 2_418_000, 4_266_000, 256),
}


def device_properties(arch: str, memory: int = 0) -> dict[str, int]:
    """Name as in `cudaDeviceProp` → value; memory is what was asked for, in bytes, or what the machine can give (0).

    Raises:
        UnsupportedError: unknown architecture.
    """
    number = architecture(arch).number
    bounds = limits(arch)
    threads, blocks, multiprocessors, cache, clock, memory_clock, bus = _PARTS[number]
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "major": number // 10,
        "minor": number % 10,
        "totalGlobalMem": memory or installed * 3 // 4,
        "sharedMemPerBlock": SHARED_WITHOUT_OPT_IN,
        "sharedMemPerBlockOptin": bounds.shared_per_block,
        "sharedMemPerMultiprocessor": bounds.shared_per_block + bounds.reserved_shared,
        "reservedSharedMemPerBlock": bounds.reserved_shared,
        "maxThreadsPerBlock": bounds.threads_per_block,
        "maxThreadsPerMultiProcessor": threads,
        "maxBlocksPerMultiProcessor": blocks,
        "regsPerMultiprocessor": 65536,
        "multiProcessorCount": multiprocessors,
        "l2CacheSize": cache * _MB,
        "clockRate": clock,
        "memoryClockRate": memory_clock,
        "memoryBusWidth": bus,
    }
