"""How fast the emulator is, as a table: `python benchmarks/emulator.py`.

Ratios are what counts: both sides of each are timed in turn in the same run, and the medians are compared.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tabulate import tabulate

from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatorOptions, load, native
from wmmadiag.emulator.kernel import EmulatedKernel
from wmmadiag.launch import Launch

ROOT = Path(__file__).resolve().parent.parent
B, H, S, D = 2, 8, 512, 64
FUSED_SHARED = 4 * 64 * 72 * 2 + 2 * 64 * 68 * 4 + 2 * 64 * 4  # sizeof(Shared) of attention_64x64.cu

Halves = NDArray[np.float16]


def numpy_attention(q: Halves, k: Halves, v: Halves) -> NDArray[np.float32]:
    """softmax(q kᵀ / sqrt(D)) v in float32; inputs [B, H, S, D]."""
    q32, k32, v32 = (x.astype(np.float32) for x in (q, k, v))
    scores = np.matmul(q32, k32.swapaxes(-1, -2)) / np.float32(np.sqrt(D))
    scores -= scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    return np.matmul(weights, v32)


def torch_attention(q: Halves, k: Halves, v: Halves, threads: int) -> Callable[[], object] | None:
    """Torch's attention in float32 on as many CPU threads; None where torch is not installed."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    torch.set_num_threads(threads)
    q32, k32, v32 = (torch.from_numpy(x.astype(np.float32)) for x in (q, k, v))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q32, k32, v32)


def alternate(functions: Sequence[Callable[[], object]], runs: int) -> list[float]:
    """Median seconds of each function, timed in turn after one warm-up each."""
    times: list[list[float]] = [[] for _ in functions]
    for run in range(runs + 1):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            if run:
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def kernel(path: Path, entry: str, threads: int, **macros: object) -> EmulatedKernel:
    """Compile for sm_90 and load on the emulator."""
    options = CompileOptions(arch="sm_90", macros={name: str(value) for name, value in macros.items()})
    compiled = compile_source(path, options)
    return load(compiled.ptx, compiled.entry(entry).name, arch="sm_90", options=EmulatorOptions(threads=threads))


def command_seconds(arguments: Sequence[str], runs: int) -> float:
    """Median wall time of a whole process, in seconds."""
    return alternate([lambda: subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True)], runs)[0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="host threads of the emulator (default: 2)")
    parser.add_argument("--runs", type=int, default=7, help="timed runs of each function (default: 7)")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((B, H, S, D)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)
    scale = float(1 / np.sqrt(D))
    rows: list[list[str]] = []

    expected = numpy_attention(q, k, v)
    fused = kernel(ROOT / "benchmarks/attention_64x64.cu", "attention_64x64", options.threads)
    fused_launch = Launch((S // 64, B * H, 1), (128, 1, 1), [q, k, v, o, S, scale], shared_bytes=FUSED_SHARED)
    stats = fused.launch(fused_launch)
    error = float(np.abs(o - expected).max())
    in_torch = torch_attention(q, k, v, options.threads)
    sides = [lambda: numpy_attention(q, k, v), lambda: fused.launch(fused_launch), *([in_torch] if in_torch else [])]
    reference, emulated, *of_torch = alternate(sides, options.runs)
    rows.append(["float32 NumPy attention", f"{reference:.3f} s", ""])
    rows.append(
        ["emulated WMMA attention, 64×64 tiles", f"{emulated:.3f} s", f"{emulated / reference:.2f} × NumPy (bar: 2)"]
    )
    for seconds in of_torch:
        ratio = f"the emulator: {emulated / seconds:.1f} × torch (bar: 10)"
        rows.append(["torch's attention in float32", f"{seconds:.4f} s", ratio])
    rows.append(["  its largest difference from NumPy", f"{error:.1e}", ""])
    rows.append(
        [
            "  throughput",
            f"{stats.warp_instructions / emulated / 1e6:.1f} M/s",
            f"{stats.warp_instructions:,} warp instructions",
        ]
    )

    scalar = kernel(ROOT / "kernels/attention/kernel.cu", "attention", options.threads, USE_WMMA=0, HEAD_DIM=D)
    scalar_launch = Launch((S // 32, H, B), (128, 1, 1), [q, k, v, o, S, scale])
    stats = scalar.launch(scalar_launch)
    (seconds,) = alternate([lambda: scalar.launch(scalar_launch)], 3)
    rows.append(
        [
            "scalar attention, throughput",
            f"{stats.warp_instructions / seconds / 1e6:.1f} M/s",
            f"{seconds:.2f} s, {stats.warp_instructions:,} warp instructions",
        ]
    )

    quarter = Launch((S // 64, B * H // 4, 1), (128, 1, 1), [q, k, v, o, S, scale], shared_bytes=FUSED_SHARED)
    small, large = alternate([lambda: fused.launch(quarter), lambda: fused.launch(fused_launch)], options.runs)
    rows.append(["four times the blocks", f"{large / small:.2f} × the time", "4 is linear"])

    one_warp = kernel(ROOT / "benchmarks/one_warp.cu", "one_warp", options.threads)
    a, b = (rng.standard_normal((16, 16)).astype(np.float16) for _ in range(2))
    c = np.zeros((16, 16), np.float32)
    probe = Launch((1, 1, 1), (32, 1, 1), [a, b, c])
    (seconds,) = alternate([lambda: one_warp.launch(probe)], 50)
    rows.append(["one-warp probe, launch to result", f"{1e3 * seconds:.2f} ms", "bar: 5 ms"])

    command = [sys.executable, "-m", "wmmadiag"]
    rows.append(["wmmadiag --help", f"{command_seconds([*command, '--help'], 5):.2f} s", "bar: 0.2 s"])
    card = ["kernels/attention/kernel.toml", "--case", "one_tile", "--variant", "wmma"]
    check = [*command, "check", *card, "--no-cache"]
    rows.append(["wmmadiag check, one small case, nothing cached", f"{command_seconds(check, 5):.2f} s", "bar: 2 s"])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows.append(["peak memory of this process", f"{memory:.0f} MB", "bar: 500 MB"])
    print(f"emulator, {native.isa()} engine, {options.threads} threads, sm_90; B={B} H={H} S={S} D={D}")
    print(tabulate(rows, headers=["what", "measured", ""], disable_numparse=True))


if __name__ == "__main__":
    main()
