"""How each architecture's tensor cores add up: one frozen table, and the rule of one instruction.

The model of a floating-point step (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021; MMA-Sim; confirmed
on an H200 for the rows marked "measured"): up to L exact products and C are aligned at the largest exponent e_max of
all terms, each truncated toward zero to F fractional bits below 2^e_max, summed exactly, and rounded once (f32 toward
zero, f16 to nearest even). A zero term takes part with exponent e_zero. Steps chain with k ascending. `reference` holds
the definition in plain Python, `emulator/native/tensor_core*` the fast one.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.errors import UnsupportedError
from wmmadiag.numerics.architecture import Architecture, architecture
from wmmadiag.numerics.tensor_core_forms import FORMS, TensorCoreForm


@dataclass(frozen=True, slots=True)
class MmaRule:
    """How one `mma` or `wmma.mma` adds, on one architecture; field for field the C++ `MmaRule`."""

    # m, n, k: shape; A is m×k, B is k×n, C and D are m×n
    m: int
    n: int
    k: int
    # a, b, c, d: element types, as in PTX ("f16", "bf16", "tf32", "f32", "f64", "e4m3", …, "s8", "u4", "b1", "s32")
    a: str
    b: str
    c: str
    d: str
    fraction_bits: int  # F, bits kept below 2^e_max; 0 for integers, f64 and the software path
    step: int  # L, products per fused step; at most k. 1 for f64, 0 for integers (exact in any order).
    zero_exponent: int  # e_zero, the exponent with which a zero term takes part
    satfinite: bool = False  # integers: clamp the result to s32 instead of wrapping
    bit_op: str = ""  # "" or, for b1, "xor_popc" or "and_popc"
    # no tensor core (mma.m8n8k4 f16 on sm_80 and later), but f32 multiply-adds rounded to nearest even. D f32: a chain
    # from +0 over k, then + C. D f16: (C + pair of k 0 and 1) + pair of k 2 and 3, where a pair is one product,
    # rounded, and a fused multiply-add; rounded to f16 at the end.
    software: bool = False
    result_bits: int = 23  # fraction bits that an f32 result keeps: 23, or 13 (fp8 on sm_89)
    # no fp8 unit: fp8 operands are converted to f16 first (their subnormals take part as normal numbers); the sum
    # starts at 0, takes k mod 4 in {0, 1}, then {2, 3}; C is added last, rounded to nearest
    widen: bool = False
    source: str = ""  # where the rule is from


@dataclass(frozen=True, slots=True)
class SumRow:
    """One row of the table: the floating-point unit of an architecture family."""

    fraction_bits: int  # F
    half_step: int  # L of f16 and bf16
    tf32_step: int  # L of `mma.sync` m16n8k8 tf32 (0: no tf32)
    fp8_step: int  # L of fp8, fp6 and fp4 (0: no unit for it)
    # fp8_fraction_bits, fp8_result_bits: F and result bits of fp8
    fp8_fraction_bits: int
    fp8_result_bits: int
    # zero_exponent_f32, zero_exponent_f16: e_zero by type of the sum
    zero_exponent_f32: int
    zero_exponent_f16: int
    source: str  # origin of the row


_FASI = "Fasi, Higham, Mikaitis, Pranesh 2021 (PeerJ CS 7:e330); MMA-Sim 2.1.1"
_MMASIM = "MMA-Sim 2.1.1 (microsoft/MMA-Sim)"

SUM_TABLE: dict[str, SumRow] = {
    "volta": SumRow(23, 4, 0, 0, 0, 23, -131, -19, _FASI),
    "turing": SumRow(24, 8, 0, 0, 0, 23, -132, -20, _FASI),
    "ampere": SumRow(24, 8, 4, 0, 0, 23, -132, -20, _FASI),
    "ada": SumRow(24, 8, 4, 16, 13, 13, -132, -20, _MMASIM + "; fp8 sums keep 13 bits and so does their f32 result"),
    "hopper": SumRow(25, 16, 8, 0, 0, 23, -133, -21, _MMASIM + "; f16, bf16 and wmma tf32 measured on an H200"),
    "blackwell": SumRow(25, 16, 8, 0, 0, 23, -133, -21, _MMASIM),
    "rtx_blackwell": SumRow(25, 16, 8, 32, 25, 23, -133, -21, _MMASIM),
}
"""Architecture family → its floating-point sums.

Where sources differ or were silent, and what decided:

- fp8 on sm_89: only MMA-Sim says that the f32 result keeps 13 bits, too; taken over.
- fp8 `mma.sync` on sm_90 to sm_110: papers give L = 32 for wgmma and tcgen05; `mma.sync` has no fp8 unit there, ptxas
  widens to f16 (`MmaRule.widen`). Measured on an H200.
- f16 C with f32 D: widened first (SASS, measured on an H200), but in the m8n8k4 hardware of sm_70 and sm_75, which
  takes it with f16's exponents (MMA-Sim).
- A zero result is +0, except that m8n8k4 in software (f16 D) keeps -0 if all terms are -0: measured on an H200.
- f64: a NaN of B, else of the running sum, else of A is handed on, quieted: measured on an H200.
- s32 with and without `.satfinite`, s4 and b1 (in software from sm_90 on): exact, clamped or wrapped at the end:
  measured on an H200.
"""

# mma.m8n8k4 f16 runs on Volta's rules on Turing, too (MMA-Sim), and in software from sm_80 on (SASS of ptxas 12.4 and
# 13.0: for sm_80, 90, 100 and 120, and for all four layouts, the same order of FMUL, FFMA and FADD).
_QUAD_PAIR = SUM_TABLE["volta"]

# wmma m16n16k8 tf32 lowers to HMMA.1684 on every architecture, k 0-3 then 4-7: SASS of ptxas 12.4 and 12.9; measured on
# an H200.
_WMMA_TF32_STEP = 4

_WIDENED = "SASS of ptxas 13.5 for sm_90, sm_100: F2FP.UNPACK_B, two HMMA from 0, FADD or HADD2 with C"

_FP8 = frozenset({"e4m3", "e5m2", "e3m2", "e2m3", "e2m1"})
_FLOAT_OPERANDS = frozenset({"f16", "bf16", "tf32"}) | _FP8


def mma_rule(
    arch: str,
    instruction: str,
    shape: str,
    atype: str,
    btype: str,
    ctype: str,
    dtype: str,
    satfinite: bool = False,
    bitop: str = "",
) -> MmaRule:
    """The rule of one tensor-core instruction.

    Args:
        arch: target such as "sm_80" or "sm_90a".
        instruction: "wmma" (`wmma.mma`) or "mma" (dense `mma.sync`).
        shape: such as "m16n16k16".
        atype, btype, ctype, dtype: PTX element types without the dot.
        satfinite: the instruction has `.satfinite`.
        bitop: "" or "xor_popc" / "and_popc" (PTX: `.xor.popc`, `.and.popc`).

    Raises:
        UnsupportedError: the architecture (or every architecture) lacks this form; the message says which have it.
    """
    target = architecture(arch)
    form = _find_form(target, instruction, shape, atype, btype, ctype, dtype, bitop)
    m, n, k = form.mnk
    if satfinite and (dtype != "s32" or atype == "b1"):
        raise UnsupportedError(
            f"{instruction} {shape} {atype} has no .satfinite", hint="integer forms (s8, u8, s4, u4) have it"
        )
    if atype not in _FLOAT_OPERANDS:
        source = "IEEE 754 fused multiply-adds, k ascending (MMA-Sim 2.1.1)" if atype == "f64" else "exact; PTX ISA"
        return MmaRule(
            m=m, n=n, k=k,
            a=atype, b=btype, c=ctype, d=dtype, fraction_bits=0, step=1 if atype == "f64" else 0, zero_exponent=0,
            satfinite=satfinite, bit_op=bitop, source=source,
        )  # fmt: skip
    row = SUM_TABLE[target.family]
    software = False
    step, fraction_bits, result_bits, widen = row.half_step, row.fraction_bits, 23, False
    source = row.source
    if instruction == "mma" and shape == "m8n8k4":
        software = target.number >= 80
        row = _QUAD_PAIR
        step, fraction_bits = (4, 0) if software else (row.half_step, row.fraction_bits)
        source = "SASS of ptxas 13.0: FMUL, FFMA, FADD" if software else row.source
    elif atype == "tf32":
        step = _WMMA_TF32_STEP if instruction == "wmma" else row.tf32_step
    elif atype in _FP8:
        if row.fp8_step:
            step, fraction_bits, result_bits = row.fp8_step, row.fp8_fraction_bits, row.fp8_result_bits
        else:
            step, widen, source = min(step, k // 2), True, _WIDENED + "; sums: " + row.source
    # The sum is kept in f32 as soon as C or D is: f16 C is widened first, f16 D converted afterwards (rounded twice).
    half_sum = ctype == "f16" and dtype == "f16"
    return MmaRule(
        m=m, n=n, k=k,
        a=atype, b=btype, c=ctype, d=dtype,
        fraction_bits=fraction_bits, step=min(step, k),
        zero_exponent=row.zero_exponent_f16 if half_sum else row.zero_exponent_f32,
        software=software, result_bits=result_bits, widen=widen, source=source,
    )  # fmt: skip


def _find_form(
    target: Architecture, instruction: str, shape: str, atype: str, btype: str, ctype: str, dtype: str, bitop: str
) -> TensorCoreForm:
    wanted = f"{instruction} {shape} {dtype}.{atype}.{btype}.{ctype}" + (f" .{bitop}" if bitop else "")
    for form in FORMS:
        if form.matches(instruction, shape, atype, btype, ctype, dtype, bitop):
            if form.available(target):
                return form
            raise UnsupportedError(f"{target.name} has no {wanted}", hint=f"this form exists on {form.where()}")
    shapes = list(dict.fromkeys(form.shape for form in FORMS if form.instruction == instruction and atype in form.a))
    known = (
        f"the shapes of {instruction} with {atype} are {', '.join(shapes)}"
        if shapes
        else f"no {instruction} takes {atype}"
    )
    raise UnsupportedError(f"no architecture has {wanted}", hint=known)
