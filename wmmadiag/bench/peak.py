"""What `mma.sync` can reach on a device, measured: the ceiling of any WMMA kernel there.

(Hopper's `wgmma` and Blackwell's `tcgen05` go further, and no WMMA kernel can use them.)
"""

from __future__ import annotations

import functools
import statistics

import numpy as np

from wmmadiag.gpu import Device, GpuKernel, GpuOptions
from wmmadiag.launch import Launch

# operand type → shape, registers of A, B and C, instruction's types, C's register
_FORMS = {
    "f16": ("m16n8k16", 4, 2, 4, "f32.f16.f16.f32", "f"),
    "bf16": ("m16n8k16", 4, 2, 4, "f32.bf16.bf16.f32", "f"),
    "tf32": ("m16n8k8", 4, 2, 4, "f32.tf32.tf32.f32", "f"),
    "f32": ("m16n8k8", 4, 2, 4, "f32.tf32.tf32.f32", "f"),
    "s8": ("m16n8k32", 4, 2, 4, "s32.s8.s8.s32", "r"),
    "u8": ("m16n8k32", 4, 2, 4, "s32.u8.u8.s32", "r"),
    "f64": ("m8n8k4", 1, 1, 2, "f64.f64.f64.f64", "fd"),
}
_CHAINS = 8  # independent sums per warp, enough to hide an instruction's latency
_TURNS = 512
_WARPS = 8


@functools.cache
def measured_peak(device: Device, element: str) -> float:
    """Operations per second of `mma.sync` on operands of a type; 0.0 if there is no such instruction.

    Operands are random, since a chip may run faster on zeros.
    """
    if element not in _FORMS:
        return 0.0
    shape = _FORMS[element][0]
    m, n, k = (int(text) for text in shape.replace("m", "").replace("n", " ").replace("k", " ").split())
    kernel = GpuKernel(peak_ptx(element), "peak", device, GpuOptions(device.index))
    blocks = 4 * device.multiprocessors
    data = np.random.default_rng(0).standard_normal(1 << 12).astype(np.float16).view(np.uint8)
    out = np.zeros(blocks * _WARPS * 32, np.float64)
    timing = kernel.time(Launch((blocks, 1, 1), (32 * _WARPS, 1, 1), [data, out]), warm_up=3, repeats=9)
    return 2.0 * m * n * k * _CHAINS * _TURNS * _WARPS * blocks / statistics.median(timing.seconds)


def peak_ptx(element: str) -> str:
    """A kernel that does nothing but multiply: `_CHAINS` sums per warp, `_TURNS` times."""
    shape, na, nb, nc, types, kind = _FORMS[element]
    bits = "f64" if element == "f64" else "b32"
    sums = {"f": "f32", "r": "b32", "fd": "f64"}[kind]
    lines = [
        ".version 7.8", ".target sm_80", ".address_size 64", ".visible .entry peak(.param .u64 from, .param .u64 to)",
        "{", ".reg .b64 %p, %q; .reg .b32 %i, %n, %t; .reg .pred %more;",
        f".reg .{bits} %a<{na}>; .reg .{bits} %b<{nb}>;",
        f".reg .{sums} %c<{_CHAINS * nc}>; .reg .{sums} %s;", "ld.param.u64 %p, [from]; ld.param.u64 %q, [to];",
        "mov.u32 %i, %tid.x; and.b32 %i, %i, 31; mad.wide.u32 %p, %i, 64, %p;",
    ]  # fmt: skip
    size = 8 if element == "f64" else 4
    lines += [f"ld.global.{bits} %a{x}, [%p+{size * x}];" for x in range(na)]
    lines += [f"ld.global.{bits} %b{x}, [%p+{size * (na + x)}];" for x in range(nb)]
    zero = {"f32": "0f00000000", "b32": "0", "f64": "0d0000000000000000"}[sums]
    lines += [f"mov.{sums} %c{x}, {zero};" for x in range(_CHAINS * nc)]
    lines += [f"mov.u32 %n, {_TURNS};", "$loop:"]
    opcode = f"mma.sync.aligned.{shape}.row.col.{types}"
    for chain in range(_CHAINS):
        c = _list([f"%c{chain * nc + x}" for x in range(nc)])
        a, b = _list([f"%a{x}" for x in range(na)]), _list([f"%b{x}" for x in range(nb)])
        lines.append(f"{opcode} {c}, {a}, {b}, {c};")
    lines += ["sub.u32 %n, %n, 1; setp.ne.u32 %more, %n, 0; @%more bra $loop;", f"mov.{sums} %s, %c0;"]
    add = {"f32": "add.rn.f32", "b32": "add.u32", "f64": "add.rn.f64"}[sums]
    lines += [f"{add} %s, %s, %c{x};" for x in range(1, _CHAINS * nc)]
    lines += [
        "mov.u32 %t, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %t, %t, %n, %i;",
        f"mad.wide.u32 %q, %t, 8, %q; st.global.{sums} [%q], %s;", "ret;", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _list(registers: list[str]) -> str:
    return "{" + ", ".join(registers) + "}"
