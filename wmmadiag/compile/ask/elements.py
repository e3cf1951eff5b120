"""Element types: what the compiler says of a type, as the name of a number format."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wmmadiag.compile.ask.answers import TypeFacts

# Classes that are one number: cuda_fp16.h, cuda_bf16.h, cuda_fp8.h; CUTLASS's numeric_types.h; c10/util/Half.h.
_CLASSES: Mapping[str, str] = {
    "__half": "f16",
    "__half_raw": "f16",
    "cutlass::half_t": "f16",
    "c10::Half": "f16",
    "__nv_bfloat16": "bf16",
    "__nv_bfloat16_raw": "bf16",
    "cutlass::bfloat16_t": "bf16",
    "c10::BFloat16": "bf16",
    "__nv_fp8_e4m3": "e4m3",
    "cutlass::float_e4m3_t": "e4m3",
    "__nv_fp8_e5m2": "e5m2",
    "cutlass::float_e5m2_t": "e5m2",
    "cutlass::tfloat32_t": "tf32",
}
# CUDA's vector_types.h, cuda_fp16.h and cuda_bf16.h.
_VECTOR = re.compile(r"(?:u?(?:char|short|int|long|longlong)|float|double)[1-4](?:_\d+a)?|__half2|__nv_bfloat162")
_PREFIXES = {"int": "s", "uint": "u", "float": "f"}


def element(facts: TypeFacts) -> tuple[str, int] | None:
    """The number format of a type's target and how many of it make one: float4 is ("f32", 4), `const bool *` a "bool".

    None for classes of the user's, void, and what else holds no numbers of one format. Enumerations are integers.
    """
    return named_element(
        facts.target, facts.target_kind, facts.target_size, facts.lane, facts.lane_kind, facts.lane_size
    )


def named_element(
    name: str, kind: str, size: int, lane: str = "", lane_kind: str = "", lane_size: int = 0
) -> tuple[str, int] | None:
    """As `element`, of a type's own facts."""
    if kind == "bool":
        return "bool", 1
    if kind in _PREFIXES:
        return f"{_PREFIXES[kind]}{8 * size}", 1
    if name in _CLASSES:
        return _CLASSES[name], 1
    if lane and lane_size and _VECTOR.fullmatch(name):
        one = named_element(lane, lane_kind, lane_size)
        return None if one is None else (one[0], size // lane_size)
    return None
