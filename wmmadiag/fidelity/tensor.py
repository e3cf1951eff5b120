"""Cases of tensor-core instructions: one kernel per form, operands in registers, one row per kind of operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.fidelity.lane_operands import drawing
from wmmadiag.fidelity.tensor_operands import BYTES, CASES, DTYPES, operands
from wmmadiag.fragments import FragmentMap, mma_map, wmma_map
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape

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


def from_registers(map_: FragmentMap, words: Array) -> Array:
    """Elements [n, 32, elements] of registers [n, registers, 32]."""
    shifts = np.arange(map_.per_register, dtype=np.uint64) * np.uint64(map_.element_bits)
    mask = np.uint64(2**map_.element_bits - 1)
    split = (words.astype(np.uint64).transpose(0, 2, 1)[..., None] >> shifts) & mask
    return split.reshape(len(words), 32, map_.elements)


def to_matrices(map_: FragmentMap, words: Array, dtype: Any) -> Array:
    """Matrices [n, tiles, rows, columns] of registers."""
    elements = from_registers(map_, words)
    out = np.zeros((len(words), map_.tiles, *map_.shape), dtype=dtype)
    out[:, map_.tile, map_.row, map_.col] = elements.astype(dtype)
    return out
