"""Records what this machine's GPU answers to every approximate instruction, on all arguments, as digests:

    python tests/vectors/record_approximations.py tests/vectors/approximation_digests_sm_90.npz
    python tests/vectors/record_approximations.py digests.npz --tabulate elsewhere/   # and what derive_… works from

Needs cuda-bindings and a GPU; takes seconds. `--tabulate` writes whole octaves of results, 32 MiB each, as
`<instruction>@<first argument>.npy`.
"""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path
from typing import Any

import numpy as np
from approximation_digests import APPROXIMATIONS, BLOCK, Approximation, Array, arguments, digest
from cuda.bindings import driver, nvrtc

# The octaves from which the tables follow (derive_approximations.py).
OCTAVES = {
    "rcp.approx.ftz.f32": (1.0,),
    "rsqrt.approx.ftz.f32": (1.0, 2.0),
    "sqrt.approx.ftz.f32": (1.0, 2.0),
    "ex2.approx.ftz.f32": (1.0,),
    "lg2.approx.ftz.f32": (2.0,),
    "sin.approx.ftz.f32": (0.0078125, 0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0),
    "cos.approx.ftz.f32": (0.5, 1.0, 2.0),
    "tanh.approx.f32": tuple(2.0**e for e in range(-8, 3)),
}
SOURCE = """
typedef unsigned long long u64;
typedef unsigned int u32;
__device__ u64 mix(u64 y, u64 i) {{
    u64 z = y * 0x9E3779B97F4A7C15ull + i * 0xD1342543DE82EF95ull;
    z ^= z >> 32;
    return z * 0xD6E8FEB86659FD93ull;
}}
extern "C" __global__ void digests(u64* sums) {{  // 8 blocks to a digest
    const u32 base = blockIdx.x << 20;
    u64 sum = 0;
    for (u32 k = threadIdx.x; k < (1u << 20); k += blockDim.x) {{
        const u32 i = base + k;
        {register} x = {argument}, y;
        asm("{text} %0, %1;" : "={letter}"(y) : "{letter}"(x));
        sum += mix({result}, i);
    }}
    atomicAdd(sums + blockIdx.x / 8, sum);
}}
"""
APPLY = """
extern "C" __global__ void apply(const {word}* a, const {word}* b, {word}* d, unsigned count) {{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) asm("{text} %0, {operands};" : "={letter}"(d[i]) : "{letter}"(a[i]), "{letter}"(b[i]));
}}
"""
WORDS = {2: ("unsigned short", "h"), 4: ("unsigned int", "r"), 8: ("unsigned long long", "l")}


def _check(result: tuple[Any, ...]) -> Any:
    if result[0].value:
        raise SystemExit(f"CUDA: {result[0].name}")
    return result[1] if len(result) == 2 else result[1:]


def _kernel(source: str, name: str, arch: str) -> Any:
    program = _check(nvrtc.nvrtcCreateProgram(source.encode(), b"record.cu", 0, [], []))
    _check(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={arch}".encode()]))
    code = bytes(_check(nvrtc.nvrtcGetCUBINSize(program)))
    _check(nvrtc.nvrtcGetCUBIN(program, code))
    return _check(driver.cuModuleGetFunction(_check(driver.cuModuleLoadData(code)), name.encode()))


def _launch(kernel: Any, grid: int, *values: int) -> None:
    cells = [np.array([value], np.uint64) for value in values]
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    _check(driver.cuLaunchKernel(kernel, grid, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0))
    _check(driver.cuCtxSynchronize())


def digest_source(one: Approximation) -> str:
    """A kernel that sums up all 2³² arguments."""
    if one.kind == "f32":
        parts = {"register": "float", "argument": "__uint_as_float(i)", "letter": "f", "result": "__float_as_uint(y)"}
    else:
        argument = "__longlong_as_double(((u64)i << 32) | (u32)(i * 0x9E3779B1u))"
        parts = {"register": "double", "argument": argument, "letter": "d", "result": "__double_as_longlong(y)"}
    return SOURCE.format(text=one.text, **parts)


def apply_source(one: Approximation, width: int) -> str:
    """A kernel that applies the instruction to arrays of words of `width` bytes."""
    word, letter = WORDS[width]
    return APPLY.format(text=one.text, word=word, letter=letter, operands="%1, %2" if one.kind == "pair" else "%1")


def applied(one: Approximation, operands: list[Array], arch: str) -> Array:
    """The instruction's results for these operands."""
    width = operands[0].itemsize
    kernel = _kernel(apply_source(one, width), "apply", arch)
    size, count = operands[0].nbytes, len(operands[0])
    buffers = [_check(driver.cuMemAlloc(size)) for _ in range(3)]
    for buffer, words in zip(buffers, (operands[0], operands[-1]), strict=False):
        _check(driver.cuMemcpyHtoD(buffer, np.ascontiguousarray(words), size))
    _launch(kernel, -(-count // 256), *(int(buffer) for buffer in buffers), count)
    results = np.empty_like(operands[0])
    _check(driver.cuMemcpyDtoH(results, buffers[2], size))
    for buffer in buffers:
        _check(driver.cuMemFree(buffer))
    return results


def recorded(one: Approximation, arch: str) -> Array:
    """The digests of all blocks."""
    if one.blocks == 1:
        return np.array([digest(applied(one, arguments(one, 0, one.count), arch), 0)], np.uint64)
    kernel = _kernel(digest_source(one), "digests", arch)
    sums = np.zeros(one.blocks, np.uint64)
    buffer = _check(driver.cuMemAlloc(sums.nbytes))
    _check(driver.cuMemcpyHtoD(buffer, sums, sums.nbytes))
    _launch(kernel, (one.blocks * BLOCK) >> 20, int(buffer))
    _check(driver.cuMemcpyDtoH(sums, buffer, sums.nbytes))
    _check(driver.cuMemFree(buffer))
    return sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tabulate", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    _check(driver.cuInit(0))
    gpu = _check(driver.cuDeviceGet(0))
    context = _check(driver.cuDevicePrimaryCtxRetain(gpu))
    _check(driver.cuCtxSetCurrent(context))
    attribute = driver.CUdevice_attribute
    major = _check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu))
    minor = _check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu))
    arch = f"sm_{major}{minor}"
    name = _check(driver.cuDeviceGetName(128, gpu)).split(b"\0")[0].decode()
    about = f"{name}, CUDA driver API {_check(driver.cuDriverGetVersion())}, {datetime.date.today()}"
    digests = {one.text: recorded(one, arch) for one in APPROXIMATIONS}
    digests["device"] = np.frombuffer(about.encode(), np.uint8)
    np.savez_compressed(options.file, allow_pickle=False, **digests)
    if options.tabulate:
        options.tabulate.mkdir(parents=True, exist_ok=True)
        for one in APPROXIMATIONS:
            for first in OCTAVES.get(one.text, ()):
                start = int(np.float32(first).view(np.uint32))
                octave = np.arange(start, start + BLOCK, dtype=np.uint32)
                np.save(options.tabulate / f"{one.text}@{first}.npy", applied(one, [octave], arch))


if __name__ == "__main__":
    main()
