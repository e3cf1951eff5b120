"""The device half of a program: its kernels by the symbols of their bodies in the host half."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.model import Compilation, Entry, Resources
from wmmadiag.compile.names import base_name, demangle, parameter_types, qualified_name
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.origin import origin_of, ptx_name
from wmmadiag.csource.lambdas import NAME as LAMBDA_CLASS
from wmmadiag.emulator import EmulatedKernel, EmulatorOptions
from wmmadiag.emulator.lower import lower
from wmmadiag.errors import CompileError, ConfigurationError, UnsupportedError
from wmmadiag.programs.build import LAMBDA, ProgramSource
from wmmadiag.programs.device_parts import DeviceParts
from wmmadiag.programs.device_ptx import device_ptx, is_large
from wmmadiag.programs.initial_values import contents, pointers
from wmmadiag.programs.kernel_names import expression_of
from wmmadiag.programs.link import linked, missing, original, private, through_pointers
from wmmadiag.programs.rows import unasked
from wmmadiag.programs.symbols import Symbol
from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import Module, PtxParameter, PtxVariable, Space

_TO_THE_HOST = re.compile(r"\.volatile\.(?!shared)|\.sys\b")
_BODIES = re.compile(r"^[^\n/]*\.(?:entry (?P<name>[\w$]+)|func\b)(?P<body>.*?^\})", re.DOTALL | re.MULTILINE)
_ALONE = 4
"""So many instantiations of a large source are compiled by themselves; with the next one all are."""
_ABI = re.compile(r"\b_V_\d+_SM_\w+?::")


@dataclass
class DeviceKernel:
    """One kernel of a program."""

    number: int  # it is known by to the runtime
    name: str  # with template arguments
    parameters: tuple[PtxParameter, ...]  # in order; `names`: what the source calls them
    names: tuple[str, ...]
    # checked, bare: ready to launch, with the checks and without
    checked: EmulatedKernel
    bare: EmulatedKernel
    compilation: Compilation  # that it comes from
    entry: Entry
    unit: int | None = None  # number of the source; None: of PTX that the program brought
    # the variables of its source that lie in the program's memory: name → address
    variables: Mapping[str, int] = field(default_factory=dict)

    @property
    def parameter_bytes(self) -> int:
        """Size of the block of parameters."""
        return max((one.offset + one.size for one in self.parameters), default=0)

    @property
    def max_threads(self) -> int:
        """Of a block, as `__launch_bounds__` say; 0: nothing."""
        bound = self.checked.kernel.entry.limits.get("maxntid")
        return bound[0] * (bound[1:2] or (1,))[0] * (bound[2:3] or (1,))[0] if bound else 0

    @property
    def cluster(self) -> int:
        """The blocks of a cluster that it was compiled for, x + 256 y + 65536 z; 0: none."""
        x, y, z = (*self.checked.kernel.entry.limits.get("reqnctapercluster", ()), 1, 1, 1)[:3]
        return x | y << 8 | z << 16 if "reqnctapercluster" in self.checked.kernel.entry.limits else 0

    @cached_property
    def talks(self) -> bool:
        """Whether it, or a function of its source, may talk with the host while it runs: what it writes is for it."""
        return any(_TO_THE_HOST.search(one) for one in self._bodies())

    @cached_property
    def unasked(self) -> str:
        """Axes of its block's index that it never asks for (rows.py)."""
        return unasked(self._bodies())

    def reads(self, variable: str) -> bool:
        """Whether it, or a function of its source, names a variable."""
        return any(re.search(rf"\b{re.escape(variable)}\b", one) for one in self._bodies())

    def _bodies(self) -> Iterator[str]:
        bodies = _BODIES.finditer(self.compilation.ptx)
        return (one["body"] for one in bodies if one["name"] in (None, self.entry.name))

    @cached_property
    def registers(self) -> int:
        """Of a thread, as ptxas allocates them; 0: of PTX that the program brought, and no ptxas here takes."""
        from wmmadiag.compile.resource_report import resources

        if not self.compilation.source.endswith(".ptx"):
            return self._registers(resources)
        with contextlib.suppress(CompileError, ConfigurationError):
            return self._registers(resources)
        return 0

    def _registers(self, resources: Callable[[Compilation], tuple[Resources, ...]]) -> int:
        return next(one.registers for one in resources(self.compilation) if one.entry == self.entry.name)


@dataclass(frozen=True)
class LoadedModule:
    """PTX that a program loaded by itself."""

    compilation: Compilation  # it
    variables: Mapping[str, tuple[int, int]]  # name → (device address, bytes)


@dataclass
class DeviceHalf:
    """The kernels of a program; a source is compiled when its first kernel is asked for.

    Attributes:
        units: the sources.
        options: for the compiler.
        how: for the emulator, with the checks' names.
        shadows: the host's shadows of the device's variables, and where those lie on the device.
        place: gives a variable of the device an address, with its contents; `heap`: bytes for malloc in kernels.
        view: where this process has the bytes of a device address.
        registers: whether the program asks what needs its kernels' registers.
        notes: what the user should know of kernels that were made ready.
    """

    units: Sequence[ProgramSource]
    options: CompileOptions
    how: EmulatorOptions
    shadows: Sequence[tuple[Symbol, int]]
    place: Callable[[str, bytes], int]
    heap: Callable[[], int]
    view: Callable[[int], int]
    use_cache: bool = True
    registers: bool = False

    def __post_init__(self) -> None:
        self._known: dict[Symbol, DeviceKernel] = {}
        self._unseen: dict[tuple[int, str], int] = {}
        self._pointing: set[int] = set()
        self._alone: dict[int, int] = {}  # by number of a unit: instantiations that were compiled by themselves
        self.kernels: list[DeviceKernel] = []
        self.modules: list[LoadedModule] = []
        self.notes: list[str] = []
        self.parts = DeviceParts(self.options.arch, self.place, self.heap, self.use_cache)

    def compile(self, unit: ProgramSource, *, separately: bool = False) -> Compilation:
        """The PTX of a source; `separately`: as of `device_ptx`."""
        return device_ptx(unit, self.options, registers=self.registers, separately=separately, use_cache=self.use_cache)

    def kernel(self, symbol: Symbol) -> DeviceKernel:
        """The kernel behind a body.

        Raises:
            ConfigurationError: the device half has none of that name.
            CompileError: NVRTC refused the source.
            UnsupportedError: it reaches something that is not emulated.
        """
        if symbol not in self._known:
            self._known[symbol] = self._load(symbol)
        return self._known[symbol]

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
        return self._loaded(module.compilation, entry, None, addresses)

    def _load(self, symbol: Symbol) -> DeviceKernel:
        readable = demangle(symbol.name)
        if LAMBDA in readable:
            raise UnsupportedError(
                f"{readable}: this lambda cannot be had for the device",
                hint="it must be marked __device__ or __host__ __device__, and capture variables of functions by value"
                " (no reference, no pack, no member of a class that another file defines);"
                " or give the kernel a struct with a __device__ operator()",
            )
        base = readable.partition("<")[0].rpartition("::")[2]
        for number, unit in enumerate(self.units):
            if base not in unit.kernels or symbol.unit not in (None, number):
                continue
            expression = expression_of(readable)
            if is_large(unit) and expression in unit.expressions and self._alone.get(number, 0) < _ALONE:
                self._alone[number] = self._alone.get(number, 0) + 1
                unit = replace(unit, expressions=(expression,))
            compilation = self.compile(unit)
            entry = _entry_of(compilation.entries, symbol.name)
            if entry is not None:
                return self._loaded(compilation, entry, number, {})
        raise ConfigurationError(
            f"the device half has no kernel {readable}",
            hint="the compiler's notes say why it was not instantiated: wmmadiag check SOURCE -v",
        )

    def _places(self, module: Module, unit: int) -> dict[str, int]:
        """Where the variables of a source lie, by their names in its PTX.

        What has internal linkage bears a name of each compiler's own: it is the variable of the same name and source.
        One that only kernels use has no shadow; it is placed here, once for all of the source's kernels.
        """
        shared = {one.name: address for one, address in self.shadows if one.unit is None}
        own = {qualified_name(one.name): address for one, address in self.shadows if one.unit == unit}
        found = {}
        for one in module.variables.values():
            readable = qualified_name(original(one.name))
            if one.name in shared:
                found[one.name] = shared[one.name]
            elif readable in own:
                found[one.name] = own[readable]
            elif one.space is Space.GLOBAL and (
                readable.rpartition("::")[2] in self.units[unit].variables
                or pointers(module, one)  # a table of virtual functions: objects hold its address from launch to launch
            ):
                self._place_unseen(module, one, (unit, readable), found)
            if one.name in found and (held := pointers(module, one)) and found[one.name] not in self._pointing:
                self._pointing.add(found[one.name])
                for offset, address in held:
                    ctypes.c_uint64.from_address(self.view(found[one.name]) + offset).value = address
        return found

    def point(self, shadow: Symbol) -> None:
        """Before the host reads a variable: pointers to functions in it are the device's, not the host's."""
        name = qualified_name(shadow.name).rpartition("::")[2]
        for number, unit in enumerate(self.units):
            if name in unit.variables and shadow.unit in (None, number):
                self._places(parse(self.compile(unit).ptx, name="symbols"), number)

    def _place_unseen(self, module: Module, variable: PtxVariable, key: tuple[int, str], found: dict[str, int]) -> None:
        if key not in self._unseen and (data := contents(module, variable)) is not None:
            self._unseen[key] = self.place(key[1], data)
        if key in self._unseen:
            found[variable.name] = self._unseen[key]

    def _complete(
        self, module: Module, absent: frozenset[str], unit: int | None, addresses: Mapping[str, int]
    ) -> tuple[Module, Mapping[str, int]]:
        """A kernel's module with what other sources of the program define, and the addresses of their variables."""
        known = dict(addresses)
        for number, one in enumerate(self.units):
            if number != unit and (missing(module) or (one.of_device and through_pointers(module))):
                text = private(self.compile(one, separately=True).ptx, number)
                other = parse(text, name=f"module {number}")
                module, known = linked(module, other), self._places(other, number) | known
        module, own = self.parts.completed(module, missing(module) | absent)
        return module, known | dict(own)

    def _loaded(
        self, compilation: Compilation, entry: Entry, unit: int | None, addresses: Mapping[str, int]
    ) -> DeviceKernel:
        """Make a kernel ready.

        Args:
            unit: number of the source; None: PTX that the program brought, with the `addresses` of its variables.
        """
        module = parse(compilation.ptx, name=ptx_name(compilation.ptx), entry=entry.name)
        named: Mapping[str, tuple[str, ...]] = {}
        if unit is not None:
            addresses, named = self._places(module, unit), self.units[unit].kernels
        variables = {name: addresses[name] for name in module.variables if name in addresses}
        absent = missing(module)
        if absent or (len(self.units) > 1 and through_pointers(module)):
            module, addresses = self._complete(module, absent, unit, addresses)
        lowered = lower(module, entry.name, self.options.arch, addresses=addresses)
        origin = origin_of(compilation.ptx)
        parameters = tuple(one for one in lowered.entry.parameters if isinstance(one, PtxParameter))
        own = named.get(base_name(entry.name), ())
        names = own if len(own) == len(parameters) else tuple(f"argument {i}" for i in range(len(parameters)))
        checked = EmulatedKernel(lowered, self.how, origin)
        bare = EmulatedKernel(lowered, replace(self.how, checks=()), origin)
        made = DeviceKernel(
            len(self.kernels), shown(entry.demangled), parameters, names, checked, bare, compilation, entry, unit,
            variables,
        )  # fmt: skip
        self.kernels.append(made)
        return made


def shown(name: str) -> str:
    """A kernel's name for the user: lambdas as such, not as the classes that stand for them."""
    while (found := LAMBDA_CLASS.search(name)) is not None:
        end, depth = found.end(), 0
        while end < len(name):
            depth += {"<": 1, ">": -1}.get(name[end], 0)
            end += 1
            if depth == 0:
                break
        name = f"{name[: found.start()]}lambda{name[end:]}"
    return name


def _entry_of(entries: Sequence[Entry], symbol: str) -> Entry | None:
    """The kernel of a body: of the same symbol, or of the same name and parameters.

    Each compiler has its own names for what has internal linkage; overloads differ in their parameters alone.
    """
    if (exact := next((one for one in entries if one.name == symbol), None)) is not None:
        return exact
    name, parameters = _bare(demangle(symbol)), _bare(parameter_types(symbol))
    alike = [one for one in entries if _bare(one.demangled) == name]
    same = [one for one in alike if _bare(parameter_types(one.name)) == parameters]
    found = same or alike
    return found[0] if len(found) == 1 else None


def _bare(text: str | None) -> str:
    """A name without spaces, and without the namespace by which Thrust and CUB tell architectures apart."""
    return _ABI.sub("", "".join((text or "").split()))
