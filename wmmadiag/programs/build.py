"""A program's host half as a shared object, compiled by the machine's C++ compiler and kept in the cache."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from wmmadiag.compile import cache
from wmmadiag.compile.driver import source_key, source_tree
from wmmadiag.compile.model import source_name
from wmmadiag.compile.names import demangle
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.own_files import OwnFiles
from wmmadiag.compile.read import read_text
from wmmadiag.compile.sources import SourceFile, SourceTree
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.edits import ByteEdit, applied
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.place import Place
from wmmadiag.programs.host import MARKS, DeviceNames, device_names, host_edits, named_line

NATIVE = Path(__file__).parent / "native"
_FLAGS = ("-O2", "-g1", "-gdwarf-4", "-fPIC", "-w", "-fno-omit-frame-pointer", "-pthread")
"""DWARF 4: of version 5, addr2line 2.40 gives the file that was compiled in place of the one that #line names."""
_UNDEFINED = re.compile(r"(?:(?P<place>[^\s:()]+:\d+): )?undefined reference to [`'](?P<name>[^']+)'")
_ERROR = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<message>.*)$", re.M
)
_MAX_KEPT, _MAX_PRELUDES = 64, 4


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function or variable of the host half.

    Attributes:
        name: mangled.
        start, size: offset in the shared object, and bytes.
    """

    name: str
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One source of a program.

    Attributes:
        source: its path as the user gave it.
        kernels: base name of each kernel that it or its headers define → the names of its parameters.
        expressions: the instantiations of kernel templates that its host code uses, as NVRTC takes them.
    """

    source: str
    kernels: Mapping[str, tuple[str, ...]]
    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuiltProgram:
    """A program ready to run.

    Attributes:
        library: its host half.
        runtime: the runtime library that it uses.
        units: its sources.
        kernels: the symbols of kernels' bodies, in the order of their offsets.
        variables: the symbols of the host's shadows of device variables; `managed`: names of those that the host may
            touch.
        main: offset of `main`, or None.
    """

    library: Path
    runtime: Path
    units: tuple[Unit, ...]
    kernels: tuple[Symbol, ...]
    variables: tuple[Symbol, ...]
    managed: frozenset[str]
    main: int | None


@dataclass
class _Prepared:
    """A source whose files are ready to be written."""

    name: str
    tree: SourceTree
    own: OwnFiles
    names: list[DeviceNames] = field(default_factory=list)

    def uses_libraries(self) -> bool:
        """Whether it includes a header of `native/headers`."""
        return any((NATIVE / "headers" / name).is_file() for name in self.tree.unresolved)

    def texts(self, folder: Path) -> dict[Path, bytes]:
        """The files to write, the source itself first."""
        paths = {file.key: folder / f"{number}_{Path(file.key).name}" for number, file in enumerate(self.tree.every())}
        return {paths[file.key]: self._text(file, paths) for file in self.tree.every()}

    def _text(self, file: SourceFile, paths: Mapping[str, Path]) -> bytes:
        edits = [
            ByteEdit(
                one.start, one.end, f'#include "{paths[target]}"' + "\n" * file.data.count(b"\n", one.start, one.end)
            )
            for one in file.directives
            if (target := self.tree.targets.get((file.key, one.start), "")) in paths
        ]
        refuse_host_templates(file)
        if MARKS.search(file.data):
            source = self.own.parsed(file)
            declared = self.own.declared.get(file.key) or declarations(source)
            edits += host_edits(source, declared)
            self.names.append(device_names(declared))
        return named_line(file.name) + applied(file.data, sorted(edits, key=lambda one: (one.start, one.end)))


_HOST_TEMPLATES = re.compile(r'[<"](thrust/(?!complex|functional|pair|tuple|swap|limits)[^>"]*|cub/device/[^>"]*)[>"]')


def refuse_host_templates(file: SourceFile) -> None:
    """Refuse, by name and line, libraries of templates that launch kernels of their own.

    Raises:
        CompileError: the user's file includes one.
    """
    for one in file.directives if file.own else ():
        found = _HOST_TEMPLATES.match(one.argument) if one.name == "include" else None
        if found is not None:
            place = Place(file.name, file.data.count(b"\n", 0, one.start) + 1)
            hint = "launch a kernel of your own, or do this part on the host"
            raise CompileError(f"{found[1]}: algorithms of Thrust and CUB are not offered", place=place, hint=hint)


def build(
    sources: Sequence[Path],
    options: CompileOptions,
    *,
    host_options: Sequence[str] = (),
    late_options: Sequence[str] = (),
) -> BuiltProgram:
    """Compile the host half of a program.

    Args:
        sources: `.cu`, `.cpp` and the like.
        options: macros, include paths and standard are the host's, too.
        host_options: further words for the C++ compiler.
        late_options: likewise, without a meaning for NVIDIA's headers: the program's name, libraries.

    Raises:
        CompileError: the compiler refused it, or the program uses a function that the runtime does not have.
        ConfigurationError: no such file, or no compiler.
    """
    compiler, tools = host_compiler(), toolchain()
    prepared = []
    for path in sources:
        name = source_name(path)
        tree = source_tree(read_text(path), name, options, tools)
        prepared.append(_Prepared(name, tree, OwnFiles(tree, options.macros)))
    runtime = runtime_library(any(one.uses_libraries() for one in prepared))
    keys = [source_key(one.tree, options, tools, "program", one.name) for one in prepared]
    key = cache.digest(
        [*keys, *_own_parts(), runtime.parent.name, _version(compiler), *map(str, options.include_paths),
         *host_options, *late_options]
    )  # fmt: skip
    folder = cache.cache_folder() / "programs" / key
    if not (folder / "program.json").is_file():
        _compile(compiler, prepared, options, (host_options, late_options), runtime, folder)
    else:
        os.utime(folder)  # last used: what is pruned is what was not
    return read_program(folder, runtime)


def read_program(folder: Path, runtime: Path) -> BuiltProgram:
    """What `build` left in a folder."""
    record = json.loads((folder / "program.json").read_text("utf-8"))
    units = tuple(
        Unit(one["source"], {name: tuple(names) for name, names in one["kernels"].items()}, tuple(one["expressions"]))
        for one in record["units"]
    )
    kernels, variables = (tuple(Symbol(*one) for one in record[what]) for what in ("kernels", "variables"))
    managed = frozenset(record["managed"])
    return BuiltProgram(folder / "program.so", runtime, units, kernels, variables, managed, record["main"])


def _described(library: Path, prepared: Sequence[_Prepared]) -> dict[str, object]:
    """The record of a program, for `read_program`."""
    names = {name for one in prepared for each in one.names for name in each.kernels}
    shadows = {name for one in prepared for each in one.names for name in each.variables}
    managed = sorted({name for one in prepared for each in one.names for name in each.managed})
    kernels: list[Symbol] = []
    variables: list[Symbol] = []
    main = None
    for kind, symbol in _symbols(library):
        if symbol.name == "main" and kind == "T":
            main = symbol.start
        elif kind in "TtWwVvuU":
            if _base(symbol.name) in names:
                kernels.append(symbol)
        elif _base(symbol.name) in shadows:
            variables.append(symbol)
    units = []
    for one in prepared:
        known = {name: parameters for each in one.names for name, parameters in each.kernels.items()}
        readable = [demangle(symbol.name) for symbol in kernels if _base(symbol.name) in known]
        expressions = dict.fromkeys(name for name in readable if name.endswith(">"))
        units.append({"source": one.name, "kernels": known, "expressions": list(expressions)})
    kernels.sort(key=lambda one: one.start)
    listed = {"kernels": kernels, "variables": variables}
    rows = {what: [(one.name, one.start, one.size) for one in some] for what, some in listed.items()}
    return {"units": units, **rows, "managed": managed, "main": main}


def _base(name: str) -> str:
    return demangle(name).partition("<")[0].rpartition("::")[2]


def _symbols(library: Path) -> Iterable[tuple[str, Symbol]]:
    listed = subprocess.run(["nm", "-S", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 4:
            yield words[2], Symbol(words[3], int(words[0], 16), int(words[1], 16))


def _compile(
    compiler: str,
    prepared: Sequence[_Prepared],
    options: CompileOptions,
    words: tuple[Sequence[str], Sequence[str]],
    runtime: Path,
    folder: Path,
) -> None:
    host_options, late_options = words
    folder.parent.mkdir(parents=True, exist_ok=True)
    flags = [f"-std=gnu++{options.std[3:]}", *_FLAGS, *host_options]
    prelude = _prelude(compiler, flags)
    flags += options.macro_flags()  # the compiler sees by itself whether the prelude hangs on one
    includes = [f"-I{one}" for one in options.include_paths] + [f"-I{NATIVE / 'headers'}", f"-I{prelude.parent}"]
    includes += [f"-I{one}" for one in toolchain().includes]
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
        work = Path(temporary)

        def one_object(item: tuple[int, _Prepared]) -> Path:
            number, one = item
            inside = work / str(number)
            inside.mkdir()
            texts = one.texts(inside)
            for path, text in texts.items():
                path.write_bytes(text)
            made = work / f"{number}.o"
            beside = f"-iquote{Path(one.name).parent}"
            openmp = ["-fopenmp"] if any(b"omp.h" in text or b"#pragma omp" in text for text in texts.values()) else []
            _run(
                [compiler, *flags, *openmp, *late_options, "-include", str(prelude), beside, *includes, "-x", "c++",
                 "-c", str(next(iter(texts))), "-o", str(made)],
                one.name,
            )  # fmt: skip
            return made

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(one_object, enumerate(prepared)))
        made = work / "program.so"
        link = [compiler, "-shared", "-pthread", "-fopenmp", *map(str, objects), "-o", str(made), "-Wl,-z,defs",
                f"-L{runtime.parent}", "-lwmmadiag_runtime", f"-Wl,-rpath,{runtime.parent}", *_nvrtc(prepared),
                *host_options, *late_options]  # fmt: skip
        _run(link, prepared[0].name)
        ready = work / "ready"
        ready.mkdir()
        made.replace(ready / "program.so")
        (ready / "program.json").write_text(json.dumps(_described(ready / "program.so", prepared)), "utf-8")
        if not folder.exists():
            ready.replace(folder)
    _prune(folder.parent, _MAX_KEPT)


def _nvrtc(prepared: Sequence[_Prepared]) -> list[str]:
    """What links NVRTC, for a program that compiles by itself."""
    if not any(b"nvrtc.h" in file.data for one in prepared for file in one.tree.every()):
        return []
    from cuda import pathfinder

    library = Path(str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path))
    return [str(library), f"-Wl,-rpath,{library.parent}"]


def _prune(folder: Path, most: int) -> None:
    """Only the folders used last are kept."""
    kept = sorted(
        (one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")),
        key=lambda one: one.stat().st_mtime,
    )
    for one in kept[:-most]:
        shutil.rmtree(one, ignore_errors=True)


@functools.cache
def host_compiler() -> str:
    """The C++ compiler: `CXX`, else g++, c++ or clang++.

    Raises:
        ConfigurationError: there is none.
    """
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
    raise ConfigurationError(
        "a program's host code needs a C++ compiler, and there is none",
        hint="install one (Debian, Ubuntu: apt install g++), or name it in CXX",
    )


@functools.cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[
        0
    ]


@functools.cache
def _object(source: Path) -> Path:
    """The compiled object of a file of `native/`, kept by its text and that of every header there."""
    compiler = host_compiler()
    flags = ["-std=c++20", "-O2", "-fPIC", "-pthread", "-w", "-ffp-contract=off"]
    key = cache.digest([*_native_parts(), *flags, source.name, source.read_bytes()])
    made = cache.cache_folder() / "runtime" / f"{source.stem}-{key}.o"
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        includes = [f"-I{NATIVE}", f"-I{NATIVE / 'headers'}", *(f"-I{one}" for one in toolchain().includes)]
        with tempfile.TemporaryDirectory(dir=made.parent, prefix=".new-") as temporary:
            fresh = Path(temporary) / made.name
            _run([compiler, *flags, *includes, "-c", str(source), "-o", str(fresh)], source.name)
            fresh.replace(made)
    return made


@functools.cache
def _own_parts() -> tuple[bytes, ...]:
    """What says how host code is rewritten and compiled: this module and the one of the rewriting."""
    return tuple((NATIVE.parent / name).read_bytes() for name in ("build.py", "host.py"))


@functools.cache
def _native_parts() -> tuple[str | bytes, ...]:
    """What every file of `native/` depends on: the compiler, CUDA's headers, those of `native/`."""
    headers = sorted(path for path in NATIVE.rglob("*") if path.is_file() and path.suffix in (".h", ".hpp"))
    parts: list[str | bytes] = [_version(host_compiler()), *toolchain().fingerprint()]
    for path in headers:
        parts += [path.relative_to(NATIVE).as_posix(), path.read_bytes()]
    return tuple(parts)


@functools.cache
def runtime_library(libraries: bool = False) -> Path:
    """The runtime of `native/`, compiled once for this machine.

    Args:
        libraries: with the libraries of `native/libraries/`, which take a while to compile.

    Raises:
        CompileError: the compiler refused it.
    """
    sources = sorted(NATIVE.glob("*.cpp")) + (sorted(NATIVE.glob("libraries/*.cpp")) if libraries else [])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(_object, sources))
    library = objects[0].parent / cache.digest([one.name for one in objects]) / "libwmmadiag_runtime.so"
    if not library.is_file():
        with tempfile.TemporaryDirectory(dir=objects[0].parent, prefix=".new-") as temporary:
            made = Path(temporary) / library.name
            link = [host_compiler(), "-shared", "-pthread", *map(str, objects), "-o", str(made)]
            _run([*link, f"-Wl,-soname,{library.name}"], "runtime")
            library.parent.mkdir(exist_ok=True)
            made.replace(library)
    return library


def _prelude(compiler: str, flags: Sequence[str]) -> Path:
    """The prelude's header, precompiled for these flags where the compiler can do that."""
    key = cache.digest([*_native_parts(), *flags])
    folder = cache.cache_folder() / "preludes" / key
    header = folder / "prelude.hpp"
    if not header.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
            work = Path(temporary) / "ready"
            work.mkdir()
            (work / "prelude.hpp").write_bytes((NATIVE / "prelude.hpp").read_bytes())
            includes = [f"-I{one}" for one in toolchain().includes]
            for wrapper, text in _wrapped_headers():
                (work / wrapper).parent.mkdir(parents=True, exist_ok=True)
                (work / wrapper).write_text(text, "utf-8")
            header_name = str(work / "prelude.hpp")
            made = [compiler, *flags, *includes, "-x", "c++-header", header_name, "-o", f"{header_name}.gch"]
            _run(made, "prelude.hpp")
            if not folder.exists():
                work.replace(folder)
        _prune(folder.parent, _MAX_PRELUDES)
    else:
        os.utime(folder)
    return header


def _wrapped_headers() -> Iterable[tuple[str, str]]:
    """(path, text) of headers that stand before libcu++'s: those take __CUDACC__ for a compiler of device code."""
    for folder in toolchain().includes:
        for one in (*(folder / "cuda").glob("*"), *(folder / "cuda" / "std").glob("*")):
            if one.is_file():
                name = one.relative_to(folder).as_posix()
                macros = ("__CUDACC__", "__NVCC__")
                undefined = "".join(f'#pragma push_macro("{macro}")\n#undef {macro}\n' for macro in macros)
                defined = "".join(f'#pragma pop_macro("{macro}")\n' for macro in macros)
                yield name, f"{undefined}#include_next <{name}>\n{defined}"


def _run(command: Sequence[str], source: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    log = done.stderr or done.stdout
    missing = {found["name"]: found["place"] or "" for found in _UNDEFINED.finditer(log)}
    if missing:
        listed = "\n".join(f"  {name}" + (f"  ({place})" if place else "") for name, place in missing.items())
        raise CompileError(
            f"{source}: the program uses functions that are not offered here: {', '.join(missing)}",
            detail=listed,
            hint="docs/programs.md lists what runs; functions of your own must be in one of the sources given",
        )
    first = _ERROR.search(log)
    place = Place(first["file"], int(first["line"]), int(first["column"] or 0)) if first else None
    message = first["message"] if first else f"{Path(command[0]).name} ended with status {done.returncode}"
    raise CompileError(f"host code: {message}", place=place, detail=log[-4000:])
