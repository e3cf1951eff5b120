"""Tensor-core instructions: wmma, mma.sync, ldmatrix and friends.

`numerics.tensor_core_forms` says which shapes and types there are; registers follow from them. Source: PTX ISA 9.x,
"Warp-Level Matrix Instructions", "Matrix Fragments for WMMA" and "Matrix Fragments for mma.m*n*k*".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape
from wmmadiag.ptx.instructions.form import Form, form
from wmmadiag.ptx.instructions.memory import SHARED
from wmmadiag.ptx.types import WIDTHS

_LAYOUT = "row col"
_SPACES = f"global {SHARED}"
_GENERIC = {"space": "generic"}
# What a register of a fragment holds.
_REGISTER = {"f16": "f16x2", "bf16": "bf16x2", "f32": "f32", "f64": "f64", "s32": "s32"}

# PTX ISA versions by architecture, and of the shapes that came later than the first ones of theirs.
_VERSIONS = {75: "6.5", 80: "7.0", 89: "8.4", 90: "7.8"}
_LATER = {("m8n8k128", "b1"): "7.0", ("m16n8k16", "e4m3"): "8.7"}

_FIXED_LAYOUT = ("u4", "s4", "b1")  # A by rows, B by columns
_F8F6F4 = "e4m3 e5m2 e3m2 e2m3 e2m1"


def _register(element: str) -> str:
    return _REGISTER.get(element, "b32")


def _count(rows: int, columns: int, element: str) -> int:
    """Registers of each lane that hold a fragment: of 64 bits for f64, else of 32."""
    bits = 1 if element == "b1" else WIDTHS[element]
    return rows * columns * bits // (32 * max(bits, 32))


def _since(number: int, version: str = "") -> str:
    return f"{version or _VERSIONS[number]} sm_{number}"


def _wmma() -> Iterator[Form]:
    for shape in dict.fromkeys(one.shape for one in FORMS if one.instruction == "wmma"):
        forms = [one for one in FORMS if (one.instruction, one.shape) == ("wmma", shape)]
        m, n, k = parse_shape(shape)
        # Of f16 each half of a warp holds all of A, and of B.
        elements = {
            one.a[0]: (8, 8) if one.a[0] == "f16" else (_count(m, k, one.a[0]), _count(k, n, one.a[0])) for one in forms
        }
        accumulators = {dtype: _count(m, n, dtype) for one in forms for _, dtype in one.cd}
        for element, counts in elements.items():
            since = _since(80) if all(one.since == 80 for one in forms if one.a[0] == element) else ""
            for matrix, count in zip("ab", counts, strict=True):
                layout = {"a": "row", "b": "col"}[matrix] if element in _FIXED_LAYOUT else _LAYOUT
                yield form(f"wmma.load.{matrix}.sync.aligned.layout.shape{{.space}}.{element} "
                           f"d:{_register(element)}*{count}, [addr], ldm?:u32",
                           op="wmma.load", defaults={**_GENERIC, "matrix": matrix, "type": element}, layout=layout,
                           shape=shape, space=_SPACES, since=since)  # fmt: skip
            (dtype,) = {one.cd[0][1] for one in forms if one.a[0] == element}
            yield from _wmma_mma(shape, element, dtype, *counts, accumulators, since)
        for element, count in accumulators.items():
            for op, matrix, operands in (
                ("load", "c", f"d:{_register(element)}*{count}, [addr], ldm?:u32"),
                ("store", "d", f"[addr], c:{_register(element)}*{count}, ldm?:u32"),
            ):
                yield form(f"wmma.{op}.{matrix}.sync.aligned.layout.shape{{.space}}.{element} {operands}",
                           op=f"wmma.{op}", defaults={**_GENERIC, "matrix": matrix, "type": element}, layout=_LAYOUT,
                           shape=shape, space=_SPACES,
                           since=_since(80) if all(one.since == 80 for one in forms) else "")  # fmt: skip


def _wmma_mma(
    shape: str, element: str, dtype: str, a: int, b: int, counts: Mapping[str, int], since: str
) -> Iterator[Form]:
    sources = f"a:{_register(element)}*{a}, b:{_register(element)}*{b}"
    row_col = element in _FIXED_LAYOUT
    choices = {"alayout": "row" if row_col else _LAYOUT, "blayout": "col" if row_col else _LAYOUT, "shape": shape}
    if element == "f16":  # the only one without the types of A and B, and with C and D of two types
        for one, ctype in product(("f16", "f32"), repeat=2):
            yield form("wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype "
                       f"d:{_register(one)}*{counts[one]}, {sources}, c:{_register(ctype)}*{counts[ctype]}",
                       op="wmma.mma", defaults={"atype": "f16", "btype": "f16"}, dtype=one, ctype=ctype,
                       slots=choices)  # fmt: skip
        return
    result = f"{_register(dtype)}*{counts[dtype]}"
    head, tail, defaults = "wmma.mma.sync.aligned", "", {}
    if element == "f64":
        tail, choices["rounding"], defaults["rounding"] = "{.rounding}", "rn rz rm rp", "rn"
    elif element == "b1":
        head, choices["bitop"] = "wmma.mma.bitop.popc.sync.aligned", "xor and"
    elif dtype == "s32":
        tail = "{.satfinite}"
    yield form(f"{head}.alayout.blayout.shape.dtype.atype.btype.ctype{tail} d:{result}, {sources}, c:{result}",
               op="wmma.mma", defaults=defaults, dtype=dtype, atype=element, btype=element, ctype=dtype,
               slots=choices, since=since)  # fmt: skip


def _mma() -> Iterator[Form]:
    # m8n8k4 of f16 has a row of its own, and so have what only some chips of an architecture take.
    rows = [one for one in FORMS if one.instruction == "mma" and one.since >= 75 and not one.family]
    for shape, types in dict.fromkeys((one.shape, one.a) for one in rows):
        one = next(one for one in rows if (one.shape, one.a) == (shape, types))
        (m, n, k), element, atype = parse_shape(shape), types[0], " ".join(types)
        sources = f"a:{_register(element)}*{_count(m, k, element)}, b:{_register(element)}*{_count(k, n, element)}"
        since = _since(one.since, _LATER.get((shape, element), ""))
        for dtype in dict.fromkeys(dtype for _, dtype in one.cd):
            d = _count(m, n, dtype)
            tail, choices = "", {"shape": shape}
            defaults = {"alayout": "row", "blayout": "col"}
            if element == "f64":
                tail, choices["rounding"], defaults["rounding"] = "{.rounding}", "rn rz rm rp", "rn"
            elif element == "b1":
                tail, choices["bitop"] = ".bitop.popc", "xor and"
            elif dtype == "s32":
                tail = "{.satfinite}"
            yield form(f"mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype{tail} "
                       f"d:{_register(dtype)}*{d}, {sources}, c:{_register(dtype)}*{d}",
                       op="mma", defaults=defaults, dtype=dtype, atype=atype, btype=atype, ctype=dtype, slots=choices,
                       since=since)  # fmt: skip
    # Volta's quad-pair shape; later architectures run it in software.
    for (dtype, d), (ctype, c) in ((("f16", 4), ("f16", 4)), (("f32", 8), ("f16", 4)), (("f32", 8), ("f32", 8))):
        yield form("mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype "
                   f"d:{_register(dtype)}*{d}, a:f16x2*2, b:f16x2*2, c:{_register(ctype)}*{c}",
                   op="mma", shape="m8n8k4", alayout=_LAYOUT, blayout=_LAYOUT, dtype=dtype, atype="f16", btype="f16",
                   ctype=ctype, since="6.4 sm_70")  # fmt: skip
    # Dense 8-, 6- and 4-bit floats of sm_120a.
    for dtype, d in (("f16", 2), ("f32", 4)):
        yield form("mma.sync.aligned.shape.row.col.kind::f8f6f4.dtype.atype.btype.ctype "
                   f"d:{_register(dtype)}*{d}, a:b32*4, b:b32*2, c:{_register(dtype)}*{d}",
                   op="mma", defaults={"alayout": "row", "blayout": "col", "kind": "f8f6f4"}, shape="m16n8k32",
                   dtype=dtype, atype=_F8F6F4, btype=_F8F6F4, ctype=dtype, since="8.7 sm_120")  # fmt: skip


ROWS = (
    *_wmma(),
    *_mma(),
    form("ldmatrix.sync.aligned.shape.num{.trans}{.space}.type d:b32*num, [addr]", op="ldmatrix", defaults=_GENERIC,
         shape="m8n8", num="x1 x2 x4", space=SHARED, type="b16", since="6.5 sm_75"),
    form("ldmatrix.sync.aligned.shape.num.trans{.space}.type d:b32*2, [addr]", op="ldmatrix",
         defaults={**_GENERIC, "trans": "1"}, shape="m16n16", num="x1", space=SHARED, type="b8",
         since="8.6 sm_100"),
    form("ldmatrix.sync.aligned.shape.num.trans{.space}.type d:b32*4, [addr]", op="ldmatrix",
         defaults={**_GENERIC, "trans": "1"}, shape="m16n16", num="x2", space=SHARED, type="b8",
         since="8.6 sm_100"),
    form("stmatrix.sync.aligned.shape.num{.trans}{.space}.type [addr], b:b32*num", op="stmatrix", defaults=_GENERIC,
         shape="m8n8", num="x1 x2 x4", space=SHARED, type="b16", since="7.8 sm_90"),
    form("stmatrix.sync.aligned.shape.num.trans{.space}.type [addr], b:b32*num", op="stmatrix",
         defaults={**_GENERIC, "trans": "1"}, shape="m16n8", num="x1 x2 x4", space=SHARED, type="b8",
         since="8.6 sm_100"),
    form("movmatrix.sync.aligned.shape.trans.type d:b32, a:b32", op="movmatrix", defaults={"trans": "1"},
         shape="m8n8", type="b16", since="7.8 sm_75"),
)  # fmt: skip
