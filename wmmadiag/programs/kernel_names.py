"""Names of kernels as programs launch them."""

from __future__ import annotations

from wmmadiag.compile.names import without_signature


def base_name(kernel: str) -> str:
    """A kernel's plain name: without namespace, template arguments and parameters."""
    return kernel.partition("<")[0].partition("(")[0].rpartition("::")[2].rpartition(" ")[2]


def expression_of(name: str) -> str:
    """An instantiation as NVRTC takes it: functions among its arguments by their names.

    "k<&(f(int))>" → "k<&f>", "k<&(int g<int>(int))>" → "k<&g<int>>".
    """
    while (at := name.find("&(")) >= 0:
        depth, end = 1, at + 2
        while end < len(name) and depth:
            depth += {"(": 1, ")": -1}.get(name[end], 0)
            end += 1
        name = f"{name[:at]}&{without_signature(name[at + 2 : end - 1])}{name[end:]}"
    return name
