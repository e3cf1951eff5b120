"""A PTX body as a kernel, launched on arrays: what the emulator's tests are written in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel, EmulatorOptions, load
from wmmadiag.launch import Argument, Launch, RunStats

_REGISTERS = """
.reg .pred %p<32>; .reg .b16 %h<64>; .reg .b32 %r<256>; .reg .b64 %rd<64>; .reg .f32 %f<128>; .reg .f64 %fd<32>;
.reg .b128 %q<8>; .reg .b32 %tid; .reg .b32 %lane; .reg .b32 %cta; .reg .b64 %a<16>; .reg .b32 %n<16>;
.reg .b64 %to;
"""


def module(
    body: str,
    arguments: str = "p",
    *,
    target: str = "sm_90",
    globals: str = "",
    directives: str = "",
    preset: bool = True,
) -> str:
    """A PTX module with the kernel `k`.

    `arguments`: one letter each: p a pointer in %aN, i a 32-bit integer in %nN, f a float in %fN.
    Preset: %tid, %lane, %cta; %to = %a0 + 4 · (thread in the grid); registers %p, %h, %r, %rd, %f, %fd, %q, %a, %n.
    """
    types = {"p": "u64", "i": "u32", "f": "f32"}
    registers = {"p": "%a", "i": "%n", "f": "%f"}
    parameters = ", ".join(f".param .{types[letter]} x{i}" for i, letter in enumerate(arguments))
    loads = "".join(f"ld.param.{types[letter]} {registers[letter]}{i}, [x{i}];\n" for i, letter in enumerate(arguments))
    presets = (
        "mov.u32 %tid, %tid.x;\nmov.u32 %lane, %laneid;\nmov.u32 %cta, %ctaid.x;\n"
        "{ .reg .b32 %z; mov.u32 %z, %ntid.x; mad.lo.u32 %z, %z, %cta, %tid; mad.wide.u32 %to, %z, 4, %a0; }\n"
        if preset and arguments.startswith("p")
        else ""
    )
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n{globals}\n"
        f".visible .entry k({parameters}) {directives}\n{{\n{_REGISTERS}{loads}{presets}{body}\nret;\n}}\n"
    )


def kernel(
    body: str, arguments: str = "p", *, options: EmulatorOptions | None = None, arch: str = "", **how: Any
) -> EmulatedKernel:
    """The kernel `module` makes, ready to run."""
    return load(module(body, arguments, **how), "k", arch=arch, options=options or EmulatorOptions(threads=1))


def run(
    body: str,
    *arguments: Argument,
    grid: int | tuple[int, int, int] = 1,
    block: int | tuple[int, int, int] = 32,
    shared: int = 0,
    names: tuple[str, ...] = (),
    **how: Any,
) -> RunStats:
    """Launch a body on its arguments: arrays become pointers, ints .u32, floats .f32."""
    letters = "".join("p" if isinstance(a, np.ndarray) else "f" if isinstance(a, float) else "i" for a in arguments)
    shape = [(x, 1, 1) if isinstance(x, int) else x for x in (grid, block)]
    return kernel(body, letters, **how).launch(Launch(shape[0], shape[1], list(arguments), shared, names))


def result(body: str, *arguments: Argument, grid: int = 1, block: int = 32, **how: Any) -> NDArray[np.uint32]:
    """What a body that ends in `st.global.b32 [%to], x` stores, per thread."""
    out = np.zeros(grid * block, np.uint32)
    run(body, out, *arguments, grid=grid, block=block, **how)
    return out
