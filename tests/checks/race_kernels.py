"""Kernels of one body each, and what the check `races` finds in them."""

from __future__ import annotations

import numpy as np
from cuda_checks import PRELUDE, found


def line(source: str, mark: str) -> int:
    """The line of the comment `//mark` in PRELUDE + source."""
    return next(n for n, text in enumerate((PRELUDE + source).split("\n"), 1) if text.rstrip().endswith("//" + mark))


def races(source, *arguments, **how):
    how.setdefault("block", 64)
    how.setdefault("names", ("out", "x"))
    return found("races", source, *(arguments or (np.zeros(256, np.float32),)), **how)


def kernel(body: str, parameters: str = "float* out") -> str:
    head = "int t = threadIdx.x, warp = t / 32, lane = t % 32;\n(void)warp; (void)lane;"
    return f'extern "C" __global__ void k({parameters}) {{\n{head}\n{body}\n}}\n'


RIGHT_READ = kernel("""
    __shared__ float s[64];
    s[t] = t; //W
    out[t] = s[63 - t]; //R
""")
OTHER_WARP_FLAG = """
    __shared__ float s[64];
    __shared__ int ready;
    if (t == 0) ready = 0;
    __syncthreads();
    if (warp == 0) {{
        s[lane] = lane; //W
        __syncwarp();
        {fence}
        if (lane == 0) atomicExch(&ready, 1);
    }} else {{
        while (atomicAdd(&ready, 0) == 0) {{}}
        {fence}
        __syncwarp();
        out[lane] = s[lane]; //R
    }}
"""
