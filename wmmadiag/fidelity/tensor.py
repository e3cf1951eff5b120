"""Cases of tensor-core instructions: one kernel per form, operands in registers, one row per kind of operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.fidelity.lane_operands import drawing
from wmmadiag.fragments import FragmentMap, mma_map, wmma_map
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape

Bits = np.ndarray[Any, Any]

# (exponent bits, fraction bits) of the operand formats
FIELDS = {
    "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23), "f64": (11, 52),
    "e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1),
}  # fmt: skip
INTEGER_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}
SMALL = ("e3m2", "e2m3", "e2m1")
DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
BYTES = {"f64": 8, "f32": 4, "tf32": 4, "s32": 4, "f16": 2, "bf16": 2}

CASES = ("spread", "tiny", "special", "cancel", "any")
"""spread: over 2^-14 … 2^8; tiny: near the subnormals, half of C zero; special: with Inf, NaN and largest numbers;
cancel: ±0 and ±1 only, so that sums are often zero; any: all codes alike (integers: C at the ends of s32)."""


def bits_of(rng: np.random.Generator, shape: tuple[int, ...], name: str, case: str) -> Bits:
    """Random bit patterns of a type, one element in each unsigned integer."""
    dtype = DTYPES[BYTES.get(name, 1)]
    if name in INTEGER_BITS:
        codes = rng.integers(0, 2 ** INTEGER_BITS[name], shape, dtype=np.uint64)
        if name == "s32" and case == "any":
            codes = np.uint64(0x7FFFFFF0) + rng.integers(0, 32, shape, dtype=np.uint64)
        elif name == "s32":
            codes = codes >> np.uint64(12)
        return codes.astype(dtype)
    exponent_bits, fraction_bits = FIELDS[name]
    top = 2**exponent_bits - 1
    bias = top // 2
    sign = rng.integers(0, 2, shape).astype(np.uint64)
    if case == "cancel":
        magnitude = np.where(rng.random(shape) < 0.5, 0, bias << fraction_bits).astype(np.uint64)
    else:
        low, high = {
            "spread": (max(0, bias - 14), min(top - 1, bias + 8)),
            "tiny": (0, min(top - 1, 6)),
            "special": (max(0, bias - 3), min(top - 1, bias + 3)),
            "any": (0, top),
        }[case]
        exponent = rng.integers(low, high, shape, endpoint=True).astype(np.uint64)
        fraction = rng.integers(0, 2**fraction_bits, shape, dtype=np.uint64)
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
    return bits.astype(dtype)


def operands(
    rng: np.random.Generator,
    mnk: tuple[int, int, int],
    types: tuple[str, str, str],
    case: str,
    many: tuple[int, ...] = (),
) -> tuple[Bits, Bits, Bits]:
    """A [*many, m, k], B [*many, k, n] and C [*many, m, n]."""
    m, n, k = mnk
    a, b, c = (bits_of(rng, (*many, *s), t, case) for s, t in zip(((m, k), (k, n), (m, n)), types, strict=True))
    if case == "tiny":
        c[..., : m // 2, :] = 0
    return a, b, c


_BIT_OPS = {"": "", "xor_popc": ".xor.popc", "and_popc": ".and.popc"}
TILES = 64


@dataclass(frozen=True, slots=True)
class TensorForm:
    """One instruction."""

    opcode: str
    key: str  # as records and reports name it; opcode: as PTX writes it
    mnk: tuple[int, int, int]  # shape; types: of A, B, C and D; maps: which elements lanes hold of each
    types: tuple[str, str, str, str]
    maps: tuple[FragmentMap, FragmentMap, FragmentMap, FragmentMap]

    @property
    def cases(self) -> tuple[str, ...]:
        """Kinds of operands that it is tried with."""
        return ("spread", "any") if self.types[3] == "s32" else CASES

    @property
    def outputs(self) -> int:
        """Elements of D of one warp."""
        m, n, _ = self.mnk
        return m * n * self.maps[3].tiles


@cache
def tensor_forms(arch: str) -> Mapping[str, TensorForm]:
    """Every form that an architecture has, by key."""
    return {form.key: form for form in _forms(arch)}


def _forms(arch: str) -> Iterator[TensorForm]:
    target = architecture(arch)
    for form in FORMS:
        if not form.available(target) or form.family:
            continue
        for a, b in [(one, other) for one in form.a for other in (form.a if form.mixed else (one,))]:
            for c, d in form.cd:
                for bit_op in form.bit_ops:
                    for saturated in ("", ".satfinite") if d == "s32" and a != "b1" else ("",):
                        quads = form.instruction == "mma" and form.shape == "m8n8k4" and a == "f16"
                        for layout in ("row.col", "col.row") if quads else ("row.col",):
                            yield _form(
                                arch, form.instruction, form.shape, (a, b, c, d), layout, bit_op, saturated, quads
                            )


def _form(
    arch: str, instruction: str, shape: str, types: tuple[str, str, str, str], layout: str, bit_op: str,
    saturated: str, quads: bool,
) -> TensorForm:  # fmt: skip
    a, b, c, d = types
    popc = _BIT_OPS[bit_op]
    if instruction == "mma":
        opcode = f"mma.sync.aligned.{shape}.{layout}{saturated}.{d}.{a}.{b}.{c}{popc}"
        la, lb = layout.split(".") if quads else ("", "")
        maps = (mma_map(shape, "a", a, la), mma_map(shape, "b", b, lb), mma_map(shape, "c", c), mma_map(shape, "d", d))
    else:
        kinds = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
        rounding = ".rn" if a == "f64" else ""
        opcode = f"wmma.mma{popc}.sync.aligned.{layout}.{shape}{rounding}.{kinds}{saturated}"
        maps = tuple(wmma_map(shape, m, t, arch) for m, t in zip("abcd", types, strict=True))  # type: ignore[assignment]
    key = f"{instruction}/{shape}/{d}.{a}.{b}.{c}{saturated}{popc}" + (f".{layout}" if quads else "")
    return TensorForm(opcode, key, parse_shape(shape), types, maps)


def tensor_case(arch: str, key: str, seed: int = 0, tiles: int = TILES) -> FidelityCase:
    """One form on `tiles` warps' operands of each kind.

    Inputs are registers, uint32 or uint64 [kind, tile, register, lane]; a row of the output is a kind of operands, an
    element of D each.
    """
    form = tensor_forms(arch)[key]
    rng = drawing(key, seed)
    kinds = [_registers(form, drawn_matrices(form, rng, kind, tiles)) for kind in form.cases]
    inputs = [np.concatenate([kind[role] for kind in kinds]) for role in range(3)]
    dtype = DTYPES[BYTES[form.types[3]]]
    outputs = {"d": np.zeros((len(kinds), tiles * form.outputs), dtype)}
    return FidelityCase(key, ptx_of(form, arch), inputs, outputs, form.cases, len(kinds) * tiles, 32)


def drawn_matrices(form: TensorForm, rng: np.random.Generator, kind: str, tiles: int) -> tuple[Array, Array, Array]:
    """A [tiles, copies, m, k], B [tiles, copies, k, n] and C [tiles, copies, m, n] of a kind, as bit patterns."""
    return operands(rng, form.mnk, form.types[:3], kind, (tiles, form.maps[3].tiles))


def _registers(form: TensorForm, matrices: tuple[Array, Array, Array]) -> tuple[Array, ...]:
    return tuple(to_registers(map_, matrix) for map_, matrix in zip(form.maps, matrices, strict=False))


def ptx_of(form: TensorForm, arch: str) -> str:
    """A kernel `k` (a, b, c, d): each block is a warp with its own tile; registers lie as [tile][register][lane]."""
    declared, loads, stores, fragments = [], [], [], []
    for role, map_, type_ in zip("dabc", (form.maps[3], *form.maps[:3]), (form.types[3], *form.types[:3]), strict=True):
        bits, count = map_.register_bits, map_.registers
        kind = {"f64": "f64", "f32": "f32"}.get(type_, f"b{bits}")
        declared.append(f".reg .{kind} %{role}<{count}>; .reg .b64 %p{role};")
        loads.append(
            f"ld.param.u64 %p{role}, [x_{role}]; mad.wide.u32 %p{role}, %tile, {count * 4 * bits}, %p{role}; "
            f"mad.wide.u32 %p{role}, %lane, {bits // 8}, %p{role};"
        )
        for i in range(count):
            place = f"[%p{role} + {i * 4 * bits}]"
            if role == "d":
                stores.append(f"st.global.{kind} {place}, %d{i};")
            else:
                loads.append(f"ld.global.{kind} %{role}{i}, {place};")
        fragments.append("{" + ", ".join(f"%{role}{i}" for i in range(count)) + "}")
    parameters = ", ".join(f".param .u64 x_{role}" for role in "abcd")
    return "\n".join(
        [
            f".version 8.8\n.target {arch}\n.address_size 64\n.visible .entry k({parameters})\n{{",
            ".reg .b32 %tile, %lane;", *declared,
            "mov.u32 %lane, %tid.x; mov.u32 %tile, %ctaid.x;",
            *loads, f"{form.opcode} {', '.join(fragments)};", *stores, "ret;\n}\n",
        ]
    )  # fmt: skip


def to_registers(map_: FragmentMap, tiles: Array) -> Array:
    """Registers [n, registers, 32] of matrices [n, tiles, rows, columns]."""
    elements = tiles[:, map_.tile, map_.row, map_.col]  # [n, 32, elements]
    word: Any = DTYPES[map_.register_bits // 8]
    split = elements.reshape(len(tiles), 32, map_.registers, map_.per_register)
    words = np.zeros(split.shape[:3], word)
    for part in range(map_.per_register):
        words |= split[..., part].astype(word) << word(part * map_.element_bits)
    return np.ascontiguousarray(words.transpose(0, 2, 1))
