"""The families of recorded cases: `<family>_sm_XX.npz` holds what a GPU answered to seed 0."""

from __future__ import annotations

from dataclasses import replace

from wmmadiag.fidelity.cases import FidelityCase
from wmmadiag.fidelity.families import FAMILIES as COMPARED
from wmmadiag.fidelity.families import Family

FAMILIES = {name: COMPARED[name] for name in ("instructions", "approximations", "warps", "programs")}


def recorded_cases(family: str, arch: str) -> list[FidelityCase]:
    """The cases of a family as they are recorded; of approximations every element is kept."""
    of: Family = FAMILIES[family]
    found = []
    for key in of.keys(arch):
        case = of.make(arch, key, 0, of.size)
        assert isinstance(case, FidelityCase)
        found.append(replace(case, sample=0) if family == "approximations" else case)
    return found
