"""Rounding models that the bounds are made of: working precision, sums, operand and output rounding.

Notation: u is half the spacing of significands ("unit roundoff"), 2⁻²⁴ for f32 and 2⁻⁵³ for f64. A sum of n products
x·y is bounded relative to A = Σ|x|·|y|, never to the sum itself (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from wmmadiag.numerics.element_types import TYPES, ElementType
from wmmadiag.ops.parts.late import NDArray, np

Doubles: TypeAlias = "NDArray[np.float64]"
Where: TypeAlias = "NDArray[np.bool_]"
Parameters: TypeAlias = Mapping[str, float | int | bool | str]

U32 = 2.0**-24
U64 = 2.0**-53

# Error of one f32 accumulation per product, in units of U32·A. A tensor core aligns L products and C to the largest
# exponent, truncates each to F fractional bits and rounds the sum toward zero, so one step costs at most
# (L + 1)·2⁻ᶠ + 2⁻²³ of A. Largest per product over the targets NVRTC has: tf32, L = 4, F = 24 (sm_80 … sm_89):
# (5·2⁻²⁴ + 2·2⁻²⁴)/4. (f16 and bf16 there: L = 8, 11/8; sm_90 and later: L = 16, F = 25, 21/32.) Scalar code costs
# 1 by fma and (n + 1)/n by multiply and add, in any order. Source: the table in MMA-Sim (microsoft/MMA-Sim 2.1.1).
_F32_PER_PRODUCT = 1.75
# FP8 on sm_89: L = 16, F = 13, and 13 bits of the result (`numerics.tensor_core.SUM_TABLE`): (17 + 1)·2⁻¹³ of A a step.
_F13_PER_PRODUCT = 18.0 / 16.0
_PART = 32  # products of a part of a sum, at least
# Partial sums of split loops, warps and k-halves are added at the end; each addition costs one more unit.
_EXTRA_ADDITIONS = 8

# tf32 operands: the tensor core drops the low 13 bits of an f32 unless the kernel rounded them before: one full ulp.
TF32_TRUNCATION = 2.0**-10


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How an operation computes."""

    unit: float  # u of scalar work (scale, exponent, division): U32 or U64
    accumulate: str  # "f13", "f16", "f32", "f64", "s32", or "parts": those of at least 32 products, added in f16
    step: int  # products that one rounding of an f16 sum covers
    operand: float  # relative error of each operand of the multiplication beyond its storage (tf32 truncation), or 0
    exp_unit: float  # relative error of one exponential
    exp_argument: float  # relative rounding of the exponential's argument beyond `unit`
    scaled_query: float  # relative error of scale·Q when the kernel rounds it to a narrow type before Q·Kᵀ, or 0
    score_type: ElementType | None  # type that scores are kept in, None when the working type
    p_type: ElementType | None  # type that P is rounded to, None when the working type

    @property
    def exact(self) -> bool:
        """Integer arithmetic."""
        return self.accumulate == "s32"


def arithmetic(parameters: Parameters, operand: ElementType) -> Arithmetic:
    """The rounding model that a card's parameters and the operands' type imply.

    `auto` means: sums in f32 (f64 for f64 operands, s32 for integers); operands as stored; P as the operands.
    """
    accumulate = str(parameters.get("accumulate", "auto"))
    if accumulate == "auto":
        accumulate = "f64" if operand.name == "f64" else "f32" if operand.is_float else "s32"
    multiply = str(parameters.get("multiply", "auto"))
    unit = U64 if operand.name == "f64" else U32
    operand_error = 0.0
    if multiply != "auto" and TYPES[multiply].precision < operand.precision:
        operand_error = TF32_TRUNCATION if multiply == "tf32" else TYPES[multiply].unit
    p_name = str(parameters.get("p_dtype", "auto"))
    if p_name == "auto":
        p_name = multiply if multiply != "auto" else operand.name
    exp_name = str(parameters.get("exp_dtype", "f32"))
    narrow_exp = TYPES[exp_name].unit if exp_name in ("f16", "bf16") else 0.0
    scaled = str(parameters.get("scaled_q_dtype", "none"))
    score = TYPES[str(parameters.get("score_dtype", "f32"))]
    return Arithmetic(
        unit=unit,
        accumulate=accumulate,
        step=int(parameters.get("accumulate_step", 8)),
        operand=operand_error,
        # ex2.approx.f32: 2 ulp over the full range (CUDA C++ Programming Guide 13, "Intrinsic Functions": __expf and
        # exp2f); an ulp is at most 2⁻²³ relative. Half-precision exponentials: 2 ulp. Double exp: 1 ulp.
        exp_unit=4.0 * narrow_exp if narrow_exp else 4.0 * unit,
        exp_argument=narrow_exp,
        scaled_query=0.0 if scaled in ("none", "f32", "f64") else TYPES[scaled].unit,
        score_type=score if score.name in ("f16", "bf16") else None,
        p_type=TYPES[p_name] if p_name in ("f16", "bf16", "tf32") else None,
    )


@dataclass(frozen=True, slots=True)
class SumError:
    """Error of a sum of products: at most relative·A + absolute."""

    relative: float
    absolute: float


def sum_error(terms: int, model: Arithmetic, extra: int = 0) -> SumError:
    """Error of a sum of `terms` products in the model's accumulator, in any order, operands' rounding not included.

    Args:
        terms: n.
        extra: further roundings of the running sum (rescaling it, say).

    Returns:
        f32, f64: c·(n + extra + 8)·u to first order, divided by 1 minus itself for the higher orders.
        f13: each step of 16 products truncates them and the running sum to 13 bits, and the result once more.
        f16: each step of `step` products rounds the sum to nearest (2⁻¹¹, below the normal range 2⁻²⁵) after
        truncating its terms to 24 bits.
    """
    count = terms + extra + _EXTRA_ADDITIONS
    if model.accumulate == "s32":
        return SumError(0.0, 0.0)
    if model.accumulate == "f13":
        return SumError(_all_orders((_F13_PER_PRODUCT * count + 17.0) * 2.0**-13), terms * 2.0**-126)
    if model.accumulate in ("f16", "parts"):
        step = model.step if model.accumulate == "f16" else _PART
        roundings = -(-terms // step) + extra + 1
        first = roundings * 2.0**-11 + count * 2.0 * U32
        return SumError(_all_orders(first), roundings * 2.0**-25)
    unit = U64 if model.accumulate == "f64" else U32
    tiny = 2.0**-1060 if model.accumulate == "f64" else 2.0**-126  # flushed products
    return SumError(_all_orders(_F32_PER_PRODUCT * count * unit), terms * tiny)


def _all_orders(first: float) -> float:
    """The bound with all higher orders, from the sum of unit errors: x / (1 - x); infinite from x = 1 on."""
    return first / (1.0 - first) if first < 1.0 else float("inf")


def oracle_error(terms: int) -> float:
    """Relative error (to A) of the float64 reference itself."""
    return (terms + 8) * U64


def operand_error(model: Arithmetic) -> float:
    """Relative error of a product whose two operands are rounded once more."""
    return 2.0 * model.operand + model.operand**2


def product_error(depth: int, model: Arithmetic, further: int = 0) -> SumError:
    """Error of a product of matrices, that of operands which are rounded once more and of the reference included.

    Args:
        depth: products of each sum.
        further: what else is added to it: C, a bias.
    """
    sums = sum_error(depth + further, model)
    return SumError(sums.relative + operand_error(model) + oracle_error(depth), sums.absolute)


def output_rounding(error: Doubles, expected: Doubles, element: ElementType) -> Doubles:
    """The bound after rounding to nearest into the output's type.

    `error` + u·(|expected| + error), or half the subnormal spacing where that is larger.
    """
    if not element.is_float:
        return np.where(error > 0, error + 0.5, 0.0)
    stored = TYPES["f32"] if element.name == "tf32" else element  # results are stored in 32 bits
    with np.errstate(invalid="ignore"):
        magnitude = np.abs(np.nan_to_num(expected, nan=0.0, posinf=0.0, neginf=0.0)) + error
        return np.asarray(error + np.maximum(stored.unit * magnitude, stored.half_subnormal))


@dataclass(frozen=True, slots=True)
class Judgement:
    """How an output is to be judged, element by element."""

    bound: Doubles  # largest |observed - expected| that rounding explains, float64, shaped as the output
    # where NaN or Inf is as good as the expected value (rows without keys); None for nowhere
    nonfinite_ok: NDArray[np.bool_] | None = None


def judged(
    errors: Mapping[str, Doubles], expected: Mapping[str, Doubles], elements: Mapping[str, ElementType]
) -> dict[str, Judgement]:
    """How outputs are to be judged whose values are off by that before they are rounded: those that a kernel has."""
    return {
        role: Judgement(output_rounding(error, expected[role], elements[role]))
        for role, error in errors.items()
        if role in elements
    }


def magnitudes(array: NDArray[Any]) -> NDArray[Any]:
    """|x|: of a float array in its own type (exact, and no larger), of integers in float64 (where |-128| fits)."""
    return np.asarray(np.abs(array.astype(np.float64) if array.dtype.kind in "iu" else array))
