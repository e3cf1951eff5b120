"""The process in which a program runs: its host half, the runtime, and the emulator behind it."""

from __future__ import annotations

import bisect
import ctypes
import dataclasses
import json
import mmap
import os
import pickle
import re
import resource
import signal
import struct
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmmadiag.compile.names import demangle
from wmmadiag.emulator import Budget, EmulatorOptions
from wmmadiag.errors import UndecidedError, UnsupportedError, WmmadiagError
from wmmadiag.processes.life import bind_to_parent
from wmmadiag.programs.build import BuiltProgram, read_program
from wmmadiag.programs.progress import SHARED_BYTES, compiling
from wmmadiag.programs.properties import device_properties
from wmmadiag.programs.spec import ProgramSpec
from wmmadiag.programs.symbols import Symbol

if TYPE_CHECKING:
    from wmmadiag.launch import DeviceMemory
    from wmmadiag.programs.launches import Request

INVALID_DEVICE_FUNCTION, INVALID_SYMBOL = 98, 13
UNDECIDED, INTERNAL = 3, 70
_OWN_MEMORY = 1 << 30


class _KernelInfo(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int32), ("count", ctypes.c_int32), ("max_threads", ctypes.c_int32),
        ("cluster", ctypes.c_uint32), ("parameter_bytes", ctypes.c_uint64), ("static_shared", ctypes.c_uint64),
        ("local_bytes", ctypes.c_uint64), ("constant_bytes", ctypes.c_uint64),
        ("offsets", ctypes.POINTER(ctypes.c_uint32)), ("sizes", ctypes.POINTER(ctypes.c_uint32)),
        ("body", ctypes.c_uint64), ("name", ctypes.c_char_p),
    )  # fmt: skip


class _LaunchRecord(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.c_int32), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint64), ("parameters", ctypes.c_void_p), ("parameter_bytes", ctypes.c_uint64),
        ("file", ctypes.c_char_p), ("line", ctypes.c_int32), ("cluster", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
    )  # fmt: skip


_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(_KernelInfo))
_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_LaunchRecord), ctypes.POINTER(ctypes.c_uint64))
_SYMBOL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)
)
_PROPERTY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)

_MODULE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_KernelInfo))
_GLOBAL = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)
)
_FINISHED = ctypes.CFUNCTYPE(None)


class _Host(ctypes.Structure):
    _fields_ = (
        ("kernel", _KERNEL), ("launch", _LAUNCH), ("symbol", _SYMBOL), ("module", _MODULE), ("function", _FUNCTION),
        ("global_", _GLOBAL), ("property", _PROPERTY),
        ("finished", _FINISHED), ("unsupported", _MODULE), ("findings", ctypes.c_int),
    )  # fmt: skip


class Served:
    """What the runtime asks of the process around it."""

    mode = ctypes.RTLD_GLOBAL  # how the runtime is loaded
    shared: mmap.mmap | None = None  # memory in which the parent reads what launch runs

    def __init__(self, spec: ProgramSpec, folder: Path, runtime: Path, includes: Sequence[Path], findings: int) -> None:
        self.spec, self.findings = spec, findings
        self.program: BuiltProgram = read_program(folder, runtime)
        self.runtime = ctypes.CDLL(str(self.program.runtime), mode=self.mode)
        for name in (
            "wmmadiag_memory",
            "wmmadiag_watched",
            "wmmadiag_content",
            "wmmadiag_variable",
            "wmmadiag_heap_bytes",
            "wmmadiag_view",
        ):
            getattr(self.runtime, name).restype = ctypes.c_uint64
        self.runtime.wmmadiag_refused.restype = ctypes.c_char_p
        self.runtime.wmmadiag_view.argtypes = (ctypes.c_uint64,)
        for one in includes:
            self.runtime.wmmadiag_include(str(one).encode())
        self.properties = device_properties(spec.options.arch, spec.memory)
        self.starts = [one.start for one in self.program.kernels]
        self.base, self.told = 0, 0.0
        self.noted: set[str] = set()
        self.kept: list[object] = []
        self.shadows: dict[int, tuple[Symbol, int]] = {}
        self.device: Any = None
        self.launcher: Any = None
        self.host = _Host(
            _KERNEL(self.guarded(self.kernel)),
            _LAUNCH(self.guarded(self.launch)),
            _SYMBOL(self.guarded(self.symbol)),
            _MODULE(self.guarded(self.module)),
            _FUNCTION(self.guarded(self.function)),
            _GLOBAL(self.guarded(self.variable)),
            _PROPERTY(self.guarded(self.property)),
            _FINISHED(self.finished),
            _MODULE(self.guarded(self.unsupported)),
            findings,
        )
        self.begin()

    def unsupported(self, why: bytes) -> int:
        """The program asks for what is not offered."""
        text = why.decode("utf-8", "replace")
        raise UnsupportedError(
            re.sub(r"\b_Z\w+", lambda name: demangle(name[0]), text),
            hint="write __global__ where it is declared, and launch it by its own name or through a pointer to it",
        )

    def finished(self) -> None:
        """The program has ended by itself."""
        if self.spec.leaks:
            self.runtime.wmmadiag_leaks()
        self.send(
            launches=self.launches(), shown=bool(self.runtime.wmmadiag_shown()),
            refused=self.runtime.wmmadiag_refused().decode("utf-8", "replace"),
        )  # fmt: skip

    def begin(self) -> None:
        """Tell the runtime who serves it; this process is the program's alone."""
        self.runtime.wmmadiag_begin(ctypes.byref(self.host))
        if self.spec.checks != "none" and not self.spec.idle:
            self.runtime.wmmadiag_guard()
        if self.spec.per_thread:
            self.runtime.wmmadiag_per_thread()
        if self.spec.hastened:
            self.runtime.wmmadiag_hasten()

    def send(self, **record: Any) -> None:
        """Tell the parent."""
        os.write(self.findings, (json.dumps(record) + "\n").encode())

    def guarded(self, function: Any) -> Any:
        """A callback that ends the process where it cannot go on: nothing is answered that is not so."""

        def call(*arguments: Any) -> int:
            try:
                return int(function(*arguments))
            except WmmadiagError as error:
                self.end(
                    UNDECIDED if isinstance(error, UndecidedError) else error.exit_code,
                    ended=str(error), launches=self.launches(),
                )  # fmt: skip
            except BaseException:
                self.end(INTERNAL, internal=traceback.format_exc())
            return 1

        return call

    def end(self, code: int, **record: Any) -> None:
        """Tell the parent why, and end at once; what the program has written is kept."""
        self.send(**record)
        ctypes.CDLL(None).fflush(None)
        os._exit(code)

    def launches(self) -> tuple[int, int, int, int, int, int]:
        """How many there were; were watched; a sample of; no check of streams could follow; were repeats; were cut."""
        made = self.launcher
        if made is None:
            return (0, 0, 0, 0, 0, 0)
        return (made.launches, made.watched, made.sampled, made.unfollowed, made.repeats.count, made.settled)

    def located(self) -> int:
        """Where the program's library was loaded."""
        if not self.base:
            library = str(self.program.library.resolve())
            maps = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
            self.base = min(int(line.split("-")[0], 16) for line in maps if line.endswith(library))
        return self.base

    def prepare(self) -> None:
        """Import the emulator, and give the device's variables their places."""
        if self.device is not None:
            return
        from wmmadiag.checks.registry import native_names, select
        from wmmadiag.programs.device import DeviceHalf
        from wmmadiag.programs.launches import Launcher
        from wmmadiag.programs.progress import BlockProgress

        spec = self.spec
        placed = []
        for one in self.program.variables:
            address = self.runtime.wmmadiag_variable(
                one.name.encode(),
                ctypes.c_uint64(one.size),
                ctypes.c_uint64(self.located() + one.start),
                int(demangle(one.name).rpartition("::")[2] in self.program.managed),
            )
            placed.append((one, address))
            self.shadows[self.located() + one.start] = (one, address)
        checks = select(spec.checks)
        budget = Budget(spec.instructions, spec.seconds)
        progress = BlockProgress(shared=self.shared)
        how = EmulatorOptions(
            threads=spec.threads, budget=budget, checks=native_names(checks), begun=progress.address,
            multiprocessors=self.properties["multiProcessorCount"],
        )  # fmt: skip
        self.device = DeviceHalf(
            self.program.units, spec.options, how, placed, self.placed, self.runtime.wmmadiag_heap_bytes,
            self.runtime.wmmadiag_view, spec.use_cache, self.program.registers,
        )  # fmt: skip
        self.launcher = Launcher(
            self.runtime, checks, spec.schedules, spec.every_launch, spec.sample, progress=progress,
            idle=spec.idle, halves=spec.halves,
        )  # fmt: skip
        if spec.capture:
            self.launcher.capture = self.captured

    def kernel(self, address: int, info: Any) -> int:
        """Describe the kernel whose body holds an address."""
        offset = address - self.located()
        at = bisect.bisect_right(self.starts, offset) - 1
        if at < 0 or offset > self.program.kernels[at].start + self.program.kernels[at].size:
            return INVALID_DEVICE_FUNCTION
        with compiling(self.shared):
            self.prepare()
            found = self.device.kernel(self.program.kernels[at])
        self.describe(found, info)
        info.contents.body = self.located() + self.program.kernels[at].start
        while self.device.notes:
            self.send(note=self.device.notes.pop())
        return 0

    def describe(self, kernel: Any, info: Any) -> None:
        """A kernel as the runtime takes it."""
        count = len(kernel.parameters)
        offsets = (ctypes.c_uint32 * max(count, 1))(*(one.offset for one in kernel.parameters))
        sizes = (ctypes.c_uint32 * max(count, 1))(*(one.size for one in kernel.parameters))
        name = kernel.entry.name.encode()
        self.kept += [offsets, sizes, name]
        to = info.contents
        to.id, to.count, to.max_threads = kernel.number, count, kernel.max_threads
        to.cluster, to.name = kernel.cluster, name
        to.parameter_bytes = kernel.parameter_bytes
        to.static_shared = kernel.checked.kernel.layout.declared_static_bytes
        to.local_bytes = kernel.checked.kernel.local_bytes
        to.offsets, to.sizes = ctypes.cast(offsets, type(to.offsets)), ctypes.cast(sizes, type(to.sizes))

    def module(self, text: bytes) -> int:
        """Load PTX that the program brings or made itself."""
        self.prepare()
        return int(self.device.load_module(text.decode("utf-8", "replace")))

    def placed(self, name: str, data: bytes) -> int:
        """Give a variable its place."""
        content = ctypes.create_string_buffer(data, len(data))
        address = self.runtime.wmmadiag_variable(name.encode(), ctypes.c_uint64(len(data)), content, 0)
        return int(address)

    def function(self, module: int, name: bytes, info: Any) -> int:
        """Describe a kernel of such PTX."""
        kernel = self.device.module_kernel(module, name.decode("utf-8", "replace"))
        if kernel is None:
            return INVALID_DEVICE_FUNCTION
        self.describe(kernel, info)
        return 0

    def variable(self, module: int, name: bytes, device: Any, size: Any) -> int:
        """Where a variable of such PTX lies."""
        found = self.device.modules[module - 1].variables.get(name.decode("utf-8", "replace"))
        if found is None:
            return INVALID_SYMBOL
        device[0], size[0] = found
        return 0

    def launch(self, record: Any, instructions: Any) -> int:
        """Run a launch."""
        from wmmadiag.programs.launches import Request

        asked = record.contents
        kernel = self.device.kernels[asked.kernel]
        parameters = ctypes.string_at(asked.parameters, asked.parameter_bytes) if asked.parameter_bytes else b""
        place = f"{asked.file.decode('utf-8', 'replace')}:{asked.line}" if asked.file else ""
        packed = asked.cluster
        cluster = (packed & 255, packed >> 8 & 255, packed >> 16) if packed else None
        request = Request(
            kernel, tuple(asked.grid), tuple(asked.block), asked.shared, parameters, place, bool(asked.stream), cluster
        )  # fmt: skip
        error, instructions[0] = self.run(request)
        return error

    def run(self, request: Request) -> tuple[int, int]:
        """Run a launch: the error, and its warp instructions."""
        self.device.parts.turn_heap(self.runtime.wmmadiag_view)
        if time.monotonic() > self.told + 1.0:  # of a program that is cut off, what was covered is known
            self.told = time.monotonic()
            begun, *others = self.launches()
            self.send(launches=(begun + 1, *others))
        outcome = self.launcher.launch(request)
        if outcome.output:
            text = outcome.output.encode()
            self.runtime.wmmadiag_printed(text, ctypes.c_uint64(len(text)))
        if outcome.note and outcome.note not in self.noted:
            self.noted.add(outcome.note)
            self.send(note=outcome.note)
        if outcome.findings:
            self.send(
                findings=[dataclasses.asdict(one) for one in outcome.findings], kernel=request.kernel.name,
                place=request.place, number=self.launcher.launches, grid=request.grid, block=request.block,
            )  # fmt: skip
        return 0 if self.spec.keep_going else int(outcome.error), outcome.instructions

    def property(self, name: bytes) -> int:
        """A property of the device; or "registers:3", those of a kernel as ptxas allocates them."""
        what, *numbers = name.decode().split(":")
        if what == "registers":
            return int(self.device.kernels[int(numbers[0])].registers)
        return self.properties.get(what, 0)

    def captured(self, request: Request, memory: Sequence[DeviceMemory]) -> Callable[[], None]:
        """Tell the parent all that a card says of a launch, and once it is done the rest.

        A kernel that launches others runs in programs alone.
        """
        from wmmadiag.programs.capture import tell

        if request.cluster:
            return lambda: None
        return tell(request, memory, self.launcher.launches, self.send)

    def holds_code(self, shadow: int, size: int) -> bool:
        """Whether a variable of the host may hold the address of one of the program's functions."""
        words = ctypes.string_at(shadow, size - size % 8)
        end = self.located() + self.program.library.stat().st_size
        return any(self.located() <= one < end for (one,) in struct.iter_unpack("<Q", words))

    def symbol(self, shadow: int, device: Any, size: Any) -> int:
        """Where the variable lies whose shadow is at an address."""
        self.prepare()
        found = self.shadows.get(shadow)
        if found is None:
            return INVALID_SYMBOL
        if self.holds_code(shadow, found[0].size):
            self.device.point(found[0])
        size[0], device[0] = found[0].size, found[1]
        return 0


def main(words: Sequence[str]) -> None:
    """Run the program that words describe: its spec, descriptors, name, its own arguments."""
    told, findings, watched, shared, *words = words
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    bind_to_parent(int(watched))
    spec, folder, runtime, includes = pickle.loads(Path(told).read_bytes())
    served = Served(spec, folder, runtime, includes, int(findings))
    served.shared = mmap.mmap(int(shared), SHARED_BYTES)
    for note in served.program.notes:
        served.send(note=note)
    if most := spec.memory:
        whole = _OWN_MEMORY + 4 * most  # the emulator's, which keeps notes of the device's, too
        resource.setrlimit(resource.RLIMIT_DATA, (whole, whole))
    system = ctypes.CDLL(None)
    program = ctypes.CDLL(str(served.program.library), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
    arguments = (ctypes.c_char_p * (len(words) + 1))(*(os.fsencode(one) for one in words), None)
    environment = ctypes.c_void_p.in_dll(system, "environ")
    code = program.main(len(words), arguments, environment)
    served.runtime.cudaDeviceSynchronize()
    system.exit(code & 0xFF)
