"""For tests: `assert_kernel_close` for any array or callable, and kernel cards as pytest items.

Importing this imports nothing else: pytest loads the plugin in every project of an environment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmmadiag.testing.close import KernelMismatch, assert_kernel_close

__all__ = ["KernelMismatch", "assert_kernel_close"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module 'wmmadiag.testing' has no attribute {name!r}")
    from wmmadiag.testing import close

    return getattr(close, name)
