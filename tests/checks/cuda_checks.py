"""Run one check on a CUDA source given in a test."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from run_checks import run_checks

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks.finding import Finding
from wmmadiag.checks.registry import native_names, select
from wmmadiag.emulator import EmulatorOptions
from wmmadiag.launch import ArgumentView, Launch

PRELUDE = """#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
"""


@cache
def _ptx(source: str, arch: str) -> tuple[str, str]:
    made = wmmadiag.compile_cuda(PRELUDE + source, arch=arch)
    return made.ptx, made.entries[0].name


def found(
    check: str,
    source: str,
    *arguments: NDArray[np.generic] | int | float,
    names: Sequence[str] = (),
    grid: int = 1,
    block: int = 32,
    shared: int = 0,
    fresh: Sequence[tuple[int, range]] = (),
    arch: str = "sm_80",
    threads: int = 1,
    views: Sequence[ArgumentView] = (),
) -> tuple[Finding, ...]:
    """What a check finds in one launch of the only kernel of a source, which stands after PRELUDE."""
    checks = select(check)
    text, entry = (source, _entry(source)) if source.lstrip().startswith(".version") else _ptx(source, arch)
    options = EmulatorOptions(checks=native_names(checks), threads=threads)
    kernel = emulator.load(text, entry, arch=arch, options=options)
    launch = Launch((grid, 1, 1), (block, 1, 1), arguments, shared, names, fresh, views)
    return run_checks(kernel, launch, checks)


def _entry(ptx: str) -> str:
    return ptx.split(".entry")[1].split("(")[0].strip()
