"""Kernels with a known behaviour on a GPU, and the marks of tests that need one."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.api import kernel
from wmmadiag.api.launchable import Kernel
from wmmadiag.backends import RunLimits, default_arch
from wmmadiag.gpu.devices import available

REASON = available()


def needs_gpu(test: object) -> object:
    """Mark a test: it needs a GPU and is skipped, visibly, where there is none."""
    return pytest.mark.gpu(pytest.mark.skipif(bool(REASON), reason=f"no GPU: {REASON}")(test))  # type: ignore[arg-type]


def compiled(
    body: str, backend: str = "gpu", parameters: str = "int* p", seconds: float | None = None, head: str = ""
) -> Kernel:
    """The kernel `k` with this body, after the lines `head`, for the GPU's architecture."""
    source = (
        f'#include <cassert>\n#include <cstdio>\n{head}\nextern "C" __global__ void k({parameters})\n{{\n{body}\n}}\n'
    )
    limits = RunLimits(seconds=seconds)
    return kernel(source, "k", arch=default_arch(backend), backend=backend, limits=limits)


def zeros(count: int = 64) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.zeros(count, np.int32)
