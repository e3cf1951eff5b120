"""What `--backend both` says, with a second emulator in the GPU's place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmmadiag.backends.differential.both import BothKernel
from wmmadiag.backends.differential.reasons import atomic_sums
from wmmadiag.compile.driver import compile_text
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions, load
from wmmadiag.errors import KernelFault
from wmmadiag.gpu.devices import Device
from wmmadiag.gpu.kernel import GpuOptions
from wmmadiag.launch import Elsewhere, Launch, RunStats
from wmmadiag.subject.card_files.read import load_card
from wmmadiag.subject.check import check_card

DEVICE = Device(0, "Test GPU", "sm_90", 132, 232_448, 2048, "13.0")
HEAD = ".version 8.8\n.target sm_90\n.address_size 64\n"
START = """.visible .entry k(.param .u64 x) {
.reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>; .shared .align 4 .b8 held[512];
.reg .pred %p; ld.param.u64 %d0, [x]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.s64 %d2, %d0, %d1;
mov.u64 %d3, held; add.s64 %d4, %d3, %d1;
"""


class _Stand:
    """An emulator that is asked where a GPU would be."""

    def __init__(self, kernel: EmulatedKernel, ptx: str, change: Callable[[Launch], None] | None = None) -> None:
        self.kernel, self.ptx, self.entry = kernel, ptx, "k"
        self.device, self.options = DEVICE, GpuOptions()
        self.change = change

    def launch(self, launch: Launch) -> RunStats:
        stats = self.kernel.launch(launch)
        if self.change is not None:
            self.change(launch)
        return stats


def _both(body: str, change: Callable[[Launch], None] | None = None, **options: Any) -> BothKernel:
    ptx = HEAD + START + body + "\nret;\n}\n"
    kernel = load(ptx, "k", options=EmulatorOptions(threads=1))
    other = EmulatedKernel(kernel.kernel, replace(kernel.options, **options))
    return BothKernel(kernel, _Stand(other, ptx, change))  # type: ignore[arg-type]


def _notes(both: BothKernel, threads: int = 64) -> str:
    data = np.zeros(threads, np.int32)
    stats = both.launch(Launch((1, 1, 1), (threads, 1, 1), [data], names=["p"]))
    (other,) = stats.elsewhere
    assert other.backend == "gpu"
    return "\n".join(other.notes)


def test_equal_bits_need_no_words() -> None:
    assert _notes(_both("st.global.b32 [%d2], %r0;")) == ""


def test_an_uninitialised_read_is_found_with_the_store_that_shows_it() -> None:
    body = (
        "setp.gt.u32 %p, %r0, 9; @%p st.shared.b32 [%d4], %r0; bar.sync 0; ld.shared.b32 %r1, [%d4];\n"
        "st.global.b32 [%d2], %r1;"
    )
    notes = _notes(_both(body, poison=1))
    assert (
        "p: 10 of 64 elements differ; the first, p[0], is 2147450541 (0x7fff7ead) on the emulator and 1 (0x00000001)"
        in notes
    )
    assert "p[0] was stored last at" in notes
    assert "block (0, 0, 0), warp 0, lane 0" in notes
    assert "uninitialised" in notes
    assert "no known reason" not in notes


def test_a_race_is_found() -> None:
    body = (
        "st.shared.b32 [%d4], %r0; mov.u32 %r2, 63; sub.u32 %r2, %r2, %r0;\n"
        "mul.wide.u32 %d5, %r2, 4; add.s64 %d5, %d3, %d5; ld.shared.b32 %r1, [%d5]; st.global.b32 [%d2], %r1;"
    )
    assert "order in which warps run" in _notes(_both(body, warp_order=(1, 0)))


def test_approximate_functions_are_listed() -> None:
    def change(launch: Launch) -> None:
        launch.arguments[0][3] ^= 1  # type: ignore[index]

    notes = _notes(_both("mov.f32 %f0, 0f3F000000; ex2.approx.ftz.f32 %f1, %f0; st.global.f32 [%d2], %f1;", change))
    assert "p: 1 of 64 elements differ; the first, p[3]" in notes
    assert "ex2.approx.f32 at" in notes


def test_a_difference_without_a_reason_is_called_a_bug() -> None:
    def change(launch: Launch) -> None:
        launch.arguments[0][3] ^= 1  # type: ignore[index]

    assert "no known reason shows" in _notes(_both("st.global.b32 [%d2], %r0;", change))


def test_the_arrays_hold_the_emulators_results() -> None:
    def change(launch: Launch) -> None:
        launch.arguments[0][...] = -1  # type: ignore[index]

    data = np.zeros(64, np.int32)
    both = _both("st.global.b32 [%d2], %r0;", change)
    stats = both.launch(Launch((1, 1, 1), (64, 1, 1), [data]))
    assert data.tolist() == list(range(64))
    assert (stats.elsewhere[0].arrays[0] == -1).all()


def test_a_fault_on_one_side_says_what_the_other_did() -> None:
    both = _both("trap;")
    both.gpu.launch = lambda _: RunStats(0, 0.0)  # type: ignore[assignment, method-assign]
    with pytest.raises(KernelFault) as caught:
        both.launch(Launch((1, 1, 1), (32, 1, 1), [np.zeros(32, np.int32)]))
    assert "on the GPU: it ran to its end there" in caught.value.detail
    both = _both("st.global.b32 [%d2], %r0;")

    def dies(_: Launch) -> RunStats:
        raise KernelFault("CUDA_ERROR_LAUNCH_FAILED", kind="launch-failed")

    both.gpu.launch = dies  # type: ignore[assignment, method-assign]
    with pytest.raises(KernelFault, match="LAUNCH_FAILED") as caught:
        both.launch(Launch((1, 1, 1), (32, 1, 1), [np.zeros(32, np.int32)]))
    assert "the emulator ran the same launch to its end" in caught.value.detail


class _Doubled:
    """A backend whose GPU half leaves wrong numbers."""

    def __init__(self, ptx: str, entry: str, *, arch: str) -> None:
        self.kernel = load(ptx, entry, arch=arch)

    def launch(self, launch: Launch) -> RunStats:
        stats = self.kernel.launch(launch)
        arrays = {index: one.copy() for index, one in enumerate(launch.arguments) if isinstance(one, np.ndarray)}
        last = max(arrays)
        arrays[last][arrays[last].size // 2] += 1
        return replace(stats, elsewhere=(Elsewhere("gpu", arrays, 0.0, ("they differ",)),))


def test_a_case_passes_only_if_it_passes_on_both() -> None:
    card = load_card(Path(__file__).parents[2] / "kernels" / "qkt" / "kernel.toml")
    (result,) = check_card(card, cases=["one_tile"], backend=_Doubled, backend_name="both").cases
    assert result.status == "failed"
    assert "they differ" in result.notes
    assert any("the numbers shown are those of the GPU" in note for note in result.notes)
    assert sum(one.wrong for one in result.observations) == 1


def test_sums_by_atomics_are_a_known_reason():
    body = (
        "__global__ void k(float* a, __half2* h, int* i) {\n"
        "    atomicAdd(a, 1.5f);\n"
        "    a[1] = atomicAdd(a + 2, a[3]);\n"
        "    atomicAdd(h, h[1]);\n"
        "    atomicAdd(i, 1);\n"
        "    atomicMax(i + 1, 1);\n"
        "}\n"
    )
    found = compile_text("#include <cuda_fp16.h>\n" + body, "k.cu")
    places = atomic_sums(load(found.ptx, found.entries[0].name, arch="sm_90"))
    assert [place.line for place in places] == [3, 4, 5]
