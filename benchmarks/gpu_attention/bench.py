"""Times kernels/attention_fused on this machine's GPU against PyTorch's scaled_dot_product_attention.

    python benchmarks/gpu_attention/bench.py            # the launch shape that `launch_shape` picks
    python benchmarks/gpu_attention/bench.py --sweep    # every launch shape that fits; the fastest is marked

Needs an NVIDIA GPU (sm_80 or newer), nvcc, and the packages torch and cuda-bindings. Every version is compared with
float32 attention on the same inputs before it is timed. Times are medians over replays of a CUDA graph that holds a
series of launches back to back, so that they are the GPU's own and not the launches'.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cuda.bindings import driver
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

SOURCE = Path(__file__).parents[2] / "kernels" / "attention_fused" / "kernel.cu"
LAUNCHES = 20  # per graph
REPLAYS = 50
WARM_UP = 5

# What half output, half P and f32 sums leave of error on standard normal inputs, with a margin; a wrong element of
# attention is off by 0.01 and more.
TOLERANCE = 2e-3


@dataclass(frozen=True)
class Problem:
    """One attention: batch, heads, sequence length, head dimension, mask."""

    batch: int
    heads: int
    length: int
    dim: int
    causal: bool

    @property
    def flops(self) -> float:
        """Of the two products; half of them where the mask is causal."""
        return 4.0 * self.batch * self.heads * self.length**2 * self.dim * (0.5 if self.causal else 1.0)

    def __str__(self) -> str:
        return f"B={self.batch} H={self.heads} S={self.length} D={self.dim}{' causal' if self.causal else ''}"


@dataclass(frozen=True)
class Shape:
    """The macros that shape a launch."""

    row_tiles: int
    block_n: int
    warps: int

    @property
    def block_m(self) -> int:
        return 16 * self.row_tiles * self.warps

    def shared_bytes(self, dim: int) -> int:
        return 2 * dim * (self.block_m + 4 * self.block_n)

    def __str__(self) -> str:
        return f"ROW_TILES={self.row_tiles} BLOCK_N={self.block_n} WARPS={self.warps}"


PROBLEMS = (
    Problem(2, 8, 512, 64, False),
    Problem(2, 8, 512, 64, True),
    Problem(4, 16, 2048, 64, False),
    Problem(4, 16, 2048, 64, True),
    Problem(4, 16, 2048, 128, False),
    Problem(4, 16, 2048, 128, True),
)
SHAPES = tuple(Shape(*choice) for choice in itertools.product((1, 2), (32, 64, 128), (4, 8)))


def launch_shape(problem: Problem, multiprocessors: int) -> Shape:
    """32 rows per warp where that still gives every multiprocessor two blocks; else 16, and fewer, longer steps."""
    large = Shape(2, 64, 4)
    blocks = problem.batch * problem.heads * math.ceil(problem.length / large.block_m)
    return large if blocks >= 2 * multiprocessors else Shape(1, 128, 4)


def call(result: tuple[Any, ...]) -> Any:
    """The value of a driver call, or an exit with its error."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"CUDA driver: {status.name}")
    return values[0] if values else None


def build(problem: Problem, shape: Shape, folder: Path) -> bytes:
    """The cubin for this GPU."""
    major, minor = torch.cuda.get_device_capability()
    macros = {
        "HEAD_DIM": problem.dim,
        "CAUSAL": int(problem.causal),
        "ROW_TILES": shape.row_tiles,
        "BLOCK_N": shape.block_n,
        "WARPS": shape.warps,
    }
    cubin = folder / ("_".join(str(value) for value in macros.values()) + ".cubin")
    if not cubin.exists():
        command = ["nvcc", "-cubin", f"-arch=sm_{major}{minor}", "-o", str(cubin), str(SOURCE)]
        subprocess.run([*command, *(f"-D{name}={value}" for name, value in macros.items())], check=True)
    return cubin.read_bytes()


def launcher(
    cubin: bytes, problem: Problem, shape: Shape, tensors: tuple[torch.Tensor, ...]
) -> Callable[[], torch.Tensor]:
    """A function that launches the kernel on torch's current stream and returns its output."""
    module = call(driver.cuModuleLoadData(cubin))
    kernel = call(driver.cuModuleGetFunction(module, b"attention_fused"))
    shared = shape.shared_bytes(problem.dim)
    opt_in = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    call(driver.cuFuncSetAttribute(kernel, opt_in, shared))
    output = torch.full_like(tensors[0], math.nan)
    values = (*(t.data_ptr() for t in (*tensors, output)), problem.length, 1.0 / math.sqrt(problem.dim))
    types = (*(ctypes.c_void_p,) * 4, ctypes.c_int, ctypes.c_float)
    grid = (math.ceil(problem.length / shape.block_m), problem.batch * problem.heads, 1)

    def launch() -> torch.Tensor:
        stream = torch.cuda.current_stream().cuda_stream
        call(driver.cuLaunchKernel(kernel, *grid, 32 * shape.warps, 1, 1, shared, stream, (values, types), 0))
        return output

    return launch


def microseconds(function: Callable[[], object]) -> float:
    """Median time of one call on the GPU."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            function()
    times = []
    for replay in range(WARM_UP + REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        if replay >= WARM_UP:
            times.append(start.elapsed_time(end) * 1000.0 / LAUNCHES)
    return statistics.median(times)


def reference(problem: Problem, tensors: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """Attention in float32, by plain matrix products (tf32 off)."""
    q, k, v = (t.float() for t in tensors)
    scores = q @ k.transpose(-1, -2) / math.sqrt(problem.dim)
    if problem.causal:
        hidden = torch.ones(problem.length, problem.length, dtype=torch.bool, device=q.device).triu(1)
        scores.masked_fill_(hidden, -math.inf)
    return scores.softmax(-1) @ v


def torch_versions(problem: Problem, tensors: tuple[torch.Tensor, ...]) -> Iterator[tuple[str, float]]:
    """(name, microseconds) of torch's own choice and of each fused backend that takes the problem."""
    yield "torch SDPA, its choice", microseconds(lambda: sdpa(*tensors, is_causal=problem.causal))
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                yield f"torch SDPA, {name}", microseconds(lambda: sdpa(*tensors, is_causal=problem.causal))
        except RuntimeError as error:
            print(f"torch SDPA, {name}: not available here ({str(error).splitlines()[0]})", file=sys.stderr)


def line(name: str, time: float, problem: Problem, base: float) -> str:
    return f"| {name} | {time:.1f} | {problem.flops / time * 1e-6:.0f} | {time / base:.2f} |"


def run(problem: Problem, shapes: tuple[Shape, ...], folder: Path) -> bool:
    """Check and time one problem; False if a version is wrong."""
    torch.manual_seed(0)
    extent = (problem.batch, problem.heads, problem.length, problem.dim)
    tensors = tuple(torch.randn(extent, device="cuda", dtype=torch.float16) for _ in range(3))
    expected = reference(problem, tensors)
    limit = torch.cuda.get_device_properties(0).shared_memory_per_block_optin
    print(f"\n{problem}\n\n| version | µs | TFLOP/s | times SDPA |\n|---|---|---|---|")
    base = 0.0
    for name, time in torch_versions(problem, tensors):
        base = base or time
        print(line(name, time, problem, base), flush=True)
    right = True
    timed: list[tuple[float, Shape]] = []
    for shape in shapes:
        if shape.shared_bytes(problem.dim) > limit:
            continue
        launch = launcher(build(problem, shape, folder), problem, shape, tensors)
        error = (launch().float() - expected).abs().max().item()
        if not error < TOLERANCE:
            print(f"| attention_fused {shape} | wrong by up to {error:.2e} | | |")
            right = False
            continue
        timed.append((microseconds(launch), shape))
        print(line(f"attention_fused {shape}, off by at most {error:.1e}", timed[-1][0], problem, base), flush=True)
    if len(shapes) > 1 and timed:
        print(f"\nfastest: {min(timed, key=lambda entry: entry[0])[1]}")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true", help="try every launch shape")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or shutil.which("nvcc") is None:
        raise SystemExit("this needs a GPU that torch can use, and nvcc on the PATH")
    torch.zeros(1, device="cuda")  # torch's context becomes the current one
    device = torch.cuda.get_device_properties(0)
    print(f"{device.name}, torch {torch.__version__}, {REPLAYS} replays of {LAUNCHES} launches, medians")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = [
            (problem, SHAPES if arguments.sweep else (launch_shape(problem, device.multi_processor_count),))
            for problem in PROBLEMS
        ]
        jobs = {(p.dim, p.causal, s): (p, s) for p, shapes in plan for s in shapes}
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda job: build(*job, folder), jobs.values()))
        results = [run(problem, shapes, folder) for problem, shapes in plan]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
