"""Names of kernels as programs launch them."""

from __future__ import annotations


def base_name(kernel: str) -> str:
    """A kernel's plain name: without namespace, template arguments and parameters."""
    return kernel.partition("<")[0].partition("(")[0].rpartition("::")[2].rpartition(" ")[2]
