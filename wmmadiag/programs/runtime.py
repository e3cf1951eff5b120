"""What every program uses: the library behind it, and the prelude before it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wmmadiag
from wmmadiag.compile import cache
from wmmadiag.compile.host_compiler import compiler_version, host_compiler, run_compiler
from wmmadiag.compile.toolchain import toolchain
from wmmadiag.programs.shipped import LIBRARY, NATIVE, WITH_LIBRARIES, stamp

_MAX_PRELUDES = 4
_IN_USE = 3600.0
"""Seconds from when something of the cache was last asked for: a compilation that reads it has ended by then."""


@functools.cache
def _object(name: str, sources: tuple[Path, ...]) -> Path:
    """The object of files of `native/`, compiled as one (headers are read once) and kept by all their texts."""
    compiler = host_compiler()
    flags = ["-std=c++20", "-Os", "-fPIC", "-pthread", "-w", "-ffp-contract=off"]
    texts = [part for one in sources for part in (one.name, one.read_bytes())]
    made = cache.cache_folder() / "runtime" / f"{name}-{cache.digest([*native_parts(), *flags, *texts])}.o"
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        includes = [f"-I{NATIVE}", f"-I{NATIVE / 'headers'}", *(f"-I{one}" for one in toolchain().includes)]
        with tempfile.TemporaryDirectory(dir=made.parent, prefix=".new-") as temporary:
            fresh = Path(temporary) / made.name
            together = Path(temporary) / f"{name}.cpp"
            together.write_text("".join(f'#include "{one.resolve()}"\n' for one in sources), "utf-8")
            run_compiler([compiler, *flags, *includes, "-c", str(together), "-o", str(fresh)], name)
            fresh.replace(made)
    return made


@functools.cache
def native_parts() -> tuple[str | bytes, ...]:
    """What every file of `native/` depends on: the compiler, CUDA's headers, those of `native/`."""
    headers = sorted(path for path in NATIVE.rglob("*") if path.is_file() and path.suffix in (".h", ".hpp"))
    parts: list[str | bytes] = [compiler_version(host_compiler()), *toolchain().fingerprint()]
    for path in headers:
        parts += [path.relative_to(NATIVE).as_posix(), path.read_bytes()]
    return tuple(parts)


@functools.cache
def runtime_stamp() -> str:
    """What the runtime and its libraries are made of."""
    return stamp(toolchain().includes[0])


@functools.cache
def _shipped(libraries: bool) -> Path | None:
    """The library that came with the package, if it is of these sources and CUDA headers, has all, and loads here."""
    for root in wmmadiag.__path__:  # of an editable install the sources, and where its build went
        library = Path(root) / "programs" / "native" / LIBRARY
        with contextlib.suppress(OSError):  # it is not there, or of another machine's C++ library
            said = library.with_name(f"{LIBRARY}.stamp").read_text("utf-8").splitlines()
            if said[:1] == [runtime_stamp()] and (WITH_LIBRARIES in said or not libraries):
                ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
                return library
    return None


@functools.cache
def runtime_library(libraries: bool = False) -> Path:
    """The runtime of `native/`: the one that came with the package, or compiled once for this machine.

    Args:
        libraries: with the libraries of `native/libraries/`, which take a while to compile.

    Raises:
        CompileError: the compiler refused it.
    """
    shipped = _shipped(libraries)
    if shipped is not None:
        return shipped
    parts = {"runtime": tuple(sorted(NATIVE.glob("*.cpp")))}
    if libraries:  # the longest first
        parts = {"libraries": tuple(sorted(NATIVE.glob("libraries/*.cpp"))), **parts}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(_object, parts, parts.values()))
    library = objects[0].parent / cache.digest([one.name for one in objects]) / LIBRARY
    if not library.is_file():
        with tempfile.TemporaryDirectory(dir=objects[0].parent, prefix=".new-") as temporary:
            made = Path(temporary) / library.name
            link = [host_compiler(), "-shared", "-pthread", *map(str, objects), "-o", str(made)]
            run_compiler([*link, f"-Wl,-soname,{library.name}"], "runtime")
            library.parent.mkdir(exist_ok=True)
            made.replace(library)
    return library


def prelude(compiler: str, flags: Sequence[str]) -> Path:
    """The prelude's header, precompiled for these flags where the compiler can do that."""
    key = cache.digest([*native_parts(), *flags])
    folder = cache.cache_folder() / "preludes" / key
    header = folder / "prelude.hpp"
    if not header.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".new-") as temporary:
            work = Path(temporary) / "ready"
            work.mkdir()
            for name in ("prelude.hpp", "host_maths.hpp"):
                (work / name).write_bytes((NATIVE / name).read_bytes())
            includes = [f"-I{one}" for one in toolchain().includes]
            for wrapper, text in _wrapped_headers():
                (work / wrapper).parent.mkdir(parents=True, exist_ok=True)
                (work / wrapper).write_text(text, "utf-8")
            header_name = str(work / "prelude.hpp")
            made = [compiler, *flags, *includes, "-x", "c++-header", header_name, "-o", f"{header_name}.gch"]
            run_compiler(made, "prelude.hpp")
            if not folder.exists():
                work.replace(folder)
        prune(folder.parent, _MAX_PRELUDES)
    else:
        os.utime(folder)
    return header


def _wrapped_headers() -> Iterable[tuple[str, str]]:
    """(path, text) of headers that stand before libcu++'s and Thrust's: to those __CUDACC__ is a device compiler."""
    for folder in toolchain().includes:
        for inner, pattern in (("cuda", "*"), ("cuda/std", "*"), ("thrust", "*.h")):
            for one in (folder / inner).glob(pattern):
                if one.is_file():
                    name = one.relative_to(folder).as_posix()
                    macros = ("__CUDACC__", "__NVCC__")
                    undefined = "".join(f'#pragma push_macro("{macro}")\n#undef {macro}\n' for macro in macros)
                    defined = "".join(f'#pragma pop_macro("{macro}")\n' for macro in macros)
                    yield name, f"{undefined}#include_next <{name}>\n{defined}"


def prune(folder: Path, most: int) -> None:
    """Only the folders used last are kept, and all that another process may still be at."""
    old = time.time() - _IN_USE
    used: list[tuple[float, Path]] = []
    for one in folder.iterdir():
        if not one.name.startswith(".") and one.is_dir():
            with contextlib.suppress(FileNotFoundError):  # another process removes it at this moment
                used.append((one.stat().st_mtime, one))
    for when, one in sorted(used)[:-most]:
        if when < old:
            shutil.rmtree(one, ignore_errors=True)
