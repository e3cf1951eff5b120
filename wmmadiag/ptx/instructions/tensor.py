"""Tensor-core instructions: wmma, mma.sync, ldmatrix and friends.

Source: PTX ISA 9.x, "Warp-Level Matrix Instructions": the register counts are those of "Matrix Fragments for WMMA" and
"Matrix Fragments for mma.m*n*k*".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from wmmadiag.ptx.instructions.form import Form, form
from wmmadiag.ptx.instructions.memory import SHARED

_LAYOUT = "row col"
_SPACES = f"global {SHARED}"
_GENERIC = {"space": "generic"}
# What a register of a fragment holds.
_REGISTER = {"f16": "f16x2", "bf16": "bf16x2", "f32": "f32", "f64": "f64", "s32": "s32"}

# shapes → element types → (registers of A, of B); and for the accumulator: type → registers.
_WMMA_AB = {
    "m16n16k16": {"f16": (8, 8), "bf16": (4, 4), "u8": (2, 2), "s8": (2, 2)},
    "m32n8k16": {"f16": (8, 8), "bf16": (8, 2), "u8": (4, 1), "s8": (4, 1)},
    "m8n32k16": {"f16": (8, 8), "bf16": (2, 8), "u8": (1, 4), "s8": (1, 4)},
    "m16n16k8": {"tf32": (4, 4)},
    "m8n8k4": {"f64": (1, 1)},
    "m8n8k32": {"u4": (1, 1), "s4": (1, 1)},
    "m8n8k128": {"b1": (1, 1)},
}
_WMMA_CD = {
    "m16n16k16": {"f16": 4, "f32": 8, "s32": 8},
    "m32n8k16": {"f16": 4, "f32": 8, "s32": 8},
    "m8n32k16": {"f16": 4, "f32": 8, "s32": 8},
    "m16n16k8": {"f32": 8},
    "m8n8k4": {"f64": 2},
    "m8n8k32": {"s32": 2},
    "m8n8k128": {"s32": 2},
}

# mma.sync: shape, types of A and of B, registers of A and B, accumulator types → registers, since.
_HALF_ACC = {"f16": 2, "f32": 4}
_INT = {2: {"s32": 2}, 4: {"s32": 4}}
_MMA = (
    ("m16n8k8", "f16", "f16", 2, 1, _HALF_ACC, "6.5 sm_75"),
    ("m16n8k16", "f16", "f16", 4, 2, _HALF_ACC, "7.0 sm_80"),
    ("m16n8k8", "bf16", "bf16", 2, 1, {"f32": 4}, "7.0 sm_80"),
    ("m16n8k16", "bf16", "bf16", 4, 2, {"f32": 4}, "7.0 sm_80"),
    ("m16n8k4", "tf32", "tf32", 2, 1, {"f32": 4}, "7.0 sm_80"),
    ("m16n8k8", "tf32", "tf32", 4, 2, {"f32": 4}, "7.0 sm_80"),
    ("m8n8k4", "f64", "f64", 1, 1, {"f64": 2}, "7.0 sm_80"),
    ("m16n8k4", "f64", "f64", 2, 1, {"f64": 4}, "7.8 sm_90"),
    ("m16n8k8", "f64", "f64", 4, 2, {"f64": 4}, "7.8 sm_90"),
    ("m16n8k16", "f64", "f64", 8, 4, {"f64": 4}, "7.8 sm_90"),
    ("m8n8k16", "u8 s8", "u8 s8", 1, 1, _INT[2], "6.5 sm_75"),
    ("m16n8k16", "u8 s8", "u8 s8", 2, 1, _INT[4], "7.0 sm_80"),
    ("m16n8k32", "u8 s8", "u8 s8", 4, 2, _INT[4], "7.0 sm_80"),
    ("m8n8k32", "u4 s4", "u4 s4", 1, 1, _INT[2], "6.5 sm_75"),
    ("m16n8k32", "u4 s4", "u4 s4", 2, 1, _INT[4], "7.0 sm_80"),
    ("m16n8k64", "u4 s4", "u4 s4", 4, 2, _INT[4], "7.0 sm_80"),
    ("m8n8k128", "b1", "b1", 1, 1, _INT[2], "7.0 sm_75"),
    ("m16n8k128", "b1", "b1", 2, 1, _INT[4], "7.0 sm_80"),
    ("m16n8k256", "b1", "b1", 4, 2, _INT[4], "7.0 sm_80"),
    ("m16n8k16", "e4m3 e5m2", "e4m3 e5m2", 2, 1, _HALF_ACC, "8.7 sm_89"),
    ("m16n8k32", "e4m3 e5m2", "e4m3 e5m2", 4, 2, _HALF_ACC, "8.4 sm_89"),
)
_WMMA_RESULT = {"bf16": "f32", "tf32": "f32", "f64": "f64"}
_WMMA_SINCE = dict.fromkeys(("bf16", "tf32", "f64"), "7.0 sm_80")
_FIXED_LAYOUT = ("u4", "s4", "b1")  # A by rows, B by columns
_F8F6F4 = "e4m3 e5m2 e3m2 e2m3 e2m1"


def _register(element: str) -> str:
    return _REGISTER.get(element, "b32")


def _wmma() -> Iterator[Form]:
    for shape, kinds in _WMMA_AB.items():
        for element, counts in kinds.items():
            for matrix, count in zip("ab", counts, strict=True):
                layout = {"a": "row", "b": "col"}[matrix] if element in _FIXED_LAYOUT else _LAYOUT
                yield form(
                    f"wmma.load.{matrix}.sync.aligned.layout.shape{{.space}}.{element} "
                    f"d:{_register(element)}*{count}, [addr], ldm?:u32",
                    op="wmma.load",
                    defaults={**_GENERIC, "matrix": matrix, "type": element},
                    layout=layout,
                    shape=shape,
                    space=_SPACES,
                    since=_WMMA_SINCE.get(element, ""),
                )
            yield from _wmma_mma(shape, element, *counts)
    for shape, accumulators in _WMMA_CD.items():
        for element, count in accumulators.items():
            for op, matrix, operands in (
                ("load", "c", f"d:{_register(element)}*{count}, [addr], ldm?:u32"),
                ("store", "d", f"[addr], c:{_register(element)}*{count}, ldm?:u32"),
            ):
                yield form(
                    f"wmma.{op}.{matrix}.sync.aligned.layout.shape{{.space}}.{element} {operands}",
                    op=f"wmma.{op}",
                    defaults={**_GENERIC, "matrix": matrix, "type": element},
                    layout=_LAYOUT,
                    shape=shape,
                    space=_SPACES,
                    since="7.0 sm_80" if shape in ("m16n16k8", "m8n8k4") else "",
                )


def _wmma_mma(shape: str, element: str, a: int, b: int) -> Iterator[Form]:
    sources = f"a:{_register(element)}*{a}, b:{_register(element)}*{b}"
    counts = _WMMA_CD[shape]
    row_col = element in _FIXED_LAYOUT
    choices = {"alayout": "row" if row_col else _LAYOUT, "blayout": "col" if row_col else _LAYOUT, "shape": shape}
    if element == "f16":  # the only one without the types of A and B, and with C and D of two types
        for dtype, ctype in product(("f16", "f32"), repeat=2):
            yield form(
                "wmma.mma.sync.aligned.alayout.blayout.shape.dtype.ctype "
                f"d:{_register(dtype)}*{counts[dtype]}, {sources}, c:{_register(ctype)}*{counts[ctype]}",
                op="wmma.mma",
                defaults={"atype": "f16", "btype": "f16"},
                dtype=dtype,
                ctype=ctype,
                slots=choices,
            )
        return
    dtype = _WMMA_RESULT.get(element, "s32")
    result = f"{_register(dtype)}*{counts[dtype]}"
    head, tail, defaults = "wmma.mma.sync.aligned", "", {}
    if element == "f64":
        tail, choices["rounding"], defaults["rounding"] = "{.rounding}", "rn rz rm rp", "rn"
    elif element == "b1":
        head, choices["bitop"] = "wmma.mma.bitop.popc.sync.aligned", "xor and"
    elif dtype == "s32":
        tail = "{.satfinite}"
    yield form(
        f"{head}.alayout.blayout.shape.dtype.atype.btype.ctype{tail} d:{result}, {sources}, c:{result}",
        op="wmma.mma",
        defaults=defaults,
        dtype=dtype,
        atype=element,
        btype=element,
        ctype=dtype,
        slots=choices,
        since=_WMMA_SINCE.get(element, ""),
    )


def _mma() -> Iterator[Form]:
    for shape, atype, btype, a, b, accumulators, since in _MMA:
        element = atype.split()[0]
        sources = f"a:{_register(element)}*{a}, b:{_register(element)}*{b}"
        for dtype, d in accumulators.items():
            tail, choices = "", {"shape": shape}
            defaults = {"alayout": "row", "blayout": "col"}
            if element == "f64":
                tail, choices["rounding"], defaults["rounding"] = "{.rounding}", "rn rz rm rp", "rn"
            elif element == "b1":
                tail, choices["bitop"] = ".bitop.popc", "xor and"
            elif dtype == "s32":
                tail = "{.satfinite}"
            yield form(
                f"mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype{tail} "
                f"d:{_register(dtype)}*{d}, {sources}, c:{_register(dtype)}*{d}",
                op="mma",
                defaults=defaults,
                dtype=dtype,
                atype=atype,
                btype=btype,
                ctype=dtype,
                slots=choices,
                since=since,
            )
    # Volta's quad-pair shape; later architectures run it in software.
    for (dtype, d), (ctype, c) in ((("f16", 4), ("f16", 4)), (("f32", 8), ("f16", 4)), (("f32", 8), ("f32", 8))):
        yield form(
            "mma.sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype "
            f"d:{_register(dtype)}*{d}, a:f16x2*2, b:f16x2*2, c:{_register(ctype)}*{c}",
            op="mma",
            shape="m8n8k4",
            alayout=_LAYOUT,
            blayout=_LAYOUT,
            dtype=dtype,
            atype="f16",
            btype="f16",
            ctype=ctype,
            since="6.4 sm_70",
        )
    # Dense 8-, 6- and 4-bit floats of sm_120a.
    for dtype, d in _HALF_ACC.items():
        yield form(
            "mma.sync.aligned.shape.row.col.kind::f8f6f4.dtype.atype.btype.ctype "
            f"d:{_register(dtype)}*{d}, a:b32*4, b:b32*2, c:{_register(dtype)}*{d}",
            op="mma",
            defaults={"alayout": "row", "blayout": "col", "kind": "f8f6f4"},
            shape="m16n8k32",
            dtype=dtype,
            atype=_F8F6F4,
            btype=_F8F6F4,
            ctype=dtype,
            since="8.7 sm_120",
        )


ROWS = (
    *_wmma(),
    *_mma(),
    form(
        "ldmatrix.sync.aligned.shape.num{.trans}{.space}.type d:b32*num, [addr]",
        op="ldmatrix",
        defaults=_GENERIC,
        shape="m8n8",
        num="x1 x2 x4",
        space=SHARED,
        type="b16",
        since="6.5 sm_75",
    ),
    form(
        "ldmatrix.sync.aligned.shape.num.trans{.space}.type d:b32*2, [addr]",
        op="ldmatrix",
        defaults={**_GENERIC, "trans": "1"},
        shape="m16n16",
        num="x1",
        space=SHARED,
        type="b8",
        since="8.6 sm_100",
    ),
    form(
        "ldmatrix.sync.aligned.shape.num.trans{.space}.type d:b32*4, [addr]",
        op="ldmatrix",
        defaults={**_GENERIC, "trans": "1"},
        shape="m16n16",
        num="x2",
        space=SHARED,
        type="b8",
        since="8.6 sm_100",
    ),
    form(
        "stmatrix.sync.aligned.shape.num{.trans}{.space}.type [addr], b:b32*num",
        op="stmatrix",
        defaults=_GENERIC,
        shape="m8n8",
        num="x1 x2 x4",
        space=SHARED,
        type="b16",
        since="7.8 sm_90",
    ),
    form(
        "stmatrix.sync.aligned.shape.num.trans{.space}.type [addr], b:b32*num",
        op="stmatrix",
        defaults={**_GENERIC, "trans": "1"},
        shape="m16n8",
        num="x1 x2 x4",
        space=SHARED,
        type="b8",
        since="8.6 sm_100",
    ),
    form(
        "movmatrix.sync.aligned.shape.trans.type d:b32, a:b32",
        op="movmatrix",
        defaults={"trans": "1"},
        shape="m8n8",
        type="b16",
        since="7.8 sm_75",
    ),
)
