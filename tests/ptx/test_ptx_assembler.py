"""The instruction table against a real assembler: what a row allows, ptxas (in nvJitLink) takes.

One instruction for each word of each slot of each row, other words being the slot's first, with optional modifiers
absent. Skipped where the nvJitLink library is not installed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from wmmadiag.errors import PtxSyntaxError
from wmmadiag.ptx import parse
from wmmadiag.ptx.instructions import rows
from wmmadiag.ptx.instructions.form import Form, Resolved
from wmmadiag.ptx.types import WIDTHS

linker = pytest.importorskip("cuda.bindings.nvjitlink")
try:
    linker.version()
except Exception:  # whatever the binding raises without its library
    pytest.skip("the nvJitLink library is not installed", allow_module_level=True)

HEAD = """.version 9.3
.target {target}
.address_size 64
.shared .align 16 .b8 smem[1024];
.global .align 16 .b8 gmem[1024];
.const .align 16 .b8 cmem[64];
.visible .entry k(.param .b64 arg) {{
.local .align 16 .b8 lmem[64]; .param .align 16 .b8 pmem[64]; .reg .b64 base;
.reg .pred p<90>; .reg .b8 b<90>; .reg .b16 h<90>; .reg .b32 r<90>; .reg .b64 d<90>; .reg .b128 q<90>;
.reg .f32 f<90>; .reg .f64 g<90>;
TABLE: .branchtargets END;
"""
TAIL = "END: ret;\n}\n"
ADDRESSES = {"global": "gmem", "shared": "smem", "const": "cmem", "local": "lmem", "param": "arg", "generic": "base"}
# Operands that must be literals, or of a certain value.
LITERALS = {"immLut": "0xf8", "n": "2", "count": "32", "targets": "TABLE", "target": "END"}


def register(type_name: str, index: int, relaxed: bool) -> str:
    if type_name in ("pred", "f32", "f64"):
        return {"pred": "p", "f32": "f", "f64": "g"}[type_name] + str(index)
    width = WIDTHS[type_name]
    if width <= 8:
        return f"r{index}" if relaxed else f"b{index}"
    return {16: "h", 32: "r", 64: "d", 128: "q"}[width if width > 8 else 16] + str(index)


def statement(form: Form, modifiers: list[str], resolved: Resolved) -> str:
    operands, index = [], 0
    for spec in resolved.specs[: len(resolved.specs) - resolved.implicit]:
        if spec.type == "addr":
            own = resolved.attributes.get("space", "generic")
            space = resolved.attributes.get("from", "global") if spec.role == "src" else own
            text = f"[{'pmem' if form.opcode == 'st' and space == 'param' else ADDRESSES[space]}]"
        elif spec.role in resolved.values:
            text = str(resolved.values[spec.role][-1])
        elif spec.role in LITERALS and form.opcode in ("lop3", "cp", "setmaxnreg", "bra", "brx"):
            text = LITERALS[spec.role]
        elif spec.role.endswith("size") and form.opcode in ("applypriority", "discard"):
            text = "128"
        elif form.opcode == "pmevent":
            text = "3"
        elif spec.role in resolved.vectors:
            registers = (register(spec.type, index + offset, resolved.relaxed) for offset in range(spec.count))
            text = "{" + ", ".join(registers) + "}"
        else:
            text = register(spec.type, index, resolved.relaxed)
        if not operands and resolved.pairs == "required":
            text += "|p80"
        operands.append(text)
        index += spec.count
    return f"{'.'.join((form.opcode, *modifiers))} {', '.join(operands)};"


def samples(form: Form) -> Iterator[str]:
    """Statements that the row allows, in the row's own order of modifiers."""
    slots = {slot.name: slot for slot in form.slots}
    typed = iter([slot.name for slot in form.slots if slot.name.startswith("_")])
    parts: list[list[str]] = []
    for brace, group in re.findall(r"(\{?)((?:\.[\w:]+)+)", form.syntax.split(" ")[0]):
        for name in group[1:].split("."):
            if not brace:
                fixed = [*slots[name].choices] if name in slots else [name]
                parts.append([*slots[next(typed)].choices] if name in WIDTHS and name not in slots else fixed)
    choices = [[part[0] for part in parts]]
    choices += [[*choices[0][:at], word, *choices[0][at + 1 :]] for at, part in enumerate(parts) for word in part[1:]]
    for modifiers in choices:
        resolved = form.match(tuple(modifiers))
        if resolved is not None:
            yield statement(form, modifiers, resolved)


def assemble(target: str, statements: list[str]) -> dict[str, str]:
    """Statements that the assembler refuses, with its message."""
    head = HEAD.format(target=target)
    text = (head + "\n".join(statements) + "\n" + TAIL).encode()
    handle = linker.create(2, [f"-arch={target}", "-O0"])
    try:
        linker.add_data(handle, linker.InputType.PTX, text, len(text), "table.ptx")
        linker.complete(handle)
    except linker.nvJitLinkError:
        log = bytearray(linker.get_error_log_size(handle))
        linker.get_error_log(handle, log)
        first = head.count("\n") + 1
        found = re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", log.decode(errors="replace"))
        return {statements[int(line) - first]: why for line, why in found if 0 <= int(line) - first < len(statements)}
    finally:
        linker.destroy(handle)
    return {}


@pytest.mark.parametrize("opcode", sorted(rows()))
def test_the_assembler_takes_what_the_table_has(opcode: str) -> None:
    by_target: dict[str, list[str]] = defaultdict(list)
    for form in rows()[opcode]:
        target = "sm_90a" if form.sm <= 90 else "sm_100a" if form.sm <= 100 else "sm_120a"
        by_target[target] += samples(form)
    assert by_target
    for target, statements in by_target.items():
        parse(HEAD.format(target=target) + "\n".join(statements) + "\n" + TAIL)
        refused = {}
        for start in range(0, len(statements), 80):
            refused |= assemble(target, statements[start : start + 80])
        assert not refused


# Both refuse each of these, with one mistake.
WRONG = [
    "add.s32 r0, f1, r2;",
    "add.s32 r0, d1, r2;",
    "add.f32 f0, f1, 2;",
    "add.s32 r0, %tid.x, r2;",
    "mov.u32 r0, f1;",
    "selp.b32 r0, r1, r2, r3;",
    "ld.shared.u32 r0, [gmem];",
    "ld.shared.v4.u32 {r0, r1}, [base];",
    "cp.async.cg.shared.global [smem], [gmem], 8;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1}, [base];",
    "setp.lo.s32 p0, r1, r2;",
    "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {f0,f1,f2,f3}, {r0,r1,r2,r3}, {r4,r5}, {f0,f1,f2,f3};",
]


@pytest.mark.parametrize("text", WRONG)
def test_both_refuse(text: str) -> None:
    assert assemble("sm_90a", [text])
    try:
        module = parse(HEAD.format(target="sm_90a") + text + "\n" + TAIL)
    except PtxSyntaxError:
        return
    assert module.functions["k"].instructions[0].op == "unsupported"
