"""Tensor-core instructions from registers and memory: every form, shape, layout and space, by the fragment maps."""

from __future__ import annotations

import numpy as np
import pytest
from native_parts import mma, pack_a, pack_b
from plain_formats import encode
from ptx_kernels import kernel, result, run

from wmmadiag.emulator import EmulatorOptions
from wmmadiag.fragments import FragmentMap, ldmatrix_map, mma_map, wmma_map
from wmmadiag.launch import Launch
from wmmadiag.numerics.architecture import architecture
from wmmadiag.numerics.tensor_core import mma_rule
from wmmadiag.numerics.tensor_core_forms import FORMS, parse_shape

BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}
ARCHES = ("sm_75", "sm_89", "sm_90", "sm_120a")


def random_bits(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> np.ndarray:
    if element in BITS:
        return rng.integers(0, 1 << BITS[element], shape, dtype=np.uint64)
    if element in ("tf32", "f32"):
        return (rng.standard_normal(shape).astype(np.float32) * 4).view(np.uint32).astype(np.uint64)
    return encode(rng.standard_normal(shape) * 2, element).astype(np.uint64)


def to_registers(fragment: FragmentMap, matrices: np.ndarray) -> np.ndarray:
    """(32, registers) of a fragment whose matrices are (tiles, rows, columns) of element bits."""
    values = matrices[fragment.tile, fragment.row, fragment.col].astype(np.uint64)
    shift = (np.arange(fragment.elements) % fragment.per_register * fragment.element_bits).astype(np.uint64)
    words = (values << shift).reshape(32, fragment.registers, fragment.per_register)
    return np.bitwise_or.reduce(words, axis=2).astype(np.uint32 if fragment.register_bits == 32 else np.uint64)


def from_registers(fragment: FragmentMap, registers: np.ndarray) -> np.ndarray:
    """(32, elements) of element bits."""
    shift = (np.arange(fragment.elements) % fragment.per_register * fragment.element_bits).astype(np.uint64)
    words = np.repeat(registers.astype(np.uint64), fragment.per_register, axis=1)
    return (words >> shift) & np.uint64((1 << fragment.element_bits) - 1)


def register_names(fragment: FragmentMap, first: int, element: str = "") -> list[str]:
    letter = {"f64": "fd", "f32": "f"}.get(element, "r")
    return [f"%{letter}{first + i}" for i in range(fragment.registers)]


def braces(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def move(kind: str, fragment: FragmentMap, names: list[str], pointer: str) -> str:
    """Loads or stores of a lane's registers, as an array [lane][register]."""
    size = fragment.register_bits // 8
    letter = "b" if names[0].startswith("%r") else "f"
    text = f"mul.wide.u32 %rd9, %lane, {size * fragment.registers}; add.u64 %rd9, %rd9, {pointer};"
    for i, name in enumerate(names):
        place = f"[%rd9+{size * i}]"
        text += (
            f"{kind}.global.{letter}{8 * size} {name}, {place};"
            if kind == "ld"
            else f"st.global.{letter}{8 * size} {place}, {name};"
        )
    return text


def every_multiplication():
    for form in FORMS:
        arch = next(a for a in ARCHES if form.available(architecture(a)))
        layouts = [("row", "col")]
        if form.instruction == "wmma" and form.a[0] not in ("s4", "u4", "b1"):
            layouts = [(a, b) for a in ("row", "col") for b in ("row", "col")]
        if form.instruction == "mma" and (form.shape, form.a) == ("m8n8k4", ("f16",)):
            layouts = [(a, b) for a in ("row", "col") for b in ("row", "col")]
        for atype in form.a:
            for btype in form.a if form.mixed else (atype,):
                for ctype, dtype in form.cd:
                    for bitop in form.bit_ops:
                        for layout in layouts:
                            types = f"{dtype}-{atype}-{btype}-{ctype}"
                            name = "-".join((form.instruction, form.shape, types, bitop, *layout))
                            if not form.family or (atype, dtype) == ("e2m1", "f32"):
                                yield pytest.param(form, arch, atype, btype, ctype, dtype, bitop, layout, id=name)


def opcode(form, atype, btype, ctype, dtype, bitop, layout) -> str:
    logic = bitop.replace("_", ".")
    if form.instruction == "wmma":
        types = f"{dtype}.{ctype}" if atype == "f16" else f"{dtype}.{atype}.{btype}.{ctype}"
        middle = f".{logic}" if logic else ""
        return f"wmma.mma{middle}.sync.aligned.{layout[0]}.{layout[1]}.{form.shape}.{types}"
    kind = ".kind::f8f6f4" if form.family else ""
    return f"mma.sync.aligned.{form.shape}.{layout[0]}.{layout[1]}{kind}.{dtype}.{atype}.{btype}.{ctype}" + (
        f".{logic}" if logic else ""
    )


@pytest.mark.parametrize(
    ("form", "arch", "atype", "btype", "ctype", "dtype", "bitop", "layout"), list(every_multiplication())
)
def test_multiplication(form, arch, atype, btype, ctype, dtype, bitop, layout):
    rng = np.random.default_rng(7)
    m, n, k = parse_shape(form.shape)
    rule = mma_rule(arch, form.instruction, form.shape, atype, btype, ctype, dtype, False, bitop)

    def fragment(matrix: str, element: str) -> FragmentMap:
        if form.instruction == "wmma":
            return wmma_map(form.shape, matrix, element, arch)
        four = form.shape == "m8n8k4" and element != "f64"
        return mma_map(form.shape, matrix, element, {"a": layout[0], "b": layout[1]}.get(matrix, "") if four else "")

    maps = {x: fragment(x, t) for x, t in zip("abcd", (atype, btype, ctype, dtype), strict=True)}
    tiles = maps["a"].tiles
    a, b, c = (
        random_bits(rng, (tiles, m, k), atype),
        random_bits(rng, (tiles, k, n), btype),
        random_bits(rng, (tiles, m, n), ctype),
    )
    expected = np.stack(
        [
            mma(rule, pack_a(a[t], atype), pack_b(b[t], btype), pack_a(c[t], ctype), reference=True)
            .view(f"<u{maps['d'].element_bits // 8}")
            .reshape(m, n)
            for t in range(tiles)
        ]
    )
    shifted = {"e2m1": 2}
    registers = {
        "a": to_registers(maps["a"], a << np.uint64(shifted.get(atype, 0))),
        "b": to_registers(maps["b"], b << np.uint64(shifted.get(btype, 0))),
        "c": to_registers(maps["c"], c),
    }
    names = {
        x: register_names(maps[x], first, element if element in ("f32", "f64") else "")
        for x, first, element in (("a", 10, atype), ("b", 30, btype), ("c", 50, ctype), ("d", 70, dtype))
    }
    if atype == "f64":
        names = {
            x: [f"%fd{i + first}" for i in range(maps[x].registers)]
            for x, first in (("a", 0), ("b", 10), ("c", 16), ("d", 24))
        }
    out = np.zeros((32, maps["d"].registers), np.uint64 if maps["d"].register_bits == 64 else np.uint32)
    operands = ", ".join(("{" + ", ".join(names[x]) + "}") for x in "dabc")
    loads = "".join(move("ld", maps[x], names[x], f"%a{i + 1}") for i, x in enumerate("abc"))
    body = (
        f"{loads} {opcode(form, atype, btype, ctype, dtype, bitop, layout)} {operands};"
        f" {move('st', maps['d'], names['d'], '%a0')}"
    )
    run(body, out, *registers.values(), target=arch, options=EmulatorOptions(threads=1))
    found = from_registers(maps["d"], out)
    assert (found == expected[maps["d"].tile, maps["d"].row, maps["d"].col]).all()


def every_fragment():
    seen = set()
    for form in FORMS:
        if form.instruction != "wmma":
            continue
        arch = next(a for a in ARCHES if form.available(architecture(a)))
        for matrix, elements in (
            ("a", form.a),
            ("b", form.a),
            ("c", tuple(c for c, _ in form.cd)),
            ("d", tuple(d for _, d in form.cd)),
        ):
            for element in elements:
                narrow = element in ("s4", "u4", "b1")
                for layout in ({"a": "row", "b": "col"}[matrix],) if narrow else ("row", "col"):
                    key = (form.shape, matrix, element, layout)
                    if key not in seen:
                        seen.add(key)
                        yield pytest.param(arch, *key, id="-".join(key))


def in_memory(matrix: np.ndarray, layout: str, ldm: int, bits: int) -> np.ndarray:
    """The bytes of a matrix with a leading dimension, the gaps filled with ones."""
    lines = matrix if layout == "row" else matrix.T
    padded = np.full((lines.shape[0], ldm), (1 << bits) - 1, np.uint64)
    padded[:, : lines.shape[1]] = lines
    if bits >= 8:
        return padded.astype(f"<u{bits // 8}").reshape(-1).view(np.uint8)
    single = (padded[..., None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(single.astype(np.uint8).reshape(-1), bitorder="little")


SPACES = {
    "global": "mov.u64 %rd1, %a1;",
    "shared": "mov.u64 %rd1, s;",
    "": "mov.u64 %rd1, s; cvta.shared.u64 %rd1, %rd1;",
}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("arch", "shape", "matrix", "element", "layout"), list(every_fragment()))
def test_fragment_load_and_store(arch, shape, matrix, element, layout, space):
    fragment = wmma_map(shape, matrix, element, arch)
    rng = np.random.default_rng(1)
    bits = fragment.element_bits
    dense = random_bits(rng, fragment.shape, element)
    width = fragment.shape[1] if layout == "row" else fragment.shape[0]
    ldm = width + 128 // bits
    memory = in_memory(dense, layout, ldm, bits)
    letter = {"f32": "f", "f64": "fd"}.get(element, "r")
    names = [f"%{letter}{(0 if element == 'f64' else 10) + i}" for i in range(fragment.registers)]
    operand = "{" + ", ".join(names) + "}"
    s = f".{space}" if space else ""
    fill = (
        ""
        if space == "global"
        else (
            "mov.u64 %rd8, s; mov.u32 %r1, 0; L: add.u32 %r2, %r1, %lane; setp.lt.u32 %p1, %r2, "
            + str(memory.size // 4)
            + "; mad.wide.u32 %rd3, %r2, 4, %a1; mad.wide.u32 %rd4, %r2, 4, %rd8;@%p1 ld.global.b32 %r3, [%rd3];"
            " @%p1 st.shared.b32 [%rd4], %r3; add.u32 %r1, %r1, 32; setp.lt.u32 %p2, %r1, "
            + str(memory.size // 4)
            + "; @%p2 bra L; bar.sync 0;"
        )
    )
    declare = f".shared .align 32 .b8 s[{memory.size}];"
    address = f"{declare} {fill} {SPACES[space]}"
    if matrix != "d":
        out = np.zeros((32, fragment.registers), np.uint64 if fragment.register_bits == 64 else np.uint32)
        load = f"wmma.load.{matrix}.sync.aligned.{layout}.{shape}{s}.{element} {operand}, [%rd1], {ldm};"
        run(address + load + move("st", fragment, names, "%a0"), out, memory, target=arch)
        found = from_registers(fragment, out)
        assert (found == dense[fragment.row, fragment.col]).all()
        return
    other = random_bits(rng, fragment.shape, element)
    store = f"wmma.store.d.sync.aligned.{layout}.{shape}{s}.{element} [%rd1], {operand}, {ldm};"
    back = (
        ""
        if space == "global"
        else fill.replace("L:", "M:")
        .replace("bra L", "bra M")
        .replace("ld.global.b32 %r3, [%rd3]", "ld.shared.b32 %r3, [%rd4]")
        .replace("st.shared.b32 [%rd4], %r3", "st.global.b32 [%rd3], %r3")
    )
    registers = to_registers(fragment, other[None])
    run(address + move("ld", fragment, names, "%a0") + store + back, registers, memory, target=arch)
    assert (memory == in_memory(other, layout, ldm, bits)).all()  # the gaps as well


@pytest.mark.parametrize("space", ["shared", ""])
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("num", ["x1", "x2", "x4"])
def test_ldmatrix_and_stmatrix(num, trans, space):
    count = int(num[1])
    source = np.random.default_rng(2).integers(0, 1 << 16, (32, 8), dtype=np.uint16)
    names = "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"
    s = f".{space}" if space else ""
    # Rows lie in reverse order, 16 bytes each.
    set_up = """.shared .align 16 .b8 s[512]; mov.u64 %rd1, s; sub.u32 %r1, 31, %lane;
        mad.wide.u32 %rd2, %r1, 16, %rd1; mad.wide.u32 %rd3, %lane, 16, %a1; """ + (
        "" if space else "cvta.shared.u64 %rd2, %rd2;"
    )
    copy_in = (
        "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd3]; st.v4.b32 [%rd2], {%r2, %r3, %r4, %r5}; bar.sync 0;"
        if not space
        else (
            "ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd3]; st.shared.v4.b32 [%rd2], {%r2, %r3, %r4, %r5}; bar.sync 0;"
        )
    )
    matrices = source[: 8 * count].reshape(count, 8, 8)
    fragment = ldmatrix_map(num, bool(trans))
    out = np.zeros((32, count), np.uint32)
    load = f"ldmatrix.sync.aligned.m8n8.{num}{trans}{s}.b16 {names}, [%rd2];"
    run(set_up + copy_in + load + move("st", fragment, [f"%r{10 + i}" for i in range(count)], "%a0"), out, source)
    assert (out == to_registers(fragment, matrices)).all()
    after = np.zeros_like(source)
    registers = to_registers(fragment, matrices)
    store = f"stmatrix.sync.aligned.m8n8.{num}{trans}{s}.b16 [%rd2], {names};"
    copy_out = (
        f"bar.sync 0; ld{s}.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd2]; st.global.v4.b32 [%rd3], {{%r2, %r3, %r4, %r5}};"
    )
    run(
        set_up + move("ld", fragment, [f"%r{10 + i}" for i in range(count)], "%a0") + store + copy_out,
        registers,
        after,
    )
    assert (after[: 8 * count] == source[: 8 * count]).all()
    assert (after[8 * count :].view(np.uint32) == 0x7FFF7EAD).all()  # nothing else was stored


def test_movmatrix():
    source = np.random.default_rng(2).integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    registers = to_registers(ldmatrix_map("x1", False), source[None])
    out = result(
        "mad.wide.u32 %rd1, %lane, 4, %a1; ld.global.b32 %r1, [%rd1]; movmatrix.sync.aligned.m8n8.trans.b16 %r1,"
        " %r1; st.global.b32 [%to], %r1;",
        registers,
    )
    assert (out == to_registers(ldmatrix_map("x1", True), source[None])[:, 0]).all()


def test_architectures_differ():
    """f16 → f32 with one large and many small terms: the number of bits and of terms per step shows."""
    values = []
    for arch in ("sm_75", "sm_80", "sm_90"):
        out = np.zeros((32, 4), np.float32)
        k = kernel(
            """mov.b32 %r1, 0x3c003c00; mov.b32 %r2, 0x00010001; mov.f32 %f9, 0f40000000;
            setp.eq.u32 %p1, %lane, 99; @%p1 mov.b32 %r2, %r1;
            mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4},
            {%r1, %r1}, {%r2}, {%f9, %f9, %f9, %f9};
            mul.wide.u32 %rd1, %lane, 16; add.u64 %rd1, %rd1, %a0; st.global.v4.f32 [%rd1], {%f1, %f2, %f3, %f4};""",
            target="sm_75",
            arch=arch,
        )
        k.launch(Launch((1, 1, 1), (32, 1, 1), [out]))
        values.append(out[0, 0])
    assert values[0] == values[1] != values[2]
