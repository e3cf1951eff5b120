"""Parts of the GPU backend that need no GPU."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from wmmadiag.errors import CompileError, ConfigurationError, KernelFault, UndecidedError
from wmmadiag.gpu.arrays import DeviceArray, adopt
from wmmadiag.gpu.assemble import assemble, check_target, nvjitlink
from wmmadiag.gpu.devices import Device
from wmmadiag.gpu.kernel import entries, entry_parameters
from wmmadiag.gpu.meanings import MEANINGS, SAME_FAULT, failure, meaning, same_fault, stray_writes
from wmmadiag.gpu.memory import GUARD, placed
from wmmadiag.gpu.wire import Attributes, Failed, LaunchDone, Stray
from wmmadiag.gpu.workers import Worker
from wmmadiag.launch import Launch
from wmmadiag.launch.overlaps import together

HEAD = ".version 8.8\n.target sm_80\n.address_size 64\n"
DEVICE = Device(0, "Test GPU", "sm_90", 132, 232_448, 2048, "13.0")
LAUNCH = Launch((1, 1, 1), (32, 1, 1), [])


def test_parameters_of_all_kinds() -> None:
    ptx = (
        HEAD
        + """.visible .entry a(
    .param .u64 .ptr .global .align 16 a_0, // a comment, with (parentheses)
    .param .f32 a_1,
    .param .align 8 .b8 a_2[24],
    .param .u8 a_3, .param .f64 a_4
)
.maxntid 128 { ret; }
.entry b { ret; }
.entry c() { ret; }
"""
    )
    found = entries(ptx)
    assert [(p.name, p.type, p.size, p.offset) for p in found["a"]] == [
        ("a_0", "u64", 8, 0), ("a_1", "f32", 4, 8), ("a_2", "b8", 24, 16), ("a_3", "u8", 1, 40), ("a_4", "f64", 8, 48),
    ]  # fmt: skip
    assert found["b"] == found["c"] == ()
    with pytest.raises(ConfigurationError, match="no kernel 'd'"):
        entry_parameters(ptx, "d")


@pytest.mark.parametrize(
    ("target", "arch", "runs"),
    [
        ("sm_80", "sm_90", True), ("sm_90", "sm_90", True), ("sm_90a", "sm_90", True), ("sm_100", "sm_90", False),
        ("sm_90a", "sm_100", False), ("sm_100f", "sm_103", True), ("sm_100f", "sm_120", False),
    ],
)  # fmt: skip
def test_targets_that_a_gpu_can_run(target: str, arch: str, runs: bool) -> None:
    if runs:
        check_target(f".target {target}", arch)
    else:
        with pytest.raises(ConfigurationError, match=re.escape(target)):
            check_target(f".target {target}", arch)


@pytest.mark.skipif(nvjitlink() is None, reason="nvJitLink is not installed")
def test_ptx_becomes_a_cubin() -> None:
    code = assemble(HEAD + ".visible .entry k() { ret; }", "sm_90")
    assert code.startswith(b"\x7fELF")


@pytest.mark.skipif(nvjitlink() is None, reason="nvJitLink is not installed")
def test_a_refused_instruction_is_shown() -> None:
    with pytest.raises(CompileError, match=r"a\.ptx.*frobnicate"):
        assemble(HEAD + ".visible .entry k() { frobnicate.u32; }", "sm_90", "a.ptx")


def test_every_meaning_is_complete() -> None:
    for code, one in MEANINGS.items():
        assert one.name.isupper() and one.meaning and one.hint, code
        assert not one.kind or code != 2
    assert meaning(12345).sticky  # unknown: assume the worst


def test_faults_of_both_backends() -> None:
    kinds = {one.kind for one in MEANINGS.values()} | {"read-only"}
    assert set().union(*SAME_FAULT.values()) <= kinds
    assert same_fault("misaligned", "misaligned")
    assert same_fault("trap", "launch-failed")
    assert not same_fault("misaligned", "timeout")


def test_buffers_stand_apart() -> None:
    offsets, size = placed([1, 0, 5000])
    assert offsets[0] >= GUARD and size >= offsets[2] + 5000 + GUARD
    assert offsets[1] >= offsets[0] + 1 + GUARD and offsets[2] >= offsets[1] + GUARD
    assert all(offset % 512 == 0 for offset in offsets)


def test_overlapping_arrays_share_a_buffer() -> None:
    data, other = np.arange(16, dtype=np.int32), np.zeros(3, np.uint8)
    groups = together({0: data[4:], 1: other, 3: data[:8]}, "abcd".__getitem__)
    assert [one.offsets for one in groups] == [{3: 0, 0: 16}, {1: 0}]
    assert groups[0].data.nbytes == 64
    groups[0].data[...] = 0
    assert not data.any()
    with pytest.raises(ConfigurationError, match="b is no C-contiguous"):
        together({1: data[::2]}, "abcd".__getitem__)


def test_launch_failures_name_the_limit() -> None:
    launch = Launch((1, 1, 1), (512, 1, 1), [], shared_bytes=230_000)
    over = failure(Failed(701, "launch", attributes=Attributes(200, 0, 0, 256)), launch, DEVICE, "k", None)
    assert isinstance(over, KernelFault) and over.kind == "launch-limits" and "256" in over.message
    shared = failure(
        Failed(1, "opt in to the shared memory", attributes=Attributes(20, 0, 9_000, 1024)), launch, DEVICE, "k", None
    )
    assert "239,000 bytes" in shared.message
    assert failure(Failed(2, "allocate memory on the GPU"), LAUNCH, DEVICE, "k", None).exit_code == 2
    assert isinstance(failure(Failed(999, "run"), LAUNCH, DEVICE, "k", None), UndecidedError)
    # A sticky error while copying is no verdict on the kernel.
    assert isinstance(failure(Failed(700, "copy to the GPU"), LAUNCH, DEVICE, "k", None), UndecidedError)


def test_the_nearest_stray_write_is_told() -> None:
    done = LaunchDone([None], [], [Stray(0, False, 40, 4), Stray(1, True, 8, 12)], 0.0, "")
    fault = stray_writes(done, ["q", "o"], None)
    assert fault is not None
    assert "8 bytes before the start of o" in fault.message
    assert "q: 4 bytes after it, the nearest 40 bytes away" in fault.detail
    assert stray_writes(LaunchDone([None], [], [], 0.0, ""), ["q"], None) is None


class _Interface:
    def __init__(self, **fields: Any) -> None:
        self.__cuda_array_interface__ = {
            "typestr": "<f4",
            "shape": (2, 3),
            "data": (4096, False),
            "version": 3,
        } | fields
        self.device = type("D", (), {"id": 1})()


def test_cuda_array_interface() -> None:
    found = adopt(_Interface(), "q")
    assert (found.address, found.nbytes, found.device) == (4096, 24, 1)
    assert isinstance(adopt(_Interface(strides=(12, 4)), "q"), DeviceArray)
    with pytest.raises(ConfigurationError, match="q is no C-contiguous"):
        adopt(_Interface(strides=(4, 8)), "q")


class _OnHost:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_dlpack_on_the_host_is_a_view() -> None:
    data = np.arange(6, dtype=np.float32)
    found = adopt(_OnHost(data), "q")
    assert isinstance(found, np.ndarray)
    assert np.shares_memory(found, data)


def test_numbers_and_arrays_stay_as_they_are() -> None:
    data = np.zeros(3)
    for value in (data, 3, 0.5, np.float32(1), b"xyz", "text"):
        assert adopt(value, "q") is value


def test_a_worker_that_ends_is_replaced() -> None:
    worker = Worker(0)
    try:
        ptx = HEAD + ".visible .entry k() { ret; }"
        first = worker.assemble(ptx, "sm_90")
        process = worker._child._process
        assert process is not None
        process.kill()
        process.wait()
        assert worker.assemble(ptx, "sm_90") == first
        assert worker._child._process is not process
    finally:
        worker.stop()


def test_a_worker_hands_errors_over() -> None:
    worker = Worker(0)
    try:
        with pytest.raises(ConfigurationError, match="sm_100"):
            worker.assemble(".target sm_100", "sm_90")
    finally:
        worker.stop()
