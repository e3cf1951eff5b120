"""For tests: `assert_kernel_close` for any array or callable, and kernel cards as pytest items."""

from __future__ import annotations

from wmmadiag.testing.close import KernelMismatch, assert_kernel_close

__all__ = ["KernelMismatch", "assert_kernel_close"]
