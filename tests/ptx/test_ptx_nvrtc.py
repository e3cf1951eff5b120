"""What NVRTC emits, at several targets, optimised and not, is parsed and verified without a gap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from cuda import pathfinder

from wmmadiag.errors import PtxSyntaxError
from wmmadiag.ptx import parse
from wmmadiag.ptx.calls import INDIRECT, targets
from wmmadiag.ptx.instructions import lookup, refusal, rows
from wmmadiag.ptx.ir import Module, Register, Space, Vector

CASES = [
    (name, arch, option)
    for name, archs, options in (
        ("wmma_all", ("75", "80", "90", "120"), ("-lineinfo", "-G")),
        ("language", ("75", "90", "100", "120"), ("-lineinfo", "--use_fast_math")),
        ("language", ("120",), ("-G",)),
        ("inline_asm", ("80", "90", "120"), ("-lineinfo", "-G")),
    )
    for arch in archs
    for option in options
]


def operations(module: Module) -> Counter[str]:
    return Counter(item.op for function in module.functions.values() for item in function.instructions)


def check_consistent(module: Module) -> None:
    """What the emulator relies on."""
    for function in module.functions.values():
        names = [register.name for register in function.registers]
        assert len(names) == len(set(names))
        known = set(names) | {item.name for item in function.parameters if isinstance(item, Register)}
        variables = [item.name for item in (*function.variables, *function.parameters)]
        assert len(variables) == len(set(variables))
        for index in function.labels.values():
            assert 0 <= index <= len(function.instructions)
        for item in function.instructions:
            assert len(item.operands) == len(item.specs)
            for operand, spec in zip(item.operands, item.specs, strict=True):
                if isinstance(operand, Vector):
                    assert len(operand.elements) == spec.count
                for element in operand.elements if isinstance(operand, Vector) else (operand,):
                    if isinstance(element, Register):
                        assert element.name in known


@pytest.mark.parametrize(("name", "arch", "option"), CASES, ids=["-".join(case) for case in CASES])
def test_nothing_is_unknown(kernel_ptx: Callable[..., str], name: str, arch: str, option: str) -> None:
    text = kernel_ptx(name, arch, option)
    module = parse(text)
    assert module.target == f"sm_{arch}"
    check_consistent(module)
    reasons = {
        item.attributes["reason"]
        for function in module.functions.values()
        for item in function.instructions
        if item.op == "unsupported"
    }
    assert not reasons
    # Every statement of the text is an instruction: nothing is skipped in silence. Lines that end with ";" and start
    # with an opcode; calls and inline assembly have lines of their own, so at least as many are expected.
    plain = re.findall(r"^\t(?:@!?%p\d+ )?[a-z][a-z0-9]*(?:\.[\w:]+)*\s*[^;{\n]*;$", text, re.MULTILINE)
    assert sum(operations(module).values()) >= len(plain) > 0


@pytest.mark.parametrize("arch", ["75", "90"])
def test_every_wmma_type_and_shape(kernel_ptx: Callable[..., str], arch: str) -> None:
    module = parse(kernel_ptx("wmma_all", arch, "-lineinfo"))
    items = [item for function in module.functions.values() for item in function.instructions]
    found = {
        (item.attributes["atype"], item.attributes["shape"], item.attributes["dtype"])
        for item in items
        if item.op == "wmma.mma"
    }
    expected = {
        *(("f16", "m16n16k16", "f16"), ("f16", "m32n8k16", "f32"), ("f16", "m8n32k16", "f32")),
        *(("s8", "m16n16k16", "s32"), ("s8", "m32n8k16", "s32"), ("s8", "m8n32k16", "s32")),
        *(("u8", "m16n16k16", "s32"), ("s4", "m8n8k32", "s32"), ("b1", "m8n8k128", "s32")),
    }
    if arch == "90":
        expected |= {
            *(("bf16", "m16n16k16", "f32"), ("bf16", "m32n8k16", "f32"), ("bf16", "m8n32k16", "f32")),
            *(("f64", "m8n8k4", "f64"), ("tf32", "m16n16k8", "f32")),
        }
    assert found == expected
    loads = {(item.attributes["matrix"], item.attributes["layout"]) for item in items if item.op == "wmma.load"}
    assert loads >= {("a", "row"), ("a", "col"), ("b", "row"), ("b", "col"), ("c", "col")}
    assert all(item.operand("ldm") is not None for item in items if item.op in ("wmma.load", "wmma.store"))


def test_language(kernel_ptx: Callable[..., str]) -> None:
    module = parse(kernel_ptx("language", "90", "-lineinfo"))
    assert module.entries == ("everything", "indirect")
    assert {"vprintf", "__assertfail"} <= {name for name, item in module.functions.items() if item.declared_only}
    table = module.variables["pairs"]
    assert (table.space, table.size, table.align) == (Space.CONST, 48, 8)
    assert table.initializer is not None
    assert table.initializer.data[8:11] == b"ab\0"
    pointers = module.variables["names"].initializer
    assert pointers is not None
    assert [generic for *_, generic in pointers.relocations] == [True, True]
    callbacks = module.variables["callbacks"].initializer
    assert callbacks is not None
    assert {symbol.name for _, _, _, symbol, _ in callbacks.relocations} == {"_Z6triplei", "_Z6moduloi"}
    everything = module.functions["everything"]
    assert everything.limits["maxntid"] == (128, 1, 1)
    assert everything.limits["minnctapersm"] == (2,)
    assert sum(1 for item in everything.instructions if item.op == "call") >= 4
    assert {"ld", "st", "atom", "shfl", "vote", "match", "bar.red", "membar"} <= set(operations(module))
    kernel = module.functions["indirect"]
    (call,) = [item for item in kernel.instructions if item.op == INDIRECT]
    assert [one.name for one in targets(module, kernel, call)] == ["_Z6moduloi", "_Z6triplei"]


def test_inline_assembly(kernel_ptx: Callable[..., str]) -> None:
    function = parse(kernel_ptx("inline_asm", "80", "-lineinfo")).functions["assembly"]
    copies = [item for item in function.instructions if item.op == "cp.async"]
    assert [item.guard is not None for item in copies] == [True, True, False]
    assert copies[0].guard != copies[1].guard
    assert {item.attributes["num"] for item in function.instructions if item.op == "ldmatrix"} == {"x4", "x2"}
    assert {"LOOP", "DONE", "LOOP@2", "DONE@2"} <= set(function.labels)
    assert [item.op for item in function.instructions if "cc" in item.text] == ["add.cc.u32"]
    assert any(variable.space is Space.SHARED and variable.size == 64 * 72 * 2 for variable in function.variables)


def test_instructions_of_newer_targets_are_named_at_the_users_line(kernel_ptx: Callable[..., str]) -> None:
    with pytest.raises(PtxSyntaxError, match=r"inline_asm\.cu:11:5: cp\.async.* needs sm_80 or newer") as caught:
        parse(kernel_ptx("inline_asm", "75", "-lineinfo"))
    assert caught.value.place is not None
    assert caught.value.place.inlined_at is not None
    assert "__CUDA_ARCH__" in caught.value.hint


# Inline assembly of CUDA's own headers: the half-precision ones are what tensor-core kernels include.
HEADERS = ("cuda_fp16.hpp", "cuda_bf16.hpp", "cuda_fp8.hpp", "cuda_pipeline_helpers.h", "crt/mma.hpp")
# Only for targets that NVRTC does not have, or of types that the emulator does not know.
FUTURE = re.compile(r"ue5m3x2")


@pytest.mark.parametrize("header", HEADERS)
def test_inline_assembly_of_the_cuda_headers(header: str) -> None:
    folder = pathfinder.find_nvidia_header_directory("cudart")
    assert folder is not None
    text = (Path(folder) / header).read_text(errors="replace")
    unknown = set()
    for literal in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text):
        for statement in re.split(r"[;{}]|\\n", literal.replace("\\t", " ")):
            match = re.match(r"\s*([a-z][a-z0-9]*)((?:\.[a-z0-9_:]+)+)\s", statement + " ")
            if match and match[1] in rows() and not FUTURE.search(statement):
                instruction = match[1] + match[2]
                if not lookup(instruction) and "not emulated" in refusal(instruction):
                    unknown.add(instruction)
    assert not unknown
