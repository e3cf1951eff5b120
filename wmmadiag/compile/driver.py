"""Compile a source to PTX: the way from a path to a `Compilation`."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wmmadiag.compile import cache, ptx_scan
from wmmadiag.compile.build import Built, build, rebuild
from wmmadiag.compile.deleted import PROBE_HEADER, compile_notes
from wmmadiag.compile.diagnostics import warnings_text
from wmmadiag.compile.host_headers import STUBS, is_host_header
from wmmadiag.compile.languages import is_ptx
from wmmadiag.compile.model import Compilation, Entry, source_name
from wmmadiag.compile.names import base_name, demangle
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.origin import remember
from wmmadiag.compile.read import is_file, read_text
from wmmadiag.compile.records import from_record, to_record
from wmmadiag.compile.sources import SourceTree, read_tree
from wmmadiag.compile.toolchain import Toolchain, check_arch, toolchain
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.errors import CompileError, ConfigurationError
from wmmadiag.place import Place

# Raw options that make the compiler read files which are not tracked here.
_READS_FILES = re.compile(r"-{1,2}(?:I|include|pre-include|include-path|isystem|optf|options-file|pch|use-pch)")


RESOURCES = "resources"
"""The purpose of a cache key under which ptxas' log is kept."""


def compile_source(
    path: Path | str, options: CompileOptions | None = None, *, use_cache: bool = True, assembled: bool = False
) -> Compilation:
    """Compile a `.cu` file to PTX; a `.ptx` file is taken as it is.

    Args:
        assembled: by ptxas, too, where that has to be compiled: what `resources` is asked next is known then.

    Raises:
        CompileError: the compiler refused it; `detail` is its log, `place` that of the first error.
        ConfigurationError: no such file, an unknown option or architecture, or a part of the installation is missing.
    """
    return compile_text(read_text(Path(path)), source_name(path), options, use_cache=use_cache, assembled=assembled)


def compile_text(
    text: str,
    file_name: str,
    options: CompileOptions | None = None,
    *,
    use_cache: bool = True,
    headers: Mapping[str, str] | None = None,
    assembled: bool = False,
) -> Compilation:
    """Compile source text under the name `file_name`, which messages show and quoted includes are relative to.

    Args:
        headers: absolute path of a header → the text to take in place of the file's.
        assembled: as of `compile_source`.

    Raises: as `compile_source`.
    """
    compilation = _compile_text(text, file_name, options or CompileOptions(), use_cache, headers, assembled)
    remember(compilation)
    return compilation


def _compile_text(
    text: str, file_name: str, options: CompileOptions, use_cache: bool, headers: Mapping[str, str] | None,
    assembled: bool,
) -> Compilation:  # fmt: skip
    started = time.perf_counter()
    if is_ptx(file_name):
        return _ready_ptx(text, file_name, options, started)
    if "\0" in text or "\0" in file_name or not file_name:
        raise ConfigurationError(
            f"{file_name or 'the source'!r}: not the text of a named file".replace("\0", "\\0"),
            hint="give text without zero bytes, and a file name",
        )
    for path in options.include_paths:
        if not path.is_dir():
            raise ConfigurationError(
                f"include path {path} is not a folder", hint="name folders with -I, and check their spelling"
            )
    tools = toolchain()
    check_arch(options.arch, tools)
    tree = source_tree(text, file_name, options, tools, headers)
    key = source_key(tree, options, tools)
    # A header whose name the preprocessor computes is read by the compiler alone: its changes would go unseen.
    may_cache = use_cache and not tree.computed and not any(_READS_FILES.match(option) for option in options.extra)
    if not may_cache:
        return replace(_by_nvrtc(tree, options, tools, key), seconds=time.perf_counter() - started)
    found = _cached(key, options)
    if found is None:
        with cache.alone(key):
            found = _cached(key, options)
            if found is None:
                built = _assembled(tree, options, tools) if assembled else None
                compilation = _by_nvrtc(tree, options, tools, key, built)
                cache.store(key, to_record(compilation))
                return replace(compilation, seconds=time.perf_counter() - started)
    return replace(found, text=text, cached=True, seconds=time.perf_counter() - started)


def keep_as(compilation: Compilation, options: CompileOptions) -> None:
    """Take a compilation for that by other options, which are known to lead to the same, where it may be kept."""
    tools = toolchain()
    tree = source_tree(compilation.text, compilation.source, options, tools)
    if tree.computed:
        return
    cache.store(source_key(tree, options, tools), to_record(compilation))
    resources = cache.load(source_key(tree, compilation.options, tools, RESOURCES))
    if resources is not None:
        cache.store(source_key(tree, options, tools, RESOURCES), resources)


def _cached(key: str, options: CompileOptions) -> Compilation | None:
    record = cache.load(key)
    return from_record(record, options, key) if record is not None else None


def source_tree(
    text: str, file_name: str, options: CompileOptions, tools: Toolchain, headers: Mapping[str, str] | None = None
) -> SourceTree:
    """The source with every header of the user's that it can include; `headers`: texts in place of files."""
    return read_tree(
        text, file_name, options.include_paths, lambda name: is_provided(name, tools), headers, options.own
    )


def source_key(tree: SourceTree, options: CompileOptions, tools: Toolchain, *purpose: str) -> str:
    """The cache key: this package's code, the compiler and its headers, the options, and every text that was read."""
    parts: list[str | bytes] = [cache.code_fingerprint(), *purpose, *tools.fingerprint(), *options.fingerprint()]
    for file in tree.every():
        parts += [file.name, file.data]
    names = {file.key: file.name for file in tree.every()}
    for (key, offset), target in sorted(tree.targets.items()):
        parts += [names[key], str(offset), names[target]]
    for question, answer in tree.probed:
        parts += [question, str(answer)]
    parts += ["unresolved", *tree.unresolved]
    return cache.digest(parts)


def is_provided(name: str, tools: Toolchain) -> bool:
    """Whether `<name>` is a stub or a CUDA header (that device code can use)."""
    return not is_host_header(name) and any(is_file(folder / name) for folder in (STUBS, *tools.includes))


def shown_names(tree: SourceTree) -> dict[str, str]:
    """Path as NVRTC writes it into `.file` (under the working folder) → the name to show."""
    here = Path.cwd()
    names = {}
    for file in tree.every():
        names[f"{here}/{file.name}"] = file.name
        names[file.key] = file.name
    return names


def _assembled(tree: SourceTree, options: CompileOptions, tools: Toolchain) -> Built | None:
    """One call of NVRTC for the PTX, which is the same, and for what ptxas says of it; None where either is refused."""
    try:
        built = build(tree, options, tools, cubin=True)
    except CompileError:
        return None
    cache.store(source_key(tree, options, tools, RESOURCES), {"log": built.result.log})
    log = "".join(line for line in built.result.log.splitlines(keepends=True) if not line.startswith("ptxas"))
    return replace(built, result=replace(built.result, log=log))


def _by_nvrtc(
    tree: SourceTree, options: CompileOptions, tools: Toolchain, key: str, built: Built | None = None
) -> Compilation:
    built = built or build(tree, options, tools)
    names = shown_names(tree)
    ptx = ptx_scan.drop_unused_globals(ptx_scan.rename_files(built.result.ptx, names))
    files = tree.files()

    def recompile(edits: Sequence[Sequence[ByteEdit]]) -> str | None:
        changed = {file.key: some for file, some in zip(files, edits, strict=True)}
        probed = rebuild(built, changed, PROBE_HEADER, options, tools)
        return ptx_scan.rename_files(probed, names) if probed is not None else None

    notes = list(built.notes)
    if not options.debug:
        compiled = [(built.own.sources[file.key], built.texts.get(file.key, file.data)) for file in files]
        notes += compile_notes(compiled, ptx, built.result.log, recompile)
    entries = entries_of(ptx, built.result.lowered, built.own.kernel_places())
    return Compilation(
        ptx=ptx,
        log=warnings_text(built.result.log),
        entries=entries,
        templates=_not_made(built.templates, entries),
        includes=tuple(file.name for file in tree.every() if file is not tree.root),
        options=options,
        compiler=tools.name,
        source=tree.root.name,
        text=tree.root.text,
        source_hash=key,
        notes=tuple(notes),
    )


def _not_made(templates: Sequence[str], entries: Sequence[Entry]) -> tuple[str, ...]:
    """The kernel templates of which there is no instance."""
    made = {entry.demangled.split("<")[0] for entry in entries}
    return tuple(name for name in templates if name not in made)


def entries_of(ptx: str, lowered: Mapping[str, str], kernels: Sequence[tuple[str, Place]] = ()) -> tuple[Entry, ...]:
    """The kernels of a PTX text. `lowered`: name expression → mangled name; `kernels`: (name, place) in the source."""
    expressions = {mangled: expression for expression, mangled in lowered.items()}
    first = ptx_scan.first_places(ptx)
    found = []
    for name in dict.fromkeys(ptx_scan.entry_names(ptx)):  # one whose address is taken is declared, too
        base = base_name(name)
        near = [place for known, place in kernels if known == base]
        line_place = first.get(name)
        if line_place is not None:
            same = [place for place in near if place.file == line_place.file]
            # Overloads and specialisations share a name: the line table knows which one it is.
            near = sorted(same or near, key=lambda place: abs(place.line - line_place.line))
        place = near[0] if near else line_place
        found.append(Entry(name, demangle(name), base, expressions.get(name), place))
    return tuple(found)


def _ready_ptx(text: str, file_name: str, options: CompileOptions, started: float) -> Compilation:
    target = ptx_scan.emulated_target(text)
    return Compilation(
        ptx=text,
        log="",
        entries=entries_of(text, {}),
        templates=(),
        includes=(),
        options=replace(options, arch=target) if target else options,
        compiler="PTX file",
        source=file_name,
        text=text,
        source_hash=hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest(),
        seconds=time.perf_counter() - started,
    )
