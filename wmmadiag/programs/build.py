"""A program's host half as a shared object, compiled by the machine's C++ compiler and kept in the cache."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wmmadiag.compile import cache
from wmmadiag.compile.driver import source_key, source_tree
from wmmadiag.compile.host_compiler import (
    compiler_version,
    host_compiler,
    is_gcc,
    one_main,
    run_compiler,
    run_with_help,
)
from wmmadiag.compile.model import source_name
from wmmadiag.compile.names import demangle
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.read import read_text
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.errors import CompileError
from wmmadiag.programs.c_sources import AS_CPP, as_cpp, of_a_library
from wmmadiag.programs.kernel_names import expression_of
from wmmadiag.programs.prepared import PreparedSource
from wmmadiag.programs.runtime import prelude, prune, runtime_library, runtime_stamp
from wmmadiag.programs.shipped import NATIVE
from wmmadiag.programs.symbols import (
    Symbol,
    base_of,
    called_by,
    is_kernel,
    of_macro,
    symbols_of,
    without_namesakes,
)

_FLAGS = ("-O1", "-g1", "-gdwarf-4", "-fPIC", "-w", "-fno-omit-frame-pointer", "-pthread")
"""-O1: loops of references run as fast as with -O2, which takes a tenth to two fifths of a compilation.

DWARF 4: of version 5, addr2line 2.40 gives the file that was compiled in place of the one that #line names."""
_FLAGS_OF_GCC = (
    "-fno-var-tracking", "--param", "ggc-min-expand=400", "--param", "ggc-min-heapsize=1000000",
)  # fmt: skip
"""A quarter less time for templates: no places of variables, which nobody asks for; memory is collected later."""
_MAX_KEPT = 64
LAMBDA = "{lambda"
"""In the readable name of an instantiation over a lambda, which NVRTC cannot be asked for."""


@dataclass(frozen=True, slots=True)
class ProgramSource:
    """One source of a program."""

    source: str  # its path as the user gave it
    # base name of each kernel that it or its headers define → the names of its parameters
    kernels: Mapping[str, tuple[str, ...]]
    variables: frozenset[str]  # names of the device's variables that it or its headers define
    expressions: tuple[str, ...]  # the instantiations of kernel templates that its host code uses, as NVRTC takes them
    text: str | None = None  # in place of the file's for the device

    @property
    def of_device(self) -> bool:
        """Whether it is one that nvcc compiles for the device, as its name or what it defines says."""
        return self.source.endswith(".cu") or bool(self.kernels or self.variables)


@dataclass(frozen=True)
class HostHalf:
    """What a program's host half holds: kept beside it as JSON."""

    units: tuple[ProgramSource, ...]  # its sources
    kernels: tuple[Symbol, ...]  # the symbols of kernels' bodies, in the order of their offsets
    # the symbols of the host's shadows of device variables; `managed`: names of those that the host may touch
    variables: tuple[Symbol, ...]
    managed: frozenset[str]
    main: int | None  # offset of `main`, or None
    notes: tuple[str, ...]  # what the user should know of how it was compiled
    libraries: bool  # whether it calls functions of `native/libraries/`
    registers: bool  # whether it asks what the runtime answers by its kernels' registers


@dataclass(frozen=True)
class BuiltProgram(HostHalf):
    """A program ready to run."""

    library: Path  # its host half
    runtime: Path  # the runtime library that it uses


_CLOCKS = frozenset({"cudaEventElapsedTime", "cuEventElapsedTime"})
ALLOCATED = frozenset(
    f"cuda{one}"
    for one in (
        "FuncGetAttributes", "OccupancyMaxActiveBlocksPerMultiprocessor", "OccupancyMaxActiveClusters",
        "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    )
)  # fmt: skip
"""What the runtime answers by registers (launch.cpp)."""
_TIMED = "times between events are emulated warp instructions, a million of them a millisecond: no GPU's time"
_JIT = re.compile(rb"\bnvrtc(?:_helper)?\.h\b")
_VERSIONED = re.compile(rb"\b(cublas\w+)_v2\b")
"""Functions by the names of the library's binary, of which the plain ones are macros."""


def build(
    sources: Sequence[Path],
    options: CompileOptions,
    *,
    host_options: Sequence[str] = (),
    late_options: Sequence[str] = (),
    beside: Callable[[Sequence[OwnFiles]], None] | None = None,
    texts: Mapping[Path, str] | None = None,
    host_only: bool = False,
) -> BuiltProgram:
    """Compile the host half of a program.

    Args:
        sources: `.cu`, `.cpp` and the like.
        options: macros, include paths and standard are the host's, too.
        host_options: further words for the C++ compiler.
        late_options: likewise, without a meaning for NVIDIA's headers: the program's name, libraries.
        beside: called with the sources once they begin to be compiled, where they have to be.
        texts: of sources, in place of what their files hold.
        host_only: whether these are other in host code alone: the device half is that of the files, and compiled once.

    Raises:
        CompileError: the compiler refused it, or the program uses a function that the runtime does not have.
        ConfigurationError: no such file, or no compiler.
    """
    compiler, tools, options = host_compiler(), toolchain(), options.of_a_program()
    prepared, texts = [], texts or {}
    for path in sources:
        name, text = source_name(path), texts.get(path)
        tree = source_tree(read_text(path) if text is None else text, name, options, tools)
        prepared.append(PreparedSource(name, tree, OwnFiles(tree, options.macros), None if host_only else text))
    keys = [source_key(one.tree, options, tools, "program", one.name) for one in prepared]
    key = cache.digest(
        [*keys, *_own_parts(), *_runtime_parts(), compiler_version(compiler),
         *map(str, options.include_paths), *host_options, *late_options,
         *(one.text or "" for one in prepared)]
    )  # fmt: skip
    folder = cache.cache_folder() / "programs" / key
    if not (folder / "program.json").is_file():
        _compile(compiler, prepared, options, (host_options, late_options), folder, beside)
    else:
        os.utime(folder)  # last used: what is pruned is what was not
    return read_program(folder)


def read_program(folder: Path, runtime: Path | None = None) -> BuiltProgram:
    """What `build` left in a folder; `runtime`: the library that it uses, where that is known."""
    held = msgspec.json.decode((folder / "program.json").read_bytes(), type=HostHalf)
    runtime = runtime or runtime_library(held.libraries)
    return BuiltProgram(**vars(held), library=folder / "program.so", runtime=runtime)


def _host_half(library: Path, prepared: Sequence[PreparedSource], notes: Sequence[str], *, libraries: bool) -> HostHalf:
    scopes: dict[str, set[str]] = {}
    for name in (name for one in prepared for each in one.names for name in each.qualified):
        scope, _, base = name.rpartition("::")
        scopes.setdefault(base, set()).add(scope)
    shadows = {name for one in prepared for each in one.names for name in each.variables}
    managed = frozenset(name for one in prepared for each in one.names for name in each.managed)
    kernels: list[Symbol] = []
    variables: list[Symbol] = []
    main = None
    defined = list(symbols_of(library, len(prepared)))
    of_macros = {name: symbol.unit for _, symbol in defined if (name := of_macro(symbol.name))}
    for kind, symbol in defined:
        if symbol.name == "main" and kind == "T":
            main = symbol.start
        elif kind in "TtWwVvuU":
            if is_kernel(symbol.name, scopes) or symbol.name in of_macros:
                kernels.append(symbol)
        elif base_of(symbol.name) in shadows:
            variables.append(symbol)
    counts: dict[str, set[int]] = {}
    for name, parameters in (of for one in prepared for each in one.names for of in each.kernels.items()):
        counts.setdefault(name, set()).add(len(parameters))
    kernels = without_namesakes(kernels, scopes, counts)
    units = []
    written = set[str]().union(*(one.words for one in prepared))
    for number, one in enumerate(prepared):
        known = {name: parameters for each in one.names for name, parameters in each.kernels.items()}
        known |= {
            base: ()
            for name, unit in of_macros.items()
            if one.words and unit in (None, number) and ((base := base_of(name)) in one.words or base not in written)
        }
        owned = frozenset(name for each in one.names for name in each.variables)
        its = [symbol for symbol in kernels if symbol.unit in (None, number) and base_of(symbol.name) in known]
        readable = [demangle(symbol.name) for symbol in its]
        asked = [name for name in readable if name.endswith(">") and LAMBDA not in name]
        expressions = tuple(dict.fromkeys(map(expression_of, asked)))
        units.append(ProgramSource(one.name, known, owned, expressions, one.text))
    kernels.sort(key=lambda one: one.start)
    called = called_by(library)
    timed = [_TIMED] if _CLOCKS & called else []
    told = tuple(dict.fromkeys([*notes, *timed]))
    return HostHalf(
        tuple(units), tuple(kernels), tuple(variables), managed, main, told, libraries, bool(ALLOCATED & called)
    )


def _compile(
    compiler: str,
    prepared: Sequence[PreparedSource],
    options: CompileOptions,
    words: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    beside: Callable[[Sequence[OwnFiles]], None] | None,
) -> None:
    host_options, late_options = words
    folder.parent.mkdir(parents=True, exist_ok=True)
    own = [*_FLAGS, *(_FLAGS_OF_GCC if is_gcc(compiler) else ())]
    flags = [f"-std=gnu++{options.std[3:]}", *own, *host_options]
    header = prelude(compiler, flags)
    flags += options.macro_flags()  # the compiler sees by itself whether the prelude hangs on one
    includes = [f"-I{one}" for one in options.include_paths] + [f"-I{NATIVE / 'headers'}", f"-I{header.parent}"]
    includes += [f"-I{one}" for one in toolchain().includes]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
        work = Path(temporary)

        notes: list[str] = []

        def one_object(item: tuple[int, PreparedSource]) -> Path:
            number, one = item
            made = work / f"{number}.o"
            texts = one.written(work / str(number), number, closures=True)
            try:
                compiled(one, texts, made)
            except CompileError:
                plain = one.written(work / str(number), number, closures=False)
                if list(plain.values()) == list(texts.values()):
                    raise
                try:  # kernels over its lambdas are refused by name then
                    compiled(one, plain, made)
                except CompileError:
                    plain.clear()
                if not plain:
                    raise
            return made

        def compiled(one: PreparedSource, texts: Mapping[Path, bytes], made: Path) -> None:
            beside = f"-iquote{Path(one.name).parent}"
            openmp = ["-fopenmp"] if any(b"omp.h" in text or b"#pragma omp" in text for text in texts.values()) else []
            # Kept for every folder in which a source of this name and text lies.
            here = [] if Path(one.name).is_absolute() else [f"-fdebug-prefix-map={Path.cwd()}=."]
            versioned = sorted({name.decode() for text in texts.values() for name in _VERSIONED.findall(text)})
            defined = [f"-D{name}_v2={name}" for name in versioned]
            language = [*flags, *defined, "-include", str(header), "-x", "c++"]
            source = next(iter(texts))

            def run(language: Sequence[str]) -> None:
                command = [compiler, *openmp, *here, *late_options, *language, beside, *includes,
                           "-c", str(source), "-o", str(made)]  # fmt: skip
                notes.extend(run_with_help(command, one.name))

            if Path(one.name).suffix != ".c":
                return run(language)
            try:  # as nvcc has it: for the C compiler, where calls bear no place
                run([*own, *host_options, *options.macro_flags(), "-x", "c"])
            except CompileError as refused:
                if not of_a_library(refused, str(NATIVE / "headers")):
                    raise
                source.write_bytes(as_cpp(texts[source], one.tree.unresolved))
                run([*language, *AS_CPP])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiling = pool.map(one_object, enumerate(prepared))
            if beside is not None:
                beside([one.own for one in prepared])
            objects = list(compiling)
        one_main([one.name for one in prepared], objects)
        made = work / "program.so"
        # muldefs: device functions of headers are each source's own for nvcc, and mean nothing to the host.
        # exclude-libs: a compiler without the shared libstdc++ takes the archive, whose streams must not mix with this
        # process's own.
        defined = "-Wl,-z,defs,-z,muldefs,--exclude-libs,libstdc++.a"
        # What hands memory to the system is the runtime's first (native/host_access.cpp).
        defined += "".join(f",--wrap={name}" for name in ("fread", "fwrite", "read", "write"))
        joined = [compiler, "-shared", "-pthread", "-fopenmp", *map(str, objects), "-o", str(made), defined]
        libraries = _linked(joined, [*_nvrtc(prepared), *host_options, *late_options], prepared)
        ready = work / "ready"
        ready.mkdir()
        made.replace(ready / "program.so")
        half = _host_half(ready / "program.so", prepared, notes, libraries=libraries)
        (ready / "program.json").write_bytes(msgspec.json.encode(half))
        if not folder.exists():
            ready.replace(folder)
    prune(folder.parent, _MAX_KEPT)


def _linked(words: Sequence[str], behind: Sequence[str], prepared: Sequence[PreparedSource]) -> bool:
    """Link a program with the runtime; whether with its libraries, which take a while to compile."""

    def link(*, libraries: bool) -> bool:
        runtime = runtime_library(libraries)
        found = [f"-L{runtime.parent}", "-lwmmadiag_runtime", f"-Wl,-rpath,{runtime.parent}"]
        run_compiler([*words, *found, *behind], prepared[0].name)
        return libraries

    try:
        return link(libraries=False)
    except CompileError:  # a function is missing
        if not any(one.may_use_libraries() for one in prepared):
            raise
        return link(libraries=True)


def _nvrtc(prepared: Sequence[PreparedSource]) -> list[str]:
    """What links NVRTC, for a program that compiles by itself."""
    if not any(_JIT.search(file.data) for one in prepared for file in one.tree.every()):
        return []
    from cuda import pathfinder

    library = Path(str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path))
    return [str(library), f"-Wl,-rpath,{library.parent}"]


def _runtime_parts() -> tuple[str, ...]:
    """The runtime that programs are linked with, and what its libraries are made of."""
    runtime = runtime_library()
    return (str(runtime), str(runtime.stat().st_mtime_ns), runtime_stamp())


@functools.cache
def _own_parts() -> tuple[bytes, ...]:
    """What says how host code is rewritten and compiled: the modules that do it."""
    return tuple(
        (NATIVE.parent / name).read_bytes()
        for name in ("build.py", "c_sources.py", "host.py", "kernel_names.py", "prepared.py", "symbols.py")
    )
