"""Records what this machine's GPU answers to every arithmetic, logic, compare and conversion instruction.

    python tests/vectors/record_lane_ops.py tests/vectors/lane_ops_sm_90.npz

Needs cuda-bindings and a GPU. The instructions are the rows of the instruction table with all their modifiers; the
driver assembles a small PTX kernel for each, and one that it refuses is left out.

The file holds `inputs/<type>/<position>` (COUNT registers each), `forms` (JSON: text, operation, attributes, types read
and written) and `outputs`: the results as bytes, form after form, destination after destination. Predicates: bytes.
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver
from numpy.typing import NDArray

from wmmadiag.ptx.instructions.form import _GROUP, Form, Resolved
from wmmadiag.ptx.ir import Access
from wmmadiag.ptx.types import WIDTHS

COUNT = 96
FAMILIES = ("integer", "logic", "compare", "floating", "half", "convert")
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2)}
LOP3_TABLES = ("0xe8", "0x96", "0x3a")
Words = NDArray[Any]


def spellings(form: Form) -> Iterator[str]:
    """The row's opcode with every choice of its modifiers."""
    opcode, dot, rest = form.syntax.partition(" ")[0].partition(".")
    rest = ("{" if opcode.endswith("{") else "") + dot + rest
    parts = []
    for match in _GROUP.finditer(rest):
        names = match[2][1:].split(".")
        choices = [[w.partition("=")[0] for w in form.choices[n].split()] if n in form.choices else [n] for n in names]
        texts = ["".join(f".{word}" for word in words) for words in itertools.product(*choices)]
        parts.append([""] * bool(match[1]) + texts)
    for words in itertools.product(*parts):
        yield opcode.rstrip("{") + "".join(words)


def instructions() -> Iterator[tuple[str, Resolved]]:
    """Each instruction once; of `set` and of combinations with a predicate, a few comparisons only."""
    seen = set()
    for family in FAMILIES:
        for form in importlib.import_module(f"wmmadiag.ptx.instructions.{family}").ROWS:
            for text in spellings(form):
                resolved = form.match(tuple(text.split(".")[1:]))
                if (
                    resolved is None
                    or (text, len(resolved.specs)) in seen
                    or resolved.op.startswith(("mov.", "lop3.bool"))
                ):
                    continue
                few = ("lt", "geu") if "bool" in resolved.attributes or text.startswith("set.") else ()
                if few and resolved.attributes["compare"] not in few:
                    continue
                seen.add((text, len(resolved.specs)))
                yield text, resolved


def bytes_of(type_: str) -> int:
    return 1 if type_ == "pred" else max(WIDTHS[type_], 16) // 8


def kernel(name: str, text: str, resolved: Resolved, table: str) -> tuple[str, list[str], list[str]]:
    """PTX of a kernel in which thread i applies the instruction to element i; the types that it reads and writes."""
    reads: list[str] = []
    writes: list[str] = []
    operands, before, after, flags = [], [], [], []
    for i, spec in enumerate(resolved.specs):
        into = reads if spec.access is Access.READ else writes
        if spec.role == "immLut":
            operands.append(table)
            continue
        k, size = len(into), bytes_of(spec.type)
        into.append(spec.type)
        address = f"mad.wide.u32 t, i, {size}, {'s' if into is reads else 'd'}{k};"
        if spec.type == "pred":
            flags.append(f".reg .b16 y{i}; .reg .pred x{i};")
            fetch = [address, f"ld.global.u8 y{i}, [t];", f"setp.ne.u16 x{i}, y{i}, 0;"]
            keep = [f"selp.u16 y{i}, 1, 0, x{i};", address, f"st.global.u8 [t], y{i};"]
        else:
            flags.append(f".reg .b{8 * size} x{i};")
            fetch = [address, f"ld.global.b{8 * size} x{i}, [t];"]
            keep = [address, f"st.global.b{8 * size} [t], x{i};"]
        if spec.role == "cc_in":
            setting = "sub.cc.u32 j, 0, j;" if text.startswith("sub") else "add.cc.u32 j, j, -1;"
            before += [*fetch[:2], f"cvt.u32.u16 j, y{i};", setting]
        elif spec.role == "cc_out":
            after = ["subc.u32 j, 0, 0; neg.s32 j, j;" if text.startswith("sub") else "addc.u32 j, 0, 0;", *after]
            after += [f"cvt.u16.u32 y{i}, j;", *keep[1:]]
        else:
            operands.append(f"x{i}")
            (before if into is reads else after).extend(fetch if into is reads else keep)
    if resolved.pairs and text.startswith("setp") and not text.endswith(("f16", "bf16")):
        operands[0] += "|q"
        flags.append(".reg .pred q; .reg .b16 yq;")
        after += ["selp.u16 yq, 1, 0, q;", f"mad.wide.u32 t, i, 1, d{len(writes)};", "st.global.u8 [t], yq;"]
        writes.append("pred")
    pointers = [f"s{k}" for k in range(len(reads))] + [f"d{k}" for k in range(len(writes))]
    lines = [
        f".visible .entry {name}({', '.join(f'.param .u64 p{p}' for p in pointers)}) {{",
        ".reg .b32 i, j; .reg .b64 t; mov.u32 i, %tid.x;",
        *(f".reg .b64 {p}; ld.param.u64 {p}, [p{p}];" for p in pointers),
        *flags, *before, f"{text} {', '.join(operands)};", *after, "ret; }",
    ]  # fmt: skip
    return "\n".join(lines), reads, writes


def patterns(type_: str) -> list[int]:
    """Bit patterns that matter to a type."""
    if type_ in FLOATS:
        exponent, mantissa = FLOATS[type_]
        one, inf = ((1 << (exponent - 1)) - 1) << mantissa, ((1 << exponent) - 1) << mantissa
        top, step = 1 << mantissa, 1 << (mantissa - 1)
        values = [
            0,
            1,
            top - 1,
            top,
            top + 1,
            one - 1,
            one,
            one + 1,
            one + step,
            one + top,
            one + 5 * top,
            inf - 1,
            inf,
            inf + 1,
        ]
        return [*values, *(value | 1 << (exponent + mantissa) for value in values), inf + step + 1]
    high = 1 << (max(WIDTHS[type_], 8) - 1)
    return [
        0,
        1,
        2,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        100,
        127,
        128,
        255,
        high - 1,
        high,
        high + 1,
        2 * high - 2,
        2 * high - 1,
    ]


def inputs(type_: str, position: int) -> Words:
    """COUNT registers: combinations of patterns, then random values."""
    rng = np.random.default_rng([*type_.encode(), position])
    if type_ == "pred":
        return rng.integers(0, 2, COUNT).astype(np.uint8)
    element, halves = (type_[:-2], 2) if type_.endswith("x2") else (type_, 1)
    bits = sum(FLOATS[element]) + 1 if element in FLOATS else max(WIDTHS[element], 8)
    total = np.zeros(COUNT, np.uint64)
    for half in range(halves):
        chosen = rng.choice(np.array(patterns(element), np.uint64), COUNT)
        random = rng.integers(0, 1 << 63, COUNT, dtype=np.uint64) >> np.uint64(63 - min(bits, 63))
        near = (
            np.uint64(sum(patterns(element)[6:8]) // 2) + (random >> np.uint64(bits // 2))
            if element in FLOATS
            else random % 70
        )
        mixed = np.where(np.arange(COUNT) < 64, chosen, np.where(np.arange(COUNT) < 80, random, near))
        total |= (mixed & np.uint64((1 << bits) - 1)) << np.uint64(half * bits)
    return total.astype(f"u{bytes_of(type_)}")


def check(result: tuple[Any, ...]) -> Any:
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


def run(module: Any, name: str, sources: list[Words], sizes: list[int]) -> bytes:
    function = check(driver.cuModuleGetFunction(module, name.encode()))
    pointers = [check(driver.cuMemAlloc(1024)) for _ in range(len(sources) + len(sizes))]
    for pointer, source in zip(pointers, sources, strict=False):
        check(driver.cuMemcpyHtoD(pointer, source.ctypes.data, source.nbytes))
    values = np.array([int(pointer) for pointer in pointers], np.uint64)
    arguments = np.array([values.ctypes.data + 8 * i for i in range(len(values))], np.uint64)
    check(driver.cuLaunchKernel(function, 1, 1, 1, COUNT, 1, 1, 0, 0, arguments.ctypes.data, 0))
    check(driver.cuCtxSynchronize())
    data = b""
    for pointer, size in zip(pointers[len(sources) :], sizes, strict=True):
        result = np.zeros(COUNT * size, np.uint8)
        check(driver.cuMemcpyDtoH(result.ctypes.data, pointer, result.nbytes))
        data += result.tobytes()
    for pointer in pointers:
        check(driver.cuMemFree(pointer))
    return data


def main(path: Path) -> None:
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    attribute = driver.CUdevice_attribute
    major = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    head = f".version 8.7\n.target sm_{major}{minor}\n.address_size 64\n"
    forms: list[dict[str, Any]] = []
    arrays: dict[str, Words] = {}
    outputs = b""
    for text, resolved in instructions():
        for table in LOP3_TABLES if text == "lop3.b32" else ("",):
            source, reads, writes = kernel("k", text, resolved, table)
            status, module = driver.cuModuleLoadData((head + source + "\n\0").encode())
            if status != driver.CUresult.CUDA_SUCCESS:
                continue
            for k, type_ in enumerate(reads):
                arrays.setdefault(f"inputs/{type_}/{k}", inputs(type_, k))
            sources = [arrays[f"inputs/{type_}/{k}"] for k, type_ in enumerate(reads)]
            outputs += run(module, "k", sources, [bytes_of(type_) for type_ in writes])
            check(driver.cuModuleUnload(module))
            attributes = dict(resolved.attributes) | ({"table": table} if table else {})
            forms.append({"text": text, "op": resolved.op, "attributes": attributes, "reads": reads, "writes": writes})
    arrays["forms"] = np.frombuffer(json.dumps(forms).encode(), np.uint8)
    arrays["outputs"] = np.frombuffer(outputs, np.uint8)
    np.savez_compressed(path, **arrays)
    print(f"{len(forms)} instructions, {len(outputs)} bytes of results")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
