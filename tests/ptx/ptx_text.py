"""Small PTX modules for the tests."""

from __future__ import annotations

from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import Instruction, PtxFunction

DECLARATIONS = """
.reg .pred p<9>; .reg .b16 h<20>; .reg .b32 r<40>; .reg .b64 d<20>; .reg .b128 q<4>; .reg .f32 f<40>; .reg .f64 g<20>;
.reg .b8 b<4>;
"""
GLOBALS = """
.shared .align 16 .b8 smem[1024];
.global .align 16 .b8 gmem[1024];
.const .align 16 .b8 cmem[64];
"""


def module(body: str, *, target: str = "sm_90a", version: str = "9.0", before: str = GLOBALS) -> str:
    """A module with one kernel `k` and registers p, h, r, d, q, f, g, b of the usual types."""
    return (
        f".version {version}\n.target {target}\n.address_size 64\n{before}\n"
        f".visible .entry k(.param .u64 arg) {{\n{DECLARATIONS}\n{body}\nEND: ret;\n}}\n"
    )


def kernel(body: str, **options: str) -> PtxFunction:
    """The parsed kernel of `module`."""
    return parse(module(body, **options)).functions["k"]


def instruction(statement: str, **options: str) -> Instruction:
    """The first instruction of a kernel with that body."""
    return kernel(statement, **options).instructions[0]
