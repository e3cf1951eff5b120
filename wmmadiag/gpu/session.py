"""One GPU's primary context: modules, launches, times. Lives in a worker, or beside the device arrays it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wmmadiag.gpu import wire
from wmmadiag.gpu.devices import DriverError, api, call
from wmmadiag.gpu.memory import Arena
from wmmadiag.launch import struct_bytes

_DEFAULT_SHARED = 48 << 10  # more needs the opt-in (CUDA C++ Programming Guide, "Shared Memory")
_LOG_BYTES = 1 << 14


@dataclass(slots=True)
class _CudaModule:
    handle: Any
    functions: dict[str, Any]


class GpuSession:
    """Modules and launches on one GPU."""

    def __init__(self, device: int) -> None:
        driver = api()
        handle = call(driver.cuDeviceGet(device), "open the GPU")
        self._context = call(driver.cuDevicePrimaryCtxRetain(handle), "make a context on the GPU")
        self._modules: dict[str, _CudaModule] = {}
        self._l2 = int(
            call(
                driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, handle),
                "ask the GPU",
            )
        )

    def load(self, key: str, code: bytes) -> wire.Failed | None:
        """Load a module (cubin, or PTX with a final NUL) under a key; None if that went well."""
        if key in self._modules:
            return None
        driver = api()
        log = bytearray(_LOG_BYTES)
        option = driver.CUjit_option
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        try:
            call(driver.cuCtxSetCurrent(self._context), "use the GPU's context")
            handle = call(
                driver.cuModuleLoadDataEx(code, len(options), options, [log, _LOG_BYTES]), "load the compiled kernel"
            )
        except DriverError as error:
            text = log.split(b"\0")[0].decode("utf-8", "replace").strip()
            return wire.Failed(error.code, error.doing, log=text)
        self._modules[key] = _CudaModule(handle, {})
        return None

    def run(self, job: wire.Job, output: Callable[[], str] = str) -> wire.LaunchDone | wire.Failed:
        """Launch once and wait for the end.

        Args:
            output: reads what device printf has written since it was last called.
        """
        arena: Arena | None = None
        attributes: wire.Attributes | None = None
        driver = api()
        try:
            call(driver.cuCtxSetCurrent(self._context), "use the GPU's context")
            function, attributes = self._prepared(job)
            attributes = self._opt_in(function, attributes, job)
            arena = Arena(job.buffers)
            start, stop = self._event(), self._event()
            call(driver.cuEventRecord(start, 0), "time the launch")
            self._launch(function, job, arena)
            call(driver.cuEventRecord(stop, 0), "time the launch")
            call(driver.cuCtxSynchronize(), "run")
            seconds = float(call(driver.cuEventElapsedTime(start, stop), "time the launch")) * 1e-3
            contents = [arena.contents(i) if buffer.writable else None for i, buffer in enumerate(job.buffers)]
            done = wire.LaunchDone(contents, arena.changed(), arena.strays(), seconds, output(), attributes)
            for event in (start, stop):
                call(driver.cuEventDestroy(event), "time the launch")
        except DriverError as error:
            return wire.Failed(error.code, error.doing, output(), attributes=attributes)
        finally:
            if arena is not None:
                arena.free()
        return done

    def time(self, job: wire.Job, warm_up: int, repeats: int) -> wire.Timing | wire.Failed:
        """Launch repeatedly, each time on another copy of the buffers; outputs are not read."""
        driver = api()
        arenas: list[Arena] = []
        attributes: wire.Attributes | None = None
        try:
            call(driver.cuCtxSetCurrent(self._context), "use the GPU's context")
            function, attributes = self._prepared(job)
            attributes = self._opt_in(function, attributes, job)
            size = sum(len(memoryview(buffer.data).cast("B")) for buffer in job.buffers)
            # Twice the cache, so that a launch finds nothing of what the one before it left there.
            copies = max(2, min(64, -(-2 * self._l2 // max(size, 1)))) if job.buffers else 1
            arenas = [Arena(job.buffers) for _ in range(copies)]
            for index in range(warm_up):
                self._launch(function, job, arenas[index % copies])
            call(driver.cuCtxSynchronize(), "run")
            events = [(self._event(), self._event()) for _ in range(repeats)]
            for index, (start, stop) in enumerate(events):
                call(driver.cuEventRecord(start, 0), "time the launch")
                self._launch(function, job, arenas[index % copies])
                call(driver.cuEventRecord(stop, 0), "time the launch")
            call(driver.cuCtxSynchronize(), "run")
            times = [float(call(driver.cuEventElapsedTime(*pair), "time the launch")) * 1e-3 for pair in events]
            for pair in events:
                for event in pair:
                    driver.cuEventDestroy(event)
            return wire.Timing(times, attributes)
        except DriverError as error:
            return wire.Failed(error.code, error.doing, attributes=attributes)
        finally:
            for arena in arenas:
                arena.free()

    def _event(self) -> Any:
        return call(api().cuEventCreate(0), "time the launch")

    def _prepared(self, job: wire.Job) -> tuple[Any, wire.Attributes]:
        """The function, and what the driver says of it."""
        driver = api()
        module = self._modules[job.key]
        if job.entry not in module.functions:
            found = call(driver.cuModuleGetFunction(module.handle, job.entry.encode()), "find the kernel")
            module.functions[job.entry] = found
        function = module.functions[job.entry]
        names = driver.CUfunction_attribute

        def ask(name: str) -> int:
            attribute = getattr(names, f"CU_FUNC_ATTRIBUTE_{name}")
            return int(call(driver.cuFuncGetAttribute(attribute, function), "ask about the kernel"))

        static = ask("SHARED_SIZE_BYTES")
        attributes = wire.Attributes(ask("NUM_REGS"), ask("LOCAL_SIZE_BYTES"), static, ask("MAX_THREADS_PER_BLOCK"))
        return function, attributes

    @staticmethod
    def _opt_in(function: Any, attributes: wire.Attributes, job: wire.Job) -> wire.Attributes:
        """Ask for the shared memory that the job wants; with it, how many blocks a multiprocessor holds."""
        driver = api()
        if attributes.static_shared + job.shared_bytes > _DEFAULT_SHARED:
            option = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call(driver.cuFuncSetAttribute(function, option, job.shared_bytes), wire.OPT_IN)
        threads = job.block[0] * job.block[1] * job.block[2]
        status, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, job.shared_bytes)
        blocks = int(blocks) if int(status) == 0 else 0
        return replace(attributes, blocks=blocks)

    @staticmethod
    def _launch(function: Any, job: wire.Job, arena: Arena) -> None:
        values = [np.frombuffer(_value(argument, arena), np.uint8) for argument in job.arguments]
        pointers = np.array([value.ctypes.data for value in values], np.uint64)
        shape = (function, *job.grid, *job.block, job.shared_bytes, 0, pointers.ctypes.data)
        if job.cooperative:
            call(api().cuLaunchCooperativeKernel(*shape), "launch")
        else:
            call(api().cuLaunchKernel(*shape, 0), "launch")


def _value(argument: wire.WireArgument, arena: Arena) -> bytes:
    if isinstance(argument, tuple):
        return struct_bytes([_value(field, arena) for field in argument])
    if isinstance(argument, wire.DevicePointer):
        return arena.address(argument.buffer, argument.offset).to_bytes(8, "little")
    if isinstance(argument, wire.DeviceAddress):
        return argument.value.to_bytes(8, "little")
    return argument
