"""The GPU architectures that wmmadiag knows, by target name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wmmadiag.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Architecture:
    """One target."""

    name: str  # as given, such as "sm_90a"
    number: int  # 70 … 121
    suffix: str  # "", "a" (architecture-specific features) or "f" (family-specific features)
    family: str  # key into the tensor-core table


FAMILIES: dict[int, str] = {
    70: "volta",
    75: "turing",
    80: "ampere",
    86: "ampere",
    87: "ampere",
    88: "ampere",
    89: "ada",
    90: "hopper",
    100: "blackwell",
    103: "blackwell",
    107: "blackwell",
    110: "blackwell",
    120: "rtx_blackwell",
    121: "rtx_blackwell",
}
"""Compute capability ×10 → family of the same tensor-core arithmetic (CUDA programming guide, "Compute Capabilities").

87, 88 (Ampere on Tegra) and 103, 107, 110 (Blackwell) are taken to add as their family does: no published measurement.
"""


def architecture(name: str) -> Architecture:
    """The architecture of a target name: "sm_90", "sm_90a", "compute_120f".

    Raises:
        UnsupportedError: not a known target.
    """
    match = re.fullmatch(r"(?:sm|compute)_(\d+)([af]?)", name)
    number = int(match[1]) if match else 0
    if match is None or number not in FAMILIES:
        known = ", ".join(f"sm_{known}" for known in FAMILIES)
        raise UnsupportedError(f"unknown architecture {name!r}", hint=f"known are {known}")
    if match[2] and number < 90:
        raise UnsupportedError(f"unknown architecture {name!r}", hint="the suffixes a and f exist from sm_90 on")
    return Architecture(name, number, match[2], FAMILIES[number])
