"""`--backend both`: the emulator's run, then the GPU's on the same arrays; where they differ, look for the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from wmmadiag.backends.differential.reasons import ArrayDifference, differences, last_store, reasons
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions
from wmmadiag.emulator import load as load_emulated
from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.gpu import GpuKernel, GpuOptions
from wmmadiag.gpu import load as load_gpu
from wmmadiag.gpu.devices import device
from wmmadiag.gpu.meanings import same_fault
from wmmadiag.launch import ArraysByIndex, Elsewhere, Launch, RunStats


class BothKernel:
    """A kernel on the emulator and on a GPU; see `load`."""

    def __init__(self, emulated: EmulatedKernel, gpu: GpuKernel) -> None:
        self.emulated = emulated
        self.gpu = gpu

    def launch(self, launch: Launch) -> RunStats:
        """Run on both. The arrays hold the emulator's results; the GPU's are in `RunStats.elsewhere`.

        Raises:
            KernelFault: the launch died on one of them; `detail` says what became of it on the other.
            WmmadiagError: either backend's other errors.
        """
        before = _copies(launch)
        ours = _outcome(self.emulated, launch)
        emulated = _copies(launch)
        launch.restore(before)
        theirs = _outcome(self.gpu, launch)
        on_gpu = _copies(launch)
        launch.restore(emulated)
        if isinstance(ours, WmmadiagError):
            raise _with_other(ours, theirs)
        if isinstance(theirs, WmmadiagError):
            theirs.detail = "\n".join(filter(None, [theirs.detail, "  the emulator ran the same launch to its end"]))
            raise theirs
        found = differences(emulated, on_gpu, _names(launch))
        notes = self._explained(launch, before, emulated, on_gpu, found) if found else ()
        launch.restore(emulated)
        return replace(ours, elsewhere=(Elsewhere("gpu", on_gpu, theirs.seconds, notes),))

    def _explained(
        self,
        launch: Launch,
        before: ArraysByIndex,
        emulated: ArraysByIndex,
        on_gpu: ArraysByIndex,
        found: tuple[ArrayDifference, ...],
    ) -> tuple[str, ...]:
        notes = [f"emulator and {self.gpu.device.name} differ: {one}" for one in found]

        def again(kernel: GpuKernel | EmulatedKernel) -> ArraysByIndex | None:
            launch.restore(before)
            return None if isinstance(_outcome(kernel, launch), WmmadiagError) else _copies(launch)

        launch.restore(before)
        store = last_store(self.emulated, launch, found[0])
        if store:
            notes.append(store)
        notes += reasons(self.emulated, self.gpu, emulated, on_gpu, again, -(-int(np.prod(launch.block)) // 32))
        return tuple(notes)


def load(
    ptx: str,
    entry: str = "",
    *,
    arch: str = "",
    options: EmulatorOptions | None = None,
    gpu_options: GpuOptions | None = None,
) -> BothKernel:
    """Make a kernel ready to run on both. The emulator runs it as the GPU's own architecture.

    Args:
        arch: what the kernel was compiled for.

    Raises:
        ConfigurationError: no GPU, or one that cannot run the kernel.
        UnsupportedError, PtxSyntaxError: as `wmmadiag.emulator.load`.
    """
    gpu_options = gpu_options or GpuOptions()
    found = device(gpu_options.device)
    gpu = load_gpu(ptx, entry, arch=arch, options=gpu_options)
    return BothKernel(load_emulated(ptx, gpu.entry, arch=found.arch, options=options), gpu)


def _outcome(kernel: EmulatedKernel | GpuKernel, launch: Launch) -> RunStats | WmmadiagError:
    try:
        return kernel.launch(launch)
    except WmmadiagError as error:
        return error


def _with_other(ours: WmmadiagError, theirs: RunStats | WmmadiagError) -> WmmadiagError:
    """The emulator's error, which knows the place, with what the GPU did."""
    if isinstance(theirs, KernelFault) and isinstance(ours, KernelFault):
        agrees = same_fault(ours.kind, theirs.kind)
        words = f"{'it dies there, too' if agrees else 'it dies there of something else'}: {theirs.message}"
    elif isinstance(theirs, WmmadiagError):
        words = theirs.message
    elif isinstance(ours, KernelFault):
        words = "it ran to its end there: the hardware does not check this, or was lucky"
    else:
        words = "it ran to its end there"
    ours.detail = "\n".join(filter(None, [ours.detail, f"  on the GPU: {words}"]))
    return ours


def _names(launch: Launch) -> Mapping[int, str]:
    return {
        index: launch.names[index] if index < len(launch.names) else f"argument {index}"
        for index in range(len(launch.arguments))
    }


def _copies(launch: Launch) -> ArraysByIndex:
    return {index: one.copy() for index, one in enumerate(launch.arguments) if isinstance(one, np.ndarray)}
