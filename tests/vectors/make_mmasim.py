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

ARCHES = {
    "sm_70": "Volta",
    "sm_75": "Turing",
    "sm_80": "Ampere",
    "sm_89": "Ada Lovelace",
    "sm_90": "Hopper",
    "sm_100": "Blackwell",
    "sm_120a": "RTX Blackwell",
}
# (exponent bits, fraction bits) of the operand formats
FIELDS = {
    "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23), "f64": (11, 52),
    "e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1),
}  # fmt: skip
SMALL = ("e3m2", "e2m3", "e2m1")
INT = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits_of(rng: np.random.Generator, shape: tuple[int, int], name: str, case: str) -> np.ndarray[Any, Any]:
    """Random bit patterns: exponent field drawn in a window, other fields uniform."""
    exponent_bits, fraction_bits = FIELDS[name]
    top = 2**exponent_bits - 1
    bias = top // 2
    low, high = {
        "spread": (max(0, bias - 14), min(top - 1, bias + 8)),
        "tiny": (0, min(top - 1, 6)),
        "special": (max(0, bias - 3), min(top - 1, bias + 3)),
    }[case]
    exponent = rng.integers(low, high, shape, endpoint=True).astype(np.uint64)
    fraction = rng.integers(0, 2**fraction_bits, shape, dtype=np.uint64)
    sign = rng.integers(0, 2, shape).astype(np.uint64)
    magnitude = exponent << np.uint64(fraction_bits) | fraction
    magnitude[rng.random(shape) < 0.05] = 0
    if case == "special" and name not in SMALL:
        odd = rng.random(shape)
        magnitude[odd < 0.01] = top << fraction_bits  # Inf, in e4m3 an ordinary number
        magnitude[odd < 0.003] = (top << fraction_bits) + 2**fraction_bits - 1  # NaN
        magnitude[odd > 0.99] = (top << fraction_bits) - 1  # largest of the binade below
    bits = magnitude | sign << np.uint64(exponent_bits + fraction_bits)
    if name == "tf32":
        bits = bits << np.uint64(13) | rng.integers(0, 2**13, shape, dtype=np.uint64)  # low bits must not count
    width = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2}.get(name, 1)
    return bits.astype(UNSIGNED[width])


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
            rng = np.random.default_rng(abs(hash_of(key)))
            found: list[np.ndarray[Any, Any]] = []
            for case in ("spread", "tiny", "special"):
                a = bits_of(rng, (m, k), a_type, case)
                b = bits_of(rng, (k, n), b_type, case)
                c = bits_of(rng, (m, n), c_type, case)
                if case == "tiny":
                    c[: m // 2] = 0
                for role, bits in (("a", a), ("b", b), ("c", c)):
                    arrays.setdefault(f"inputs/{key}/{role}/{case}", bits)
                d = operation(
                    tensor(a, a_type, operation.a_type),
                    tensor(b, b_type, operation.b_type),
                    tensor(c, c_type, operation.c_type),
                )
                found.append(d.view(INT[d.dtype]).numpy().view(UNSIGNED[d.element_size()]))
            arrays[f"outputs/{arch}/{key}"] = np.stack(found)
    np.savez_compressed(Path(__file__).with_name("mmasim.npz"), **arrays)


def hash_of(key: str) -> int:
    """A seed from a text, the same in every process."""
    return int.from_bytes(key.encode()[-8:], "little") ^ len(key)


if __name__ == "__main__":
    main()
