"""Which kernels need a cooperative launch; needs no GPU."""

from __future__ import annotations

from wmmadiag.gpu.kernel import is_cooperative

PTX = """
.visible .entry waits(.param .u64 p) { mov.u32 %r1, %envreg2; ret; }
.visible .entry alone(.param .u64 p) { mov.u32 %r1, %envreg0; // %envreg2
ret; }
"""


def test_a_kernel_that_asks_for_the_workspace_of_the_grid() -> None:
    assert is_cooperative(PTX, "waits")
    assert not is_cooperative(PTX, "alone")
    assert not is_cooperative(PTX, "nobody")
