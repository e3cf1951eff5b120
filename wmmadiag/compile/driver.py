"""Compile a source to PTX: the way from a path to a `Compilation`."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.build import build
from wmmadiag.compile.diagnostics import warnings_text
from wmmadiag.compile.host_headers import STUBS, is_host_header
from wmmadiag.compile.model import Compilation, Entry, source_name
from wmmadiag.compile.names import base_name, demangle
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.sources import SourceTree, read_text, read_tree
from wmmadiag.compile.toolchain import Toolchain, check_arch, toolchain


def compile_source(path: Path | str, options: CompileOptions | None = None) -> Compilation:
    """Compile a `.cu` file to PTX; a `.ptx` file is taken as it is.

    Raises:
        CompileError: the compiler refused it; `detail` is its log, `place` that of the first error.
        ConfigurationError: no such file, an unknown option or architecture, or a part of the installation is missing.
    """
    return compile_text(read_text(Path(path)), source_name(path), options)


def compile_text(text: str, file_name: str, options: CompileOptions | None = None) -> Compilation:
    """Compile source text under the name `file_name`, which messages show and quoted includes are relative to.

    Raises: as `compile_source`.
    """
    started = time.perf_counter()
    options = options or CompileOptions()
    if file_name.endswith(".ptx"):
        return _ready_ptx(text, file_name, options, started)
    tools = toolchain()
    check_arch(options.arch, tools)
    tree = read_tree(text, file_name, options.include_paths, lambda name: is_provided(name, tools))
    built = build(tree, options, tools)
    ptx = ptx_scan.drop_unused_globals(ptx_scan.rename_files(built.result.ptx, _shown_names(tree)))
    entries = _entries(ptx, built.result.lowered)
    made = {entry.demangled.split("<")[0] for entry in entries}
    compilation = Compilation(
        ptx=ptx,
        log=warnings_text(built.result.log),
        entries=entries,
        templates=tuple(name for name in built.templates if name not in made),
        includes=tuple(header.name for header in tree.headers.values()),
        options=options,
        compiler=tools.name,
        source=file_name,
        source_hash=_hash(tree, options, tools),
        notes=built.notes,
    )
    return replace(compilation, seconds=time.perf_counter() - started)


def is_provided(name: str, tools: Toolchain) -> bool:
    """Whether `<name>` is a stub or a CUDA header (that device code can use)."""
    return not is_host_header(name) and any((folder / name).is_file() for folder in (STUBS, *tools.includes))


def _shown_names(tree: SourceTree) -> dict[str, str]:
    """Path as NVRTC writes it into `.file` (under the working folder) → the name to show."""
    here = Path.cwd()
    names = {}
    for file in tree.files():
        names[f"{here}/{file.name}"] = file.name
        names[file.key] = file.name
    return names


def _entries(ptx: str, lowered: Mapping[str, str]) -> tuple[Entry, ...]:
    expressions = {mangled: expression for expression, mangled in lowered.items()}
    places = ptx_scan.first_places(ptx)
    return tuple(
        Entry(name, demangle(name), base_name(name), expressions.get(name), places.get(name))
        for name in ptx_scan.entry_names(ptx)
    )


def _ready_ptx(text: str, file_name: str, options: CompileOptions, started: float) -> Compilation:
    target = re.search(r"^\s*\.target\s+(sm_\d+[af]?)", text, re.MULTILINE)
    return Compilation(
        ptx=text,
        log="",
        entries=_entries(text, {}),
        templates=(),
        includes=(),
        options=replace(options, arch=target[1]) if target else options,
        compiler="PTX file",
        source=file_name,
        source_hash=hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(),
        seconds=time.perf_counter() - started,
    )


def _hash(tree: SourceTree, options: CompileOptions, tools: Toolchain) -> str:
    digest = hashlib.sha256()

    def add(*parts: str) -> None:
        for part in parts:
            data = part.encode("utf-8", "surrogateescape")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)

    add(*tools.fingerprint(), *options.fingerprint())
    for file in tree.files():
        add(file.name, file.text)
    for (key, offset), target in sorted(tree.targets.items()):
        add(key, str(offset), target)
    for question, answer in tree.probed:
        add(question, str(answer))
    return digest.hexdigest()
