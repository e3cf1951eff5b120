"""Atomic operations against Python, under contention, and the same bits whatever the number of threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import result, run

from wmmadiag.emulator import EmulatorOptions
from wmmadiag.errors import KernelFault

RNG = np.random.default_rng(11)
TYPES = {
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "b32": np.uint32,
    "b64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
}
INTEGER_OPS = {
    "add": ("u32", "s32", "u64"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64"),
    "cas": ("b32", "b64"),
}
ROWS = [(operation, type_name) for operation, types in INTEGER_OPS.items() for type_name in types]


def apply(operation: str, old: int, b: int, c: int, bits: int) -> int:
    """PTX ISA, "atom"."""
    new = {
        "add": lambda: old + b,
        "min": lambda: min(old, b),
        "max": lambda: max(old, b),
        "and": lambda: old & b,
        "or": lambda: old | b,
        "xor": lambda: old ^ b,
        "exch": lambda: b,
        "inc": lambda: 0 if old >= b else old + 1,
        "dec": lambda: b if old == 0 or old > b else old - 1,
        "cas": lambda: c if old == b else old,
    }[operation]()
    return new % (1 << bits)


def operands(dtype, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    return np.where(
        rng.random(count) < 0.5,
        rng.integers(info.min, info.max, count, dtype, endpoint=True),
        rng.integers(0, 3, count).astype(dtype),
    )


@pytest.mark.parametrize("space", ["global", "shared", "generic", "generic-shared"])
@pytest.mark.parametrize(("operation", "type_name"), ROWS)
def test_integer_operations(operation, type_name, space):
    """All lanes on one word, in lane order."""
    dtype = np.dtype(TYPES[type_name])
    bits = 8 * dtype.itemsize
    letter = "r" if bits == 32 else "rd"
    b, c, memory, old = operands(dtype, 32, 1), operands(dtype, 32, 2), operands(dtype, 1, 3), np.zeros(32, dtype)
    declare, base, s = {
        "global": ("", "%a2", ".global"),
        "generic": ("", "%a2", ""),
        "shared": (".shared .align 8 .b64 w;", "w", ".shared"),
        "generic-shared": (".shared .align 8 .b64 w;", "w", ""),
    }[space]
    window = "cvta.shared.u64 %rd5, %rd5;" if space == "generic-shared" else ""
    inside = "shared" in space
    run(
        f"""{declare} mov.u64 %rd5, {base}; {window} mul.wide.u32 %rd1, %lane, {dtype.itemsize};
        add.u64 %rd2, %rd1, %a0; add.u64 %rd3, %rd1, %a1; add.u64 %rd4, %rd1, %a3;
        ld.global.b{bits} %{letter}20, [%rd2]; ld.global.b{bits} %{letter}21, [%rd3];
        ld.global.b{bits} %{letter}22, [%a2];"""
        + (f"st{s}.b{bits} [%rd5], %{letter}22; bar.warp.sync -1;" if inside else "")
        + f"atom{s}.{operation}.{type_name} %{letter}23, [%rd5],"
        f" %{letter}20{f', %{letter}21' if operation == 'cas' else ''}; st.global.b{bits} [%rd4], %{letter}23;"
        + (
            f"bar.warp.sync -1; ld{s}.b{bits} %{letter}24, [%rd5]; st.global.b{bits} [%a2], %{letter}24;"
            if inside
            else ""
        ),
        b,
        c,
        memory_after := memory.copy(),
        old,
        preset=True,
    )
    word, expected = int(memory[0]), []
    for lane in range(32):
        expected.append(word)
        new = apply(operation, word, int(b[lane]), int(c[lane]), bits)
        word = new - (1 << bits) if dtype.kind == "i" and new >> (bits - 1) else new
    assert old.tolist() == expected
    assert memory_after[0] == word


@pytest.mark.parametrize(
    ("type_name", "dtype", "letter", "width"),
    [
        ("f32", np.float32, "f", 32),
        ("f64", np.float64, "fd", 64),
        ("noftz.f16", np.float16, "h", 16),
        ("noftz.bf16", ml_dtypes.bfloat16, "h", 16),
    ],
)
def test_float_addition_in_lane_order(type_name, dtype, letter, width):
    values, total = RNG.standard_normal(32).astype(dtype), np.zeros(1, dtype)
    register = {"f": "f32", "fd": "f64", "h": "b16"}[letter]
    run(
        f"mul.wide.u32 %rd1, %lane, {width // 8}; add.u64 %rd1, %rd1, %a0; ld.global.{register} %{letter}1, [%rd1];"
        f" red.global.add.{type_name} [%a1], %{letter}1;",
        values,
        total,
    )
    expected = np.zeros(1, dtype)
    for value in values:
        expected = (expected + value).astype(dtype)
    assert total.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("type_name", "dtype"), [("f16x2", np.float16), ("bf16x2", ml_dtypes.bfloat16)])
def test_packed_addition(type_name, dtype):
    values, total = RNG.standard_normal(64).astype(dtype), np.zeros(2, dtype)
    run(
        f"mad.wide.u32 %rd1, %lane, 4, %a0; ld.global.b32 %r1, [%rd1]; atom.global.add.noftz.{type_name} %r2,"
        " [%a1], %r1;",
        values,
        total,
    )
    expected = np.zeros(2, dtype)
    for pair in values.reshape(32, 2):
        expected = (expected + pair).astype(dtype)
    assert total.tobytes() == expected.tobytes()


def test_subnormals_are_flushed_in_global_memory_and_kept_in_shared():
    """PTX ISA, "atom": atom.add.f32 flushes subnormal inputs and results in global memory, not in shared."""
    tiny = np.array([1e-40], np.float32)
    run("atom.global.add.f32 %f1, [%a0], 0f00000000;", memory := tiny.copy(), block=1)
    assert memory[0] == 0
    body = (
        ".shared .align 4 .f32 s; ld.global.f32 %f1, [%a1]; st.shared.f32 [s], %f1; atom.shared.add.f32 %f2, [s],"
        " %f1; ld.shared.b32 %r1, [s]; st.global.b32 [%to], %r1;"
    )
    assert result(body, tiny, block=1).view(np.float32)[0] == np.float32(tiny[0] * 2) != 0


def test_16_bit_and_128_bit_compare_and_swap():
    word = np.array([7, 1], np.uint16)
    run("mov.u16 %h1, 7; mov.u16 %h2, 9; atom.global.cas.b16 %h3, [%a0], %h1, %h2;", word, block=1, preset=False)
    assert word.tolist() == [9, 1]
    wide = np.array([1, 2, 3, 4, 0, 0], np.uint64)
    run(
        "ld.global.b128 %q1, [%a0]; ld.global.b128 %q2, [%a0+16]; atom.global.cas.b128 %q3, [%a0], %q1, %q2;"
        " st.global.b128 [%a0+32], %q3;",
        wide,
        block=1,
        preset=False,
    )
    assert wide.tolist() == [3, 4, 3, 4, 1, 2]


def test_vector_addition():
    total = np.array([1, 2, 3, 4], np.float32)
    run(
        "mov.f32 %f1, 0f3F800000; atom.global.v4.f32.add {%f2, %f3, %f4, %f5}, [%a0], {%f1, %f1, %f1, %f1};",
        total,
        preset=False,
    )
    assert total.tolist() == [33, 34, 35, 36]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_contention_of_all_blocks(threads):
    count, out = np.zeros(1, np.uint32), np.zeros(24 * 128, np.uint32)
    run(
        "atom.global.add.u32 %r1, [%a1], 1; st.global.b32 [%to], %r1;",
        out,
        count,
        grid=24,
        block=128,
        options=EmulatorOptions(threads=threads),
    )
    assert count[0] == out.size and out.tolist() == list(range(out.size))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("mul.rn.f32 %f1, %f9, 0f3F9D70A4; red.global.add.f32 [%a1], %f1;", id="float-sum"),
        pytest.param("st.global.b32 [%a1], %cta;", id="racing-stores"),
        pytest.param(
            "mul.lo.u32 %r2, %cta, 7; and.b32 %r2, %r2, 15; mad.wide.u32 %rd1, %r2, 4, %a1; ld.global.b32 %r3,"
            " [%rd1]; mad.lo.u32 %r3, %r3, 3, %cta; st.global.b32 [%rd1+4], %r3;",
            id="reads-of-others",
        ),
        pytest.param("ld.global.b32 %r2, [%a1]; add.u32 %r2, %r2, 1; st.global.b32 [%a1], %r2;", id="lost-updates"),
        pytest.param(
            "mad.wide.u32 %rd1, %cta, 2, %a1; cvt.u16.u32 %h1, %cta; st.global.b16 [%rd1], %h1;",
            id="neighbours-in-one-granule",
        ),
    ],
)
def test_same_bits_whatever_the_threads(body):
    results = []
    for threads in (1, 2, 8, 2):
        out, shared = np.zeros(40 * 32, np.uint32), np.arange(64, dtype=np.uint32)
        run(
            "cvt.rn.f32.u32 %f9, %cta;" + body + "ld.global.b32 %r9, [%a1]; st.global.b32 [%to], %r9;",
            out,
            shared,
            grid=40,
            options=EmulatorOptions(threads=threads),
        )
        results.append(out.tobytes() + shared.tobytes())
    assert len(set(results)) == 1


def test_a_fault_in_one_of_many_blocks_leaves_the_same_memory():
    results = []
    for threads in (1, 2, 8):
        out = np.zeros(64 * 32, np.uint32)
        with pytest.raises(KernelFault) as error:
            run(
                "st.global.b32 [%to], 1; setp.eq.u32 %p1, %cta, 20; @%p1 trap;",
                out,
                grid=64,
                options=EmulatorOptions(threads=threads),
            )
        results.append((error.value.block, out.tobytes()))
    assert len(set(results)) == 1


@pytest.mark.parametrize(
    "operation", ["atom.global.add.u32 %r1, [%a0+2], 1;", "atom.global.cas.b64 %rd1, [%a0+4], 1, 2;"]
)
def test_misaligned(operation):
    with pytest.raises(KernelFault) as error:
        run(operation, np.zeros(32, np.uint32))
    assert error.value.kind == "misaligned"
