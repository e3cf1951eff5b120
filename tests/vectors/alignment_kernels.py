"""The kernels that show how `wmma.load` and `wmma.store` treat misaligned bases and odd leading dimensions.

One launch of one warp loads or stores one fragment at byte `off` of a 16 KiB buffer, with leading dimension `ldm`;
the answer is the MD5 of the registers (load) or of the buffer afterwards (store), or "misaligned". The same PTX runs
on a GPU, to record, and on the emulator, to compare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.fragments import ELEMENT_BITS, wmma_map, wmma_shapes
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape

BUFFER_BYTES = 16384
STEPS = (32, 16, 8, 4, 2, 1)
_ARCH = "sm_90"
_COPIED_TYPES = {"u8": "s8", "u4": "s4"}  # loaded exactly like their signed twins


@dataclass(frozen=True)
class Job:
    """One fragment move: kind "load" or "store", matrix, shape, type, layout, space."""

    kind: str
    matrix: str
    shape: str
    type: str
    layout: str
    space: str

    @property
    def key(self) -> str:
        """Its key in the recorded file."""
        return f"{self.kind} {self.matrix} {self.shape} {self.type} {self.layout} {self.space}"

    @property
    def width(self) -> int:
        """The tight leading dimension, in elements."""
        m, n, k = parse_shape(self.shape)
        rows, columns = {"a": (m, k), "b": (k, n)}.get(self.matrix, (m, n))
        return columns if self.layout == "row" else rows


def jobs() -> Iterator[Job]:
    """Every fragment that wmma moves on sm_90."""
    known = set(wmma_shapes(_ARCH))
    seen = set()
    for form in FORMS:
        if form.instruction != "wmma":
            continue
        operands = [(m, t) for t in form.a if (form.shape, t) in known and t not in _COPIED_TYPES for m in "ab"]
        accumulators = [(m, t) for pair in form.cd for t in pair for m in "cd"]
        for matrix, type_ in [*operands, *accumulators]:
            for layout in ("row", "col"):
                if type_ in ("s4", "b1") and layout != ("row" if matrix == "a" else "col"):
                    continue
                for space in ("global", "shared"):
                    job = Job("store" if matrix == "d" else "load", matrix, form.shape, type_, layout, space)
                    if job not in seen:
                        seen.add(job)
                        yield job


def attempts(job: Job) -> Iterator[tuple[str, int, int]]:
    """(name, off, ldm) of each launch of a job: falling offsets, then falling excess of the leading dimension."""
    bits = ELEMENT_BITS[job.type]
    for step in STEPS:
        if 8 * step >= bits:
            yield f"off{step}", step, job.width
    for step in STEPS:
        if 8 * step >= bits:
            yield f"ldm+{step}B", 0, job.width + 8 * step // bits


def buffer() -> NDArray[np.uint8]:
    """What the buffer holds before a launch."""
    return np.random.default_rng(0).integers(0, 256, BUFFER_BYTES, dtype=np.uint8)


def answer(output: NDArray[np.uint8]) -> str:
    """The recorded form of an output."""
    return hashlib.md5(output.tobytes(), usedforsecurity=False).hexdigest()[:8]


def ptx(job: Job) -> str:
    """A kernel `k(buffer, output, off, ldm)`."""
    count = wmma_map(job.shape, job.matrix, job.type, _ARCH).registers
    width = 8 if job.type == "f64" else 4
    register = {"f64": "f64", "f32": "f32"}.get(job.type, "b32")
    values = ", ".join(f"%v{i}" for i in range(count))
    where = f"{job.layout}.{job.shape}.{job.space}.{job.type}"
    to_register = {"f64": "cvt.rn.f64.u32", "f32": "cvt.rn.f32.u32"}.get(job.type, "mov.b32")
    body = (
        [_copy("IN", "ld.global.u32 %r2, [%src];", "st.shared.u32 [%sm], %r2;", "%in")] if job.space == "shared" else []
    )
    if job.space == "shared":
        body += ["mov.u32 %r5, tile; add.u32 %r5, %r5, %off; cvt.u64.u32 %at, %r5;"]
    else:
        body += ["cvt.u64.u32 %at, %off; add.s64 %at, %in, %at;"]
    body += ["mov.u32 %r6, %tid.x;"]
    if job.kind == "load":
        body += [f"wmma.load.{job.matrix}.sync.aligned.{where} {{{values}}}, [%at], %ldm;"]
        body += [f"mul.wide.u32 %d, %r6, {count * width}; add.s64 %d, %out, %d;"]
        body += [f"st.global.b{8 * width} [%d+{i * width}], %v{i};" for i in range(count)]
    else:
        for i in range(count):
            body += [f"shl.b32 %r7, %r6, 4; add.u32 %r7, %r7, {i}; {to_register} %v{i}, %r7;"]
        body += [f"wmma.store.d.sync.aligned.{where} [%at], {{{values}}}, %ldm;", "bar.sync 0;"]
        read = "ld.shared.u32 %r2, [%sm];" if job.space == "shared" else "ld.global.u32 %r2, [%src];"
        body += [_copy("OUT", read, "st.global.u32 [%dst], %r2;", "%in")]
    lines = "\n    ".join(body)
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p_in, .param .u64 p_out, .param .u32 p_off, .param .u32 p_ldm)
{{
    .reg .pred %p;
    .reg .b32 %r<8>, %off, %ldm, %sm;
    .reg .b64 %in, %out, %at, %d, %src, %dst;
    .reg .{register} %v<{count}>;
    .shared .align 1024 .b8 tile[{BUFFER_BYTES}];
    ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out]; ld.param.u32 %off, [p_off]; ld.param.u32 %ldm, [p_ldm];
    {lines}
    ret;
}}
"""


def _copy(label: str, read: str, write: str, source: str) -> str:
    """A loop of the warp over the buffer's words."""
    return f"""mov.u32 %r1, %tid.x;
{label}: mul.wide.u32 %d, %r1, 4; add.s64 %src, {source}, %d; add.s64 %dst, %out, %d;
    shl.b32 %r3, %r1, 2; mov.u32 %sm, tile; add.u32 %sm, %sm, %r3;
    {read} {write}
    add.u32 %r1, %r1, 32; setp.lt.u32 %p, %r1, {BUFFER_BYTES // 4}; @%p bra {label};
    bar.sync 0;"""
