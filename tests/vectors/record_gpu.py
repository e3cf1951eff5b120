"""Records what this machine's GPU answers: tensor-core sums and fragment layouts, bit for bit.

    python tests/vectors/record_gpu.py tests/vectors/sm_90.npz          # one tile of each kind, to be committed
    python tests/vectors/record_gpu.py /elsewhere/many.npz --tiles 32   # more, to look further

Needs the package's own dependencies (cuda-python, NVRTC) and a GPU. Operands are placed in the lanes' registers by the
fragment maps, so that a wrong map shows as a wrong product; for wmma, whose maps are undocumented, `layouts/…` also
holds the (row · columns + column) that each lane's element gets from `wmma.load`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc
from inputs import BYTES, CASES, DTYPES, Bits, operands, seed_of

from wmmadiag.fragments import FragmentMap, ldmatrix_map, mma_map, wmma_map
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape

BIT_OPS = {"": "", "xor_popc": ".xor.popc", "and_popc": ".and.popc"}


@dataclass(frozen=True)
class Job:
    """One instruction: its name, key in the file, types (a, b, c, d) and fragment maps in the same order."""

    opcode: str
    key: str
    mnk: tuple[int, int, int]
    types: tuple[str, str, str, str]
    maps: tuple[FragmentMap, FragmentMap, FragmentMap, FragmentMap]


def jobs(arch: str) -> Iterator[Job]:
    """Every form that the architecture has."""
    target = architecture(arch)
    for form in FORMS:
        if not form.available(target) or form.family:
            continue
        pairs = [(a, b) for a in form.a for b in (form.a if form.mixed else (a,))]
        for a, b in pairs:
            for c, d in form.cd:
                for bit_op in form.bit_ops:
                    for sat in ("", ".satfinite") if d == "s32" and a != "b1" else ("",):
                        quads = form.instruction == "mma" and form.shape == "m8n8k4" and a == "f16"
                        for layout in ("row.col", "col.row") if quads else ("row.col",):
                            yield _job(arch, form.instruction, form.shape, (a, b, c, d), layout, bit_op, sat, quads)


def _job(
    arch: str, instruction: str, shape: str, types: tuple[str, str, str, str], layout: str, bit_op: str, sat: str,
    quads: bool,
) -> Job:  # fmt: skip
    a, b, c, d = types
    popc = BIT_OPS[bit_op]
    if instruction == "mma":
        opcode = f"mma.sync.aligned.{shape}.{layout}{sat}.{d}.{a}.{b}.{c}{popc}"
        la, lb = layout.split(".") if quads else ("", "")
        maps = (mma_map(shape, "a", a, la), mma_map(shape, "b", b, lb), mma_map(shape, "c", c), mma_map(shape, "d", d))
    else:
        kinds = f"{d}.{c}" if a == "f16" else f"{d}.{a}.{b}.{c}"
        rounding = ".rn" if a == "f64" else ""
        opcode = f"wmma.mma{popc}.sync.aligned.{layout}.{shape}{rounding}.{kinds}{sat}"
        maps = tuple(wmma_map(shape, m, t, arch) for m, t in zip("abcd", types, strict=True))  # type: ignore[assignment]
    key = f"{instruction}/{shape}/{d}.{a}.{b}.{c}{sat}{popc}" + (f".{layout}" if quads else "")
    return Job(opcode, key, parse_shape(shape), types, maps)


def _word(type_: str) -> tuple[str, str]:
    """(C type, asm constraint) of a fragment's registers."""
    return {"f64": ("double", "d"), "f32": ("float", "f")}.get(type_, ("unsigned", "r"))


def source(index: int, job: Job) -> str:
    """A kernel that multiplies one tile per block; operands and result are registers [tile][register][lane]."""
    lines, groups, inputs, outputs, at = [], [], [], [], 0
    for role, type_, map_ in zip("dabc", (job.types[3], *job.types[:3]), (job.maps[3], *job.maps[:3]), strict=True):
        ctype, constraint = _word(type_)
        n = map_.registers
        lines.append(f"{ctype} {role}[{n}];")
        if role != "d":
            element = f"(({ctype}*)p{role})[(blockIdx.x * {n} + i) * 32 + threadIdx.x]"
            lines.append(f"for (int i = 0; i < {n}; ++i) {role}[i] = {element};")
        groups.append("{" + ", ".join(f"%{at + i}" for i in range(n)) + "}")
        at += n
        if role == "d":
            outputs += [f'"={constraint}"(d[{i}])' for i in range(n)]
        else:
            inputs += [f'"{constraint}"({role}[{i}])' for i in range(n)]
    ctype, _ = _word(job.types[3])
    n = job.maps[3].registers
    return (
        f'extern "C" __global__ void mma{index}(void* pa, void* pb, void* pc, void* pd) {{\n  '
        + "\n  ".join(lines)
        + f'\n  asm volatile("{job.opcode} {", ".join(groups)};" : {", ".join(outputs)} : {", ".join(inputs)});\n'
        + f"  for (int i = 0; i < {n}; ++i) (({ctype}*)pd)[(blockIdx.x * {n} + i) * 32 + threadIdx.x] = d[i];\n}}\n"
    )


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


def to_registers(map_: FragmentMap, tiles: Bits) -> Bits:
    """Registers [n, registers, 32] of matrices [n, tiles, rows, columns]."""
    elements = tiles[:, map_.tile, map_.row, map_.col].astype(np.uint64)  # [n, 32, elements]
    split = elements.reshape(len(tiles), 32, map_.registers, map_.per_register)
    shifts = np.arange(map_.per_register, dtype=np.uint64) * np.uint64(map_.element_bits)
    words = np.bitwise_or.reduce(split << shifts, axis=-1)
    return np.ascontiguousarray(words.transpose(0, 2, 1).astype(DTYPES[map_.register_bits // 8]))


def from_registers(map_: FragmentMap, words: Bits) -> Bits:
    """Elements [n, 32, elements] of registers [n, registers, 32]."""
    shifts = np.arange(map_.per_register, dtype=np.uint64) * np.uint64(map_.element_bits)
    mask = np.uint64(2**map_.element_bits - 1)
    split = (words.astype(np.uint64).transpose(0, 2, 1)[..., None] >> shifts) & mask
    return split.reshape(len(words), 32, map_.elements)


def to_matrices(map_: FragmentMap, words: Bits, dtype: Any) -> Bits:
    """Matrices [n, tiles, rows, columns] of registers."""
    elements = from_registers(map_, words)
    out = np.zeros((len(words), map_.tiles, *map_.shape), dtype=dtype)
    out[:, map_.tile, map_.row, map_.col] = elements.astype(dtype)
    return out


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


def record_sums(gpu: Gpu, tiles: int, arrays: dict[str, Bits]) -> None:
    """Fill `arrays` with `inputs/<key>/<a|b|c>/<case>` [tiles, …] and `outputs/<key>/<case>`."""
    work = list(jobs(gpu.arch))
    module = gpu.load("".join(source(index, job) for index, job in enumerate(work)))
    for index, job in enumerate(work):
        rng = np.random.default_rng(seed_of(job.key))
        copies = job.maps[3].tiles
        integer = job.types[3] == "s32"
        for case in ("spread", "any") if integer else CASES:
            drawn = [operands(rng, job.mnk, job.types[:3], case) for _ in range(tiles * copies)]
            stacks = [
                np.stack(matrices).reshape(tiles, copies, *matrices[0].shape) for matrices in zip(*drawn, strict=True)
            ]
            words = [to_registers(map_, stack) for map_, stack in zip(job.maps, stacks, strict=False)]
            out = np.zeros((tiles, job.maps[3].registers, 32), dtype=DTYPES[job.maps[3].register_bits // 8])
            gpu.run(module, f"mma{index}", tiles, words, out)
            for role, stack in zip("abc", stacks, strict=True):
                arrays[f"inputs/{job.key}/{role}/{case}"] = stack
            dtype = DTYPES[BYTES[job.types[3]]]
            arrays[f"outputs/{job.key}/{case}"] = to_matrices(job.maps[3], out, dtype)


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
    record_sums(gpu, options.tiles, arrays)
    record_layouts(gpu, arrays)
    np.savez_compressed(options.file, **arrays)
    print(f"{gpu.arch}: {len(arrays)} arrays in {options.file}")


if __name__ == "__main__":
    main()
