"""Launches that no chip accepts are faults with the numbers in them."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernels import run

from wmmadiag.errors import KernelFault

USE = "mov.u32 %r1, big; st.shared.u32 [%r1], %tid; ld.shared.u32 %r2, [%r1]; st.global.u32 [%to], %r2;"


def declared(size: int) -> str:
    return f".shared .align 16 .b8 big[{size}];\n" + USE


def test_48_kib_of_static_shared_memory_run() -> None:
    run(declared(48 * 1024), np.zeros(32, np.uint32))


def test_more_static_shared_memory_is_refused() -> None:
    with pytest.raises(KernelFault, match=r"49,168 bytes of static shared memory.*49,152") as caught:
        run(declared(48 * 1024 + 16), np.zeros(32, np.uint32))
    assert caught.value.kind == "launch-limits"


@pytest.mark.parametrize(("arch", "most"), [("sm_86", 99), ("sm_80", 163), ("sm_90", 227)])
def test_dynamic_shared_memory_up_to_the_archs_limit(arch: str, most: int) -> None:
    body = "st.global.u32 [%to], %tid;"
    run(body, np.zeros(32, np.uint32), shared=most * 1024, target=arch)
    with pytest.raises(KernelFault, match="bytes of shared memory"):
        run(body, np.zeros(32, np.uint32), shared=most * 1024 + 16, target=arch)


def test_a_block_of_more_than_1024_threads_is_refused() -> None:
    with pytest.raises(KernelFault, match="allows 1024"):
        run("", np.zeros(2048, np.uint32), block=1056)
