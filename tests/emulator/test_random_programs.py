"""Random integer programs with arbitrary control flow, against one thread at a time in Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import module
from scalar_interpreter import COMPARISONS, OPERATIONS, REGISTERS, run_thread, to_ptx

from wmmadiag.emulator import EmulatedKernel, EmulatorOptions, lower
from wmmadiag.launch import Launch
from wmmadiag.ptx import parse

FUEL = 24
register = st.integers(0, REGISTERS - 1)
operation = st.tuples(st.sampled_from(sorted(OPERATIONS)), register, register, register)


@st.composite
def programs(draw):
    count = draw(st.integers(1, 9))
    target = st.integers(0, count - 1)
    terminator = st.one_of(
        st.tuples(st.just("branch"), st.sampled_from(sorted(COMPARISONS)), register, register, target, target),
        st.tuples(st.just("branch"), st.sampled_from(sorted(COMPARISONS)), register, register, target, target),
        st.tuples(st.just("jump"), target),
        st.tuples(st.just("switch"), register, st.lists(target, min_size=1, max_size=5).map(tuple)),
        st.tuples(st.just("end")),
    )
    block = st.tuples(st.lists(operation, max_size=5), terminator)
    return draw(st.lists(block, min_size=count, max_size=count))


@settings(max_examples=250, deadline=None)
@given(programs(), st.integers(0, 2**32 - 1), st.booleans())
def test_every_lane_computes_what_one_thread_would(program, seed, share):
    start = np.random.default_rng(seed).integers(0, 2**32, (40, REGISTERS), dtype=np.uint64)
    start[::3] %= 40
    start[:, 0] = np.arange(40)
    initial = start.astype(np.uint32)
    addresses = f"mul.wide.u32 %rd1, %tid, {4 * REGISTERS}; add.u64 %rd1, %rd1, %a1;"
    loads = "".join(f"ld.global.b32 %r{i + 1}, [%rd1+{4 * i}];" for i in range(REGISTERS))
    stores = "".join(f"st.global.b32 [%rd1+{4 * i}], %r{i + 1};" for i in range(REGISTERS))
    # Uniform code after the end: the lanes meet there, whatever happened before.
    meet = "activemask.b32 %r92; st.global.b32 [%to], %r92;"
    ptx = module(f"{addresses} {loads} {to_ptx(program, FUEL)} {meet} {stores}", "pp")
    kernel = EmulatedKernel(lower(parse(ptx), "k", "sm_90", share_registers=share), EmulatorOptions(threads=1))
    registers, masks = initial.copy(), np.zeros(40, np.uint32)
    kernel.launch(Launch((1, 1, 1), (40, 1, 1), [masks, registers]))
    expected = [run_thread(program, [int(x) for x in row], FUEL) for row in initial]
    assert registers.tolist() == expected
    assert masks.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8
