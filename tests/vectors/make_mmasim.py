"""Writes mmasim.npz: what MMA-Sim (an independent bit-exact model, MIT) answers for mma.sync on each architecture.

Run in an environment with `pip install mmasim torch numpy` (a C++ compiler and ninja for its f64 part):

    python tests/vectors/make_mmasim.py

Operands are stored as bit patterns, one element each: [k] rows of `inputs/<shape>/<types>/{a,b,c}` are the cases
"spread", "tiny" and "special"; `outputs/<arch>/<shape>/<types>` holds D's bits for the same cases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmasim.nv_ptx import isa_mma, sim

from wmmadiag.fidelity.tensor import DTYPES, FIELDS, SMALL, operands

ARCHES = {
    "sm_70": "Volta",
    "sm_75": "Turing",
    "sm_80": "Ampere",
    "sm_89": "Ada Lovelace",
    "sm_90": "Hopper",
    "sm_100": "Blackwell",
    "sm_120a": "RTX Blackwell",
}
INT = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}


def seed_of(key: str) -> int:
    """A seed from a text, the same in every process."""
    return int.from_bytes(key.encode()[-8:], "little") ^ len(key)


def tensor(bits: np.ndarray[Any, Any], name: str, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of MMA-Sim's operand type; fp4 sits in bits 5:2 of its byte there, as in registers."""
    if name == "e2m1":
        bits = bits << 2
    if name in SMALL:
        return torch.from_numpy(bits.copy())
    return torch.from_numpy(bits.view({1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[bits.itemsize])).view(dtype)


def main() -> None:
    """Write mmasim.npz beside this file."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for arch, family in ARCHES.items():
        for form in isa_mma.mma_shape_and_type[family]:
            operation = sim.MMA(family, form)
            shape, *types = [part for part in form.split(".") if not part.startswith("kind")]
            d_type, a_type, b_type, c_type = types
            # Every pair of fp8, fp6 and fp4 would be half of the file: keep each type once on each side.
            small = FIELDS[a_type][0] + FIELDS[a_type][1] < 8
            if small and a_type != b_type and {a_type, b_type} not in ({"e4m3", "e5m2"}, {"e2m1", "e3m2"}):
                continue
            m, n, k = operation.m, operation.n, operation.k
            key = f"{shape}/{d_type}.{a_type}.{b_type}.{c_type}"
            rng = np.random.default_rng(seed_of(key))
            found: list[np.ndarray[Any, Any]] = []
            for case in ("spread", "tiny", "special"):
                a, b, c = operands(rng, (m, n, k), (a_type, b_type, c_type), case)
                for role, bits in (("a", a), ("b", b), ("c", c)):
                    arrays.setdefault(f"inputs/{key}/{role}/{case}", bits)
                d = operation(
                    tensor(a, a_type, operation.a_type),
                    tensor(b, b_type, operation.b_type),
                    tensor(c, c_type, operation.c_type),
                )
                found.append(d.view(INT[d.dtype]).numpy().view(DTYPES[d.element_size()]))
            arrays[f"outputs/{arch}/{key}"] = np.stack(found)
    np.savez_compressed(Path(__file__).with_name("mmasim.npz"), **arrays)


if __name__ == "__main__":
    main()
