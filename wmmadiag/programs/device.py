"""The device half of a program: its kernels by the symbols of their bodies in the host half."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from wmmadiag.compile import Compilation, CompileOptions, compile_source, compile_text
from wmmadiag.compile.model import Entry, Resources
from wmmadiag.compile.names import base_name, demangle
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions
from wmmadiag.emulator.lower import lower
from wmmadiag.errors import CompileError, ConfigurationError, UnsupportedError
from wmmadiag.programs.build import LAMBDA, Symbol, Unit
from wmmadiag.programs.link import heap, linked, missing, private
from wmmadiag.programs.shipped import NATIVE
from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import Module, Parameter, Space

HEAP_LISTS = 40
"""`lists` of native/device/heap.cu."""
_SEPARATELY = "--relocatable-device-code=true"


@dataclass
class DeviceKernel:
    """One kernel of a program.

    Attributes:
        number: it is known by to the runtime.
        name: with template arguments.
        parameters: in order; `names`: what the source calls them.
        checked, bare: ready to launch, with the checks and without.
        compilation: that it comes from.
    """

    number: int
    name: str
    parameters: tuple[Parameter, ...]
    names: tuple[str, ...]
    checked: EmulatedKernel
    bare: EmulatedKernel
    compilation: Compilation
    entry: Entry

    @property
    def parameter_bytes(self) -> int:
        """Size of the block of parameters."""
        return max((one.offset + one.size for one in self.parameters), default=0)

    @property
    def max_threads(self) -> int:
        """Of a block, as `__launch_bounds__` say; 0: nothing."""
        bound = self.checked.kernel.entry.limits.get("maxntid")
        return bound[0] * (bound[1:2] or (1,))[0] * (bound[2:3] or (1,))[0] if bound else 0

    @cached_property
    def registers(self) -> int:
        """Of a thread, as ptxas allocates them; 0: of PTX that the program brought, and no ptxas here takes."""
        from wmmadiag.compile import resources

        if not self.compilation.source.endswith(".ptx"):
            return self._registers(resources)
        with contextlib.suppress(CompileError, ConfigurationError):
            return self._registers(resources)
        return 0

    def _registers(self, resources: Callable[[Compilation], tuple[Resources, ...]]) -> int:
        return next(one.registers for one in resources(self.compilation) if one.entry == self.entry.name)


@dataclass(frozen=True)
class LoadedModule:
    """PTX that a program loaded by itself.

    Attributes:
        compilation: it.
        variables: name → (device address, bytes).
    """

    compilation: Compilation
    variables: Mapping[str, tuple[int, int]]


@dataclass
class DeviceHalf:
    """The kernels of a program; a source is compiled when its first kernel is asked for.

    Attributes:
        units: the sources.
        options: for the compiler.
        how: for the emulator, with the checks' names.
        addresses: where the device's variables lie, by their names in the PTX.
        place: gives a variable of the device an address, with its contents; `heap`: bytes for malloc in kernels.
    """

    units: Sequence[Unit]
    options: CompileOptions
    how: EmulatorOptions
    addresses: Mapping[str, int]
    place: Callable[[str, bytes], int]
    heap: Callable[[], int]
    use_cache: bool = True

    def __post_init__(self) -> None:
        self._known: dict[str, DeviceKernel] = {}
        self.kernels: list[DeviceKernel] = []
        self.modules: list[LoadedModule] = []

    def compile(self, unit: Unit, *, separately: bool = False) -> Compilation:
        """The PTX of a source, with the instantiations that the host half uses.

        Args:
            separately: with functions that it does not call itself, for kernels of other sources.
        """
        extra = (*self.options.extra, *([_SEPARATELY] if separately else ()))
        options = replace(self.options, name_expressions=unit.expressions, extra=extra)
        return compile_source(Path(unit.source), options, use_cache=self.use_cache)

    def kernel(self, symbol: Symbol) -> DeviceKernel:
        """The kernel behind a body.

        Raises:
            ConfigurationError: the device half has none of that name.
            CompileError: NVRTC refused the source.
            UnsupportedError: it reaches something that is not emulated.
        """
        if symbol.name not in self._known:
            self._known[symbol.name] = self._load(symbol)
        return self._known[symbol.name]

    def load_module(self, ptx: str) -> int:
        """The number, from 1, of PTX that the program loads.

        Raises:
            PtxSyntaxError: it is none.
        """
        name = f"module {len(self.modules) + 1}.ptx"
        compilation = compile_text(ptx, name, self.options)
        variables: dict[str, tuple[int, int]] = {}
        for one in parse(ptx, name=name).variables.values():
            initial = one.initializer
            if one.space in (Space.GLOBAL, Space.CONST) and one.size and not (initial and initial.relocations):
                data = bytes(initial.data) if initial is not None else bytes(one.size)
                variables[one.name] = (self.place(one.name, data), one.size)
        self.modules.append(LoadedModule(compilation, variables))
        return len(self.modules)

    def module_kernel(self, number: int, name: str) -> DeviceKernel | None:
        """A kernel of such PTX by its name in it; None where it has none."""
        module = self.modules[number - 1]
        entry = next((one for one in module.compilation.entries if one.name == name), None)
        if entry is None:
            return None
        addresses = {variable: address for variable, (address, _) in module.variables.items()}
        return self._loaded(module.compilation, entry, {}, addresses)

    def _load(self, symbol: Symbol) -> DeviceKernel:
        readable = demangle(symbol.name)
        if LAMBDA in readable:
            raise UnsupportedError(
                f"{readable}: kernels over a lambda of the host are not emulated",
                hint="give the kernel a struct with a __device__ operator() in its place",
            )
        base = readable.partition("<")[0].rpartition("::")[2]
        for unit in self.units:
            if base not in unit.kernels:
                continue
            compilation = self.compile(unit)
            entry = next((one for one in compilation.entries if one.name == symbol.name), None)
            entry = entry or next((one for one in compilation.entries if _same(one, symbol.name)), None)
            if entry is not None:
                return self._loaded(compilation, entry, unit.kernels, self.addresses)
        raise ConfigurationError(
            f"the device half has no kernel {readable}",
            hint="the compiler's notes say why it was not instantiated: wmmadiag check SOURCE -v",
        )

    def _complete(
        self, module: Module, absent: frozenset[str], compilation: Compilation, addresses: Mapping[str, int]
    ) -> tuple[Module, Mapping[str, int]]:
        """A kernel's module with what other sources of the program define, and the addresses of their variables."""
        known = dict(addresses)
        if absent & {"malloc", "free"}:
            text, own = self._heap
            module, known = linked(module, [text]), known | own
        others = [
            self.compile(one, separately=True).ptx
            for one in self.units
            if missing(module) and one.source != compilation.source
        ]
        for number in range(1, len(others) + 1):
            known |= {private(name, number): address for name, address in addresses.items()}
        return linked(module, others), known

    def turn_heap(self, view: Callable[[int], int]) -> None:
        """Before a launch: what earlier ones freed may be given out by malloc.

        Args:
            view: where this process has the bytes of a device address.
        """
        if "_heap" not in self.__dict__:
            return
        lists = (ctypes.c_uint64 * (2 * HEAP_LISTS)).from_address(view(self._heap[1]["wmmadiag_heap_lists"]))
        for one in range(HEAP_LISTS):
            if lists[one] & 0xFFFFFFFF == 0:
                lists[one], lists[HEAP_LISTS + one] = lists[HEAP_LISTS + one], 0

    @cached_property
    def _heap(self) -> tuple[str, dict[str, int]]:
        """What kernels call for memory, and where their variables lie."""
        source = NATIVE / "device" / "heap.cu"
        compilation = compile_source(
            source, CompileOptions(arch=self.options.arch, extra=(_SEPARATELY,)), use_cache=self.use_cache
        )
        size = self.heap()
        places = {
            "wmmadiag_heap": self.place("the heap of malloc in kernels", size.to_bytes(8, "little") + bytes(size))
        }
        for one in parse(compilation.ptx, name="heap.cu").variables.values():
            if one.name not in places and one.size:
                places[one.name] = self.place(one.name, bytes(one.size))
        return heap(compilation.ptx), places

    def _loaded(
        self,
        compilation: Compilation,
        entry: Entry,
        named: Mapping[str, tuple[str, ...]],
        addresses: Mapping[str, int],
    ) -> DeviceKernel:
        from wmmadiag.compile.origin import origin_of, ptx_name

        module = parse(compilation.ptx, name=ptx_name(compilation.ptx), entry=entry.name)
        if absent := missing(module):
            module, addresses = self._complete(module, absent, compilation, addresses)
        lowered = lower(module, entry.name, self.options.arch, addresses=addresses)
        origin = origin_of(compilation.ptx)
        parameters = tuple(one for one in lowered.entry.parameters if isinstance(one, Parameter))
        given = named.get(base_name(entry.name), ())
        names = given if len(given) == len(parameters) else tuple(f"argument {i}" for i in range(len(parameters)))
        checked = EmulatedKernel(lowered, self.how, origin)
        bare = EmulatedKernel(lowered, replace(self.how, checks=()), origin)
        made = DeviceKernel(len(self.kernels), entry.demangled, parameters, names, checked, bare, compilation, entry)
        self.kernels.append(made)
        return made


def _same(entry: Entry, symbol: str) -> bool:
    """Whether an entry is the kernel of a body: each compiler has its own names for what has internal linkage."""
    return "".join(entry.demangled.split()) == "".join(demangle(symbol).split())
