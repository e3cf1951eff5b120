"""Tensor-core operations done again: here the emulator stands for the GPU, once as it is and once with other sums."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.backends.differential.tensor_replay import _maps, kernel_text, replay
from wmmadiag.emulator import EmulatorOptions, load
from wmmadiag.gpu.assemble import assemble, nvjitlink
from wmmadiag.launch import Launch, RunStats

TEXTS = [
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32",
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
    "wmma.mma.sync.aligned.col.row.m32n8k16.f16.f16",
    "wmma.mma.sync.aligned.row.col.m8n32k16.f32.bf16.bf16.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32",
]


def _launch(text: str) -> tuple[str, Launch]:
    """A kernel with one operation per block, on random registers of moderate size."""
    maps = _maps(text, "sm_90")
    rng = np.random.default_rng(7)
    arrays = []
    for fragment in maps:
        dtype = {32: np.uint32, 64: np.uint64}[fragment.register_bits]
        bits = rng.integers(0, 1 << 62, (3, fragment.registers, 32)).astype(dtype)
        if fragment.element_bits == 16:
            bits = bits & dtype(0x3FFF3FFF)
        elif fragment.register_bits == fragment.element_bits == 32:
            bits = bits & dtype(0x3FFFFFFF)
        if fragment.used_registers < fragment.registers:
            used = fragment.used_registers
            bits = np.stack([bits[:, index % used] for index in range(fragment.registers)], axis=1)
        arrays.append(np.ascontiguousarray(bits))
    return kernel_text(text, maps), Launch((3, 1, 1), (32, 1, 1), arrays)


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_sums(text: str) -> None:
    ptx, launch = _launch(text)
    kernel = load(ptx, "k", arch="sm_90", options=EmulatorOptions(threads=1))
    said = replay(kernel, launch, "sm_90", lambda again: load(again, "k", arch="sm_90"))
    assert said.startswith("done again on the GPU with the same operands, all 3")


@pytest.mark.skipif(nvjitlink() is None, reason="nvJitLink is not installed")
@pytest.mark.parametrize("text", TEXTS)
def test_a_gpu_can_do_it(text: str) -> None:
    assert assemble(_launch(text)[0], "sm_90")


class _Wrong:
    """A chip that gets one element of the second operation wrong."""

    def __init__(self, ptx: str) -> None:
        self.kernel = load(ptx, "k", arch="sm_90")

    def launch(self, launch: Launch) -> RunStats:
        stats = self.kernel.launch(launch)
        launch.arguments[3][1, 0, 0] ^= 1  # type: ignore[index]
        return stats


def test_the_first_other_sum_is_named() -> None:
    ptx, launch = _launch(TEXTS[0])
    kernel = load(ptx, "k", arch="sm_90", options=EmulatorOptions(threads=1))
    said = replay(kernel, launch, "sm_90", _Wrong)
    assert "the first tensor-core operation whose sum is another" in said
    assert TEXTS[0] in said
    assert "block (1, 0, 0), warp 0, row 0, column 0" in said


def test_a_kernel_without_any() -> None:
    ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
    kernel = load(ptx, "k", options=EmulatorOptions(threads=1))
    assert replay(kernel, Launch((1, 1, 1), (32, 1, 1), []), "sm_90", _Wrong) == ""
