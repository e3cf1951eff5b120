"""Which shapes and types `wmma.mma` and dense `mma.sync` have, and from which architecture on.

Source: PTX ISA 9.0, "wmma.mma" and "mma" (target ISA notes), "Matrix Data-types" and "Matrix Shape".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wmmadiag.numerics.architecture import FAMILIES, Architecture

_F8 = ("e4m3", "e5m2")
_F8F6F4 = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_F16_F32 = (("f16", "f16"), ("f32", "f32"))
_ANY_HALF = (("f16", "f16"), ("f32", "f32"), ("f16", "f32"), ("f32", "f16"))


@dataclass(frozen=True, slots=True)
class TensorCoreForm:
    """A family of instruction forms that differ in types only."""

    instruction: str  # "wmma" or "mma"
    shape: str  # "m16n8k16"
    a: tuple[str, ...]  # types of A
    cd: tuple[tuple[str, str], ...]  # pairs (ctype, dtype)
    since: int  # lowest architecture number
    mixed: bool = False  # A and B may have different types of `a`
    bit_ops: tuple[str, ...] = ("",)  # for b1
    family: str = ""  # non-empty if only these family names have it, with a target suffix a or f

    @property
    def mnk(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return parse_shape(self.shape)

    def matches(self, instruction: str, shape: str, atype: str, btype: str, ctype: str, dtype: str, bitop: str) -> bool:
        """Whether this form has these types, on some architecture."""
        return (
            (instruction, shape) == (self.instruction, self.shape)
            and atype in self.a
            and btype in self.a
            and (atype == btype or self.mixed)
            and (ctype, dtype) in self.cd
            and bitop in self.bit_ops
        )

    def available(self, target: Architecture) -> bool:
        """Whether `target` has it."""
        if self.family:
            return target.family == self.family and target.suffix != ""
        return target.number >= self.since

    def where(self) -> str:
        """The architectures that have it, as text."""
        if self.family:
            return ", ".join(f"sm_{number}a" for number, family in FAMILIES.items() if family == self.family)
        return f"sm_{self.since} and later"


def parse_shape(shape: str) -> tuple[int, int, int]:
    """(m, n, k) of "m16n8k16".

    Raises:
        ValueError: not a shape.
    """
    match = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if match is None:
        raise ValueError(f"not a matrix shape: {shape!r}")
    return int(match[1]), int(match[2]), int(match[3])


_S32 = (("s32", "s32"),)
_F32 = (("f32", "f32"),)
_F64 = (("f64", "f64"),)
_WMMA_16 = ("m16n16k16", "m32n8k16", "m8n32k16")
_POPC = ("xor_popc",)

FORMS: tuple[TensorCoreForm, ...] = (
    # b1 .and.popc came with sm_80; .xor.popc is older.
    *(TensorCoreForm("wmma", shape, ("f16",), _ANY_HALF, 70) for shape in _WMMA_16),
    *(TensorCoreForm("wmma", shape, ("bf16",), _F32, 80) for shape in _WMMA_16),
    TensorCoreForm("wmma", "m16n16k8", ("tf32",), _F32, 80),
    *(TensorCoreForm("wmma", shape, (kind,), _S32, 75) for shape in _WMMA_16 for kind in ("s8", "u8")),
    *(TensorCoreForm("wmma", "m8n8k32", (kind,), _S32, 75) for kind in ("s4", "u4")),
    TensorCoreForm("wmma", "m8n8k128", ("b1",), _S32, 75, bit_ops=_POPC),
    TensorCoreForm("wmma", "m8n8k128", ("b1",), _S32, 80, bit_ops=("and_popc",)),
    TensorCoreForm("wmma", "m8n8k4", ("f64",), _F64, 80),
    TensorCoreForm("mma", "m8n8k4", ("f16",), (("f16", "f16"), ("f32", "f32"), ("f16", "f32")), 70),
    TensorCoreForm("mma", "m16n8k8", ("f16",), _F16_F32, 75),
    TensorCoreForm("mma", "m16n8k16", ("f16",), _F16_F32, 80),
    *(TensorCoreForm("mma", shape, ("bf16",), _F32, 80) for shape in ("m16n8k8", "m16n8k16")),
    *(TensorCoreForm("mma", shape, ("tf32",), _F32, 80) for shape in ("m16n8k4", "m16n8k8")),
    *(TensorCoreForm("mma", shape, _F8, _F16_F32, 89, mixed=True) for shape in ("m16n8k16", "m16n8k32")),
    TensorCoreForm("mma", "m8n8k4", ("f64",), _F64, 80),
    *(TensorCoreForm("mma", shape, ("f64",), _F64, 90) for shape in ("m16n8k4", "m16n8k8", "m16n8k16")),
    TensorCoreForm("mma", "m8n8k16", ("s8", "u8"), _S32, 75, mixed=True),
    *(TensorCoreForm("mma", shape, ("s8", "u8"), _S32, 80, mixed=True) for shape in ("m16n8k16", "m16n8k32")),
    TensorCoreForm("mma", "m8n8k32", ("s4", "u4"), _S32, 75, mixed=True),
    *(TensorCoreForm("mma", shape, ("s4", "u4"), _S32, 80, mixed=True) for shape in ("m16n8k32", "m16n8k64")),
    TensorCoreForm("mma", "m8n8k128", ("b1",), _S32, 75, bit_ops=_POPC),
    TensorCoreForm("mma", "m8n8k128", ("b1",), _S32, 80, bit_ops=("and_popc",)),
    *(
        TensorCoreForm("mma", shape, ("b1",), _S32, 80, bit_ops=("xor_popc", "and_popc"))
        for shape in ("m16n8k128", "m16n8k256")
    ),
    # Also with e4m3 and e5m2 alone; `.kind::f8f6f4` of the same types adds alike, so it needs no key of its own there.
    TensorCoreForm("mma", "m16n8k32", _F8F6F4, _F16_F32, 120, mixed=True, family="rtx_blackwell"),
)
"""Every form, most widely available first where two overlap."""


def shapes(target: Architecture, instruction: str) -> tuple[tuple[str, str], ...]:
    """All (shape, A type) that `target` has for "wmma" or "mma", in table order."""
    pairs = [
        (form.shape, kind)
        for form in FORMS
        if form.instruction == instruction and form.available(target)
        for kind in form.a
    ]
    return tuple(dict.fromkeys(pairs))
