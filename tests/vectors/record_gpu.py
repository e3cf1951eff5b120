"""Records what this machine's GPU answers: tensor-core sums and fragment layouts, bit for bit.

    python tests/vectors/record_gpu.py tests/vectors/sm_90.npz          # one tile of each kind, to be committed
    python tests/vectors/record_gpu.py /elsewhere/many.npz --tiles 32   # more, to look further

Needs what the package does (cuda-bindings, NVRTC) and a GPU. Operands are placed in the lanes' registers by the
fragment maps, so that a wrong map shows as a wrong product; for wmma, whose maps are undocumented, `layouts/…` also
holds the (row · columns + column) that each lane's element gets from `wmma.load`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc

from wmmadiag.fidelity.lane_operands import drawing
from wmmadiag.fidelity.tensor import (
    BYTES,
    DTYPES,
    Bits,
    drawn_matrices,
    ptx_of,
    tensor_forms,
    to_registers,
)
from wmmadiag.fragments import FragmentMap, ldmatrix_map, wmma_map
from wmmadiag.gpu import GpuKernel, GpuOptions, device
from wmmadiag.launch import Launch
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core_forms import FORMS

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from native_parts import from_registers


def _word(type_: str) -> tuple[str, str]:
    """(C type, asm constraint) of a fragment's registers."""
    return {"f64": ("double", "d"), "f32": ("float", "f")}.get(type_, ("unsigned", "r"))


def load_source(index: int, shape: str, matrix: str, type_: str, layout: str, map_: FragmentMap) -> str:
    """A kernel that dumps the registers of `wmma.load` of a dense matrix, one matrix per block."""
    ctype, constraint = _word(type_)
    n, (rows, cols) = map_.registers, map_.shape
    ldm = cols if layout == "row" else rows
    size = rows * cols * map_.element_bits // 8
    registers = ", ".join(f"%{i}" for i in range(n))
    outputs = ", ".join(f'"={constraint}"(x[{i}])' for i in range(n))
    return f"""extern "C" __global__ void load{index}(const char* from, {ctype}* to) {{
  {ctype} x[{n}];
  asm volatile("wmma.load.{matrix}.sync.aligned.{layout}.{shape}.{type_} {{{registers}}}, [%{n}], {ldm};"
               : {outputs} : "l"(from + blockIdx.x * {size}) : "memory");
  for (int i = 0; i < {n}; ++i) to[(blockIdx.x * {n} + i) * 32 + threadIdx.x] = x[i];
}}
"""


LDMATRIX = """
template <bool Trans> __device__ void moved(const unsigned short* from, unsigned* to) {
  __shared__ alignas(16) unsigned short tile[256];
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = from[i];
  __syncwarp();
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x * 8)), x[4];
  if (Trans) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                          : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
  else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                    : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address) : "memory");
  for (int i = 0; i < 4; ++i) to[i * 32 + threadIdx.x] = x[i];
}
extern "C" __global__ void ldmatrix0(const unsigned short* from, unsigned* to) { moved<false>(from, to); }
extern "C" __global__ void ldmatrix1(const unsigned short* from, unsigned* to) { moved<true>(from, to); }
"""


class Gpu:
    """The first GPU, with a module compiled for it."""

    def __init__(self) -> None:
        _check(driver.cuInit(0))
        device = _check(driver.cuDeviceGet(0))
        attribute = driver.CUdevice_attribute
        major = _check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        minor = _check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
        self.arch = f"sm_{10 * major + minor}"
        context = _check(driver.cuDevicePrimaryCtxRetain(device))
        _check(driver.cuCtxSetCurrent(context))

    def load(self, text: str) -> Any:
        """Compile CUDA C++ and load it."""
        program = _check(nvrtc.nvrtcCreateProgram(text.encode(), b"vectors.cu", 0, [], []))
        options = [f"--gpu-architecture={self.arch}".encode()]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * _check(nvrtc.nvrtcGetProgramLogSize(program))
            nvrtc.nvrtcGetProgramLog(program, log)
            raise SystemExit(log.decode(errors="replace"))
        cubin = b" " * _check(nvrtc.nvrtcGetCUBINSize(program))
        nvrtc.nvrtcGetCUBIN(program, cubin)
        return _check(driver.cuModuleLoadData(cubin))

    def run(self, module: Any, name: str, grid: int, inputs: list[Bits], output: Bits) -> None:
        """Launch `name` with one warp in each of `grid` blocks; `output` is filled."""
        function = _check(driver.cuModuleGetFunction(module, name.encode()))
        pointers = []
        for array in (*inputs, output):
            pointer = _check(driver.cuMemAlloc(max(array.nbytes, 256)))
            _check(driver.cuMemcpyHtoD(pointer, array.ctypes.data, array.nbytes))
            pointers.append(pointer)
        values = [np.array([int(pointer)], dtype=np.uint64) for pointer in pointers]
        packed = np.array([value.ctypes.data for value in values], dtype=np.uint64)
        _check(driver.cuLaunchKernel(function, grid, 1, 1, 32, 1, 1, 0, 0, packed.ctypes.data, 0))
        _check(driver.cuCtxSynchronize())
        _check(driver.cuMemcpyDtoH(output.ctypes.data, pointers[-1], output.nbytes))
        for pointer in pointers:
            _check(driver.cuMemFree(pointer))


def _check(result: tuple[Any, ...]) -> Any:
    status, *values = result
    if int(status) != 0:
        raise SystemExit(f"CUDA call failed: {status!r}")
    return values[0] if len(values) == 1 else values


def to_matrices(map_: FragmentMap, words: Any, dtype: Any) -> Any:
    """Matrices [n, tiles, rows, columns] of registers."""
    elements = from_registers(map_, words)
    out = np.zeros((len(words), map_.tiles, *map_.shape), dtype=dtype)
    out[:, map_.tile, map_.row, map_.col] = elements.astype(dtype)
    return out


def record_sums(arch: str, tiles: int, arrays: dict[str, Bits]) -> None:
    """Fill `arrays` with `inputs/<key>/<a|b|c>/<kind>` [tiles, …] and `outputs/<key>/<kind>`."""
    for key, form in tensor_forms(arch).items():
        kernel = GpuKernel(ptx_of(form, arch), "k", device(), GpuOptions())
        rng = drawing(key)
        for kind in form.cases:
            matrices = drawn_matrices(form, rng, kind, tiles)
            words = [to_registers(map_, matrix) for map_, matrix in zip(form.maps, matrices, strict=False)]
            out = np.zeros((tiles, form.maps[3].registers, 32), dtype=DTYPES[form.maps[3].register_bits // 8])
            kernel.launch(Launch((tiles, 1, 1), (32, 1, 1), [*words, out]))
            for role, matrix in zip("abc", matrices, strict=True):
                arrays[f"inputs/{key}/{role}/{kind}"] = matrix
            arrays[f"outputs/{key}/{kind}"] = to_matrices(form.maps[3], out, DTYPES[BYTES[form.types[3]]])


def record_layouts(gpu: Gpu, arrays: dict[str, Bits]) -> None:
    """Fill `arrays` with `layouts/<shape>/<matrix>/<type>/<row|col>` int16 [32, elements], and ldmatrix's."""
    wanted = []
    for form in FORMS:
        if form.instruction != "wmma" or not form.available(architecture(gpu.arch)):
            continue
        for matrix in "abc":
            for type_ in form.a if matrix in "ab" else tuple(dict.fromkeys(c for c, _ in form.cd)):
                layouts = ("row", "col")
                if form.shape in ("m8n8k32", "m8n8k128") and matrix in "ab":  # sub-byte: one layout each
                    layouts = ("row",) if matrix == "a" else ("col",)
                for layout in layouts:
                    # s32 accumulators of one shape may differ by operands; one name each is enough on one chip
                    wanted.append((form.shape, matrix, type_, layout, wmma_map(form.shape, matrix, type_, gpu.arch)))
    wanted = list({(s, m, t, lay): (s, m, t, lay, f) for s, m, t, lay, f in wanted}.values())
    module = gpu.load("".join(load_source(i, *item) for i, item in enumerate(wanted)) + LDMATRIX)
    for index, (shape, matrix, type_, layout, map_) in enumerate(wanted):
        rows, cols = map_.shape
        ids = np.arange(rows * cols, dtype=np.uint64).reshape(rows, cols)
        memory = ids if layout == "row" else ids.T
        bits = min(map_.element_bits, 16)
        planes = -(-(rows * cols - 1).bit_length() // bits)
        stacked = np.stack([(memory >> np.uint64(bits * p)) & np.uint64(2**bits - 1) for p in range(planes)])
        if map_.element_bits < 8:
            flat = stacked.reshape(planes, -1)
            per = 8 // map_.element_bits
            shifts = np.arange(per, dtype=np.uint64) * np.uint64(map_.element_bits)
            data = np.bitwise_or.reduce(flat.reshape(planes, -1, per) << shifts, axis=-1).astype(np.uint8)
        else:
            data = stacked.astype(DTYPES[map_.element_bits // 8])
        out = np.zeros((planes, map_.registers, 32), dtype=DTYPES[map_.register_bits // 8])
        gpu.run(module, f"load{index}", planes, [np.ascontiguousarray(data)], out)
        found = from_registers(map_, out)
        ids_found = sum((found[p] << np.uint64(bits * p) for p in range(planes)), np.uint64(0))
        arrays[f"layouts/{shape}/{matrix}/{type_}/{layout}"] = np.asarray(ids_found).astype(np.int16)
    for trans in (False, True):
        out = np.zeros((1, 4, 32), dtype=np.uint32)
        gpu.run(module, f"ldmatrix{int(trans)}", 1, [np.arange(256, dtype=np.uint16)], out)
        name = "ldmatrix/x4" + (".trans" if trans else "")
        arrays[name] = from_registers(ldmatrix_map("x4", trans), out)[0].astype(np.int16)


def main() -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--tiles", type=int, default=1, help="tiles of each kind")
    options = parser.parse_args()
    gpu = Gpu()
    arrays: dict[str, Bits] = {"arch": np.array(gpu.arch)}
    record_sums(gpu.arch, options.tiles, arrays)
    record_layouts(gpu, arrays)
    np.savez_compressed(options.file, **arrays)
    print(f"{gpu.arch}: {len(arrays)} arrays in {options.file}")


if __name__ == "__main__":
    main()
