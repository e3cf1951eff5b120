"""A kernel on a GPU: launch it on NumPy arrays, or on arrays that live there."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compile.ptx_scan import first_places
from wmmadiag.errors import ConfigurationError, UnsupportedError
from wmmadiag.gpu import wire
from wmmadiag.gpu.arrays import DeviceArray
from wmmadiag.gpu.assemble import OPTIMISED, Assembly, check_target
from wmmadiag.gpu.devices import Device
from wmmadiag.gpu.devices import device as find_device
from wmmadiag.gpu.meanings import failure, stray_writes
from wmmadiag.gpu.session import GpuSession
from wmmadiag.gpu.workers import worker
from wmmadiag.launch import Launch, RunStats, field_offsets
from wmmadiag.launch.overlaps import together
from wmmadiag.launch.scalars import scalar_bytes
from wmmadiag.place import Place
from wmmadiag.processes.deadline import seconds_left
from wmmadiag.ptx.ir import PtxParameter
from wmmadiag.ptx.types import WIDTHS


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """How a GPU runs a launch."""

    device: int | None = None  # its number; None: WMMADIAG_GPU, else the first
    seconds: float = 60.0  # how long a launch may take, 0: for ever
    assembly: Assembly = OPTIMISED  # how the PTX becomes machine code


class GpuKernel:
    """A kernel ready for a GPU; see `load`."""

    def __init__(self, ptx: str, entry: str, device: Device, options: GpuOptions, code: bytes | None = None) -> None:
        self.ptx = ptx
        self.entry = entry
        self.device = device
        self.options = options
        self.place: Place | None = first_places(ptx).get(entry)
        self.parameters = entry_parameters(ptx, entry)
        self.cooperative = is_cooperative(ptx, entry)
        self.code = code or worker(device.index).assemble(ptx, device.arch, how=options.assembly)
        self.key = hashlib.sha256(self.code).hexdigest()

    def launch(self, launch: Launch) -> RunStats:
        """Run to completion; arrays in `launch.arguments` are changed in place.

        NumPy arrays are copied to the device, between guard zones, and back, in a process of their own. If any
        argument is a `DeviceArray`, the launch runs in this process, since only that can use the array's memory: a
        fault then ends this process' use of the GPU.

        Raises:
            KernelFault: the launch died (the arrays are then unchanged), or wrote beside its arrays.
            BudgetError: it did not end in time.
            ConfigurationError: the arguments do not fit the kernel, or the GPU cannot run it.
            UndecidedError: the GPU failed, not the kernel.
        """
        job, groups, names = self._job(launch)
        fields = [
            one for argument in job.arguments for one in (argument if isinstance(argument, tuple) else [argument])
        ]
        if any(isinstance(one, wire.DeviceAddress) for one in fields):
            session = _own_session(self.device.index)
            answer = session.load(self.key, self.code) or session.run(job)
        else:
            seconds = seconds_left(self.options.seconds)
            answer = worker(self.device.index).ask(self.key, self.code, "run", job, seconds=seconds)
        if isinstance(answer, wire.Failed):
            raise failure(answer, launch, self.device, self.entry, self.place)
        assert isinstance(answer, wire.LaunchDone)
        for data, content in zip(groups, answer.contents, strict=True):
            if content is not None:
                data[...] = np.frombuffer(content, np.uint8)
        fault = stray_writes(answer, names, self.place)
        if fault is not None:
            raise fault
        return RunStats(0, answer.seconds, answer.output)

    def time(self, launch: Launch, *, warm_up: int = 10, repeats: int = 50) -> wire.Timing:
        """Time launches on the device, one after another on changing copies of the arrays, which stay as they are.

        Raises:
            KernelFault, BudgetError, ConfigurationError: as `launch`.
        """
        job, _, _ = self._job(launch)
        seconds = self.options.seconds * (warm_up + repeats)
        answer = worker(self.device.index).ask(self.key, self.code, "time", job, warm_up, repeats, seconds=seconds)
        if isinstance(answer, wire.Failed):
            raise failure(answer, launch, self.device, self.entry, self.place)
        assert isinstance(answer, wire.Timing)
        return answer

    def _job(self, launch: Launch) -> tuple[wire.Job, list[NDArray[np.uint8]], list[str]]:
        """The launch as data, the host memory of each buffer, and the buffers' names."""
        given = launch.parameters()
        if len(given) != len(self.parameters):
            raise ConfigurationError(
                f"{self.entry} takes {len(self.parameters)} arguments, {len(given)} were given",
                place=self.place,
                hint="give one for each parameter of the kernel, in its order",
            )
        names = [launch.name(index) for index in range(len(launch.arguments))]
        if launch.tables:
            raise UnsupportedError(
                f"the kernel gets {names[min(launch.tables)]} as an array of pointers, which no GPU is given here",
                place=self.place,
                hint="run it on the emulator: --backend emulator",
            )
        if min(*launch.grid, *launch.block) < 1:
            raise ConfigurationError(
                f"grid {launch.grid} of blocks {launch.block} cannot be launched",
                hint="every extent must be at least 1",
            )
        arrays = {index: one for index, one in enumerate(launch.arguments) if isinstance(one, np.ndarray)}
        groups = together(arrays, launch.name)
        pointers = {
            index: wire.DevicePointer(number, offset)
            for number, group in enumerate(groups)
            for index, offset in group.offsets.items()
        }
        arguments: list[wire.WireArgument] = []
        for indices, parameter in zip(given, self.parameters, strict=True):
            fields: list[wire.WireField] = []
            for index in indices:
                argument = launch.arguments[index]
                if isinstance(argument, np.ndarray):
                    fields.append(pointers[index])
                elif isinstance(argument, DeviceArray):
                    if argument.device != self.device.index:
                        raise ConfigurationError(
                            f"{names[index]} lives on GPU {argument.device}, the kernel on GPU {self.device.index}",
                            hint="move it to that GPU, or load the kernel there",
                        )
                    fields.append(wire.DeviceAddress(argument.address))
                else:
                    fields.append(scalar_bytes(argument, parameter, names[index]))
            struct = (indices.start, len(indices)) in launch.structs
            sizes = [len(one) if isinstance(one, bytes) else 8 for one in fields]
            size = field_offsets(sizes)[1] if struct else sizes[0]
            if size != parameter.size:
                raise ConfigurationError(
                    f"{' and '.join(names[index] for index in indices)}: {size} bytes were given for a parameter of "
                    f"{parameter.size} bytes (.{parameter.type})",
                    place=self.place,
                    hint="pass an array for a pointer, and a scalar of the parameter's type otherwise",
                )
            arguments.append(tuple(fields) if struct else fields[0])
        titles = [" and ".join(names[index] for index in sorted(group.offsets)) for group in groups]
        buffers = [wire.DeviceBuffer(one.data.tobytes(), one.writeable) for one in groups]
        job = wire.Job(
            self.key, self.entry, launch.grid, launch.block, launch.shared_bytes, arguments, buffers, self.cooperative
        )
        return job, [one.data for one in groups], titles


def load(ptx: str, entry: str = "", *, arch: str = "", options: GpuOptions | None = None) -> GpuKernel:
    """Make a kernel of a PTX module ready to run on a GPU.

    Args:
        entry: mangled name; may be empty when there is only one.
        arch: what the kernel was compiled for; refused if the GPU cannot run it.

    Raises:
        ConfigurationError: no GPU, no such kernel, or compiled for another architecture.
        CompileError: the assembler refuses the PTX.
    """
    options = options or GpuOptions()
    device = find_device(options.device)
    check_target(f".target {arch}" if arch else ptx, device.arch)
    if not entry:
        found = list(entries(ptx))
        if len(found) != 1:
            raise ConfigurationError(f"the PTX holds {len(found)} kernels", hint=f"choose one: {', '.join(found)}")
        entry = found[0]
    return GpuKernel(ptx, entry, device, options)


@functools.cache
def _own_session(device: int) -> GpuSession:
    return GpuSession(device)


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%.]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr\s*(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$%]+)\s*(?:\[\s*(?P<count>\d*)\s*\])?"
)


def entries(ptx: str) -> dict[str, tuple[PtxParameter, ...]]:
    """Name of each kernel → its parameters, with offsets in the parameter block."""
    text = _COMMENT.sub(" ", ptx)
    return {match[1]: _parameters(match[2] or "") for match in _ENTRY.finditer(text)}


def is_cooperative(ptx: str, entry: str) -> bool:
    """Whether a kernel asks for the workspace that only a cooperative launch has: it waits for its whole grid."""
    text = _COMMENT.sub(" ", ptx)
    parts = re.split(r"\.entry\s+([\w$%.]+)", text)
    bodies = dict(zip(parts[1::2], parts[2::2], strict=True))
    return re.search(r"%envreg[12]\b", bodies.get(entry, "")) is not None


def entry_parameters(ptx: str, entry: str) -> tuple[PtxParameter, ...]:
    """The parameters of one kernel.

    Raises:
        ConfigurationError: there is no such kernel.
    """
    found = entries(ptx)
    if entry not in found:
        raise ConfigurationError(f"the PTX has no kernel '{entry}'", hint=f"it has: {', '.join(found) or 'none'}")
    return found[entry]


def _parameters(text: str) -> tuple[PtxParameter, ...]:
    parameters: list[PtxParameter] = []
    offset = 0
    for match in _PARAMETER.finditer(text):
        size = WIDTHS[match["type"]] // 8
        align = int(match["align"] or size)
        count = int(match["count"] or 0) if match["count"] is not None else 1
        offset = -(-offset // align) * align
        parameters.append(PtxParameter(match["name"], match["type"], size * count, align, offset))
        offset += size * count
    return tuple(parameters)
