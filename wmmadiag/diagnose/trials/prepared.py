"""A source made ready to be compiled again and again: host code and other kernels blanked, every header read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.build import Built, build, nvrtc_options
from wmmadiag.compile.driver import is_provided, source_tree
from wmmadiag.compile.host_headers import brought
from wmmadiag.compile.model import Entry, find_entries, source_name
from wmmadiag.compile.names import base_name, demangle
from wmmadiag.compile.nvrtc import NvrtcResult
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.read import read_text
from wmmadiag.compile.sources import SourceTree, in_memory
from wmmadiag.compile.toolchain import Toolchain, check_arch, toolchain
from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.lexical import blank
from wmmadiag.diagnose.changes import Texts
from wmmadiag.diagnose.trials.copies import Definition, definition_of, whole_of
from wmmadiag.diagnose.trials.preamble import preamble, unguarded
from wmmadiag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source of one kernel, or of several that are launched one after the other, ready for the compiler."""

    sources: Texts  # the user's files as they are, by the path that messages show; the source itself first
    texts: Texts  # what is compiled in their place, byte for byte as long
    keys: Mapping[str, str]  # path → the name under which the compiler gets the file
    entries: tuple[str, ...]  # the kernels: names or name expressions; one "" for the only one
    arch: str  # what it is compiled for, "sm_90"
    options: tuple[str, ...]  # of the compiler
    expressions: tuple[str, ...]  # what is instantiated
    tools: Toolchain  # the compiler
    own: NvrtcResult  # what the compiler made of the source as it is, optimised as the user's own program
    definition: Definition | None  # of the kernel in these files; None where it cannot be copied, or of several
    whole: Definition | None  # the same with what stands before it in its file; None where that cannot be copied
    preamble: bytes  # what may be read before the source, see `preamble`
    guard: Sequence[ByteEdit]  # what takes the guard around the source away
    _built: Built

    @property
    def root(self) -> str:
        """Path of the source itself."""
        return next(iter(self.sources))

    def changed(self, edits: Mapping[str, Sequence[ByteEdit]]) -> tuple[bytes, dict[str, bytes]]:
        """The source's own text and its headers', as the compiler gets them, with edits of some files.

        Raises:
            ValueError: edits overlap, or are of another file.
        """
        for file in edits:
            if file not in self.keys:
                raise ValueError(f"{file} is no file of {self.root}")
        # Of a library's headers, too, something may have been left out.
        texts = {**self._built.texts, **{self.keys[file]: text for file, text in self.texts.items()}}
        root, headers = in_memory(self._built.own.tree, texts, {self.keys[file]: some for file, some in edits.items()})
        headers.update({one: brought(one) for one in self._built.empty})
        return root, headers

    def renamed(self, name: str) -> tuple[str, ...]:
        """What is instantiated of a copy of the kernel under another name."""
        own = self.definition.name if self.definition is not None else ""
        return tuple(re.sub(rf"\b{re.escape(own)}\b(?=\s*(?:<|$))", name, one, count=1) for one in self.expressions)

    def entries_of(self, ptx: str, lowered: Mapping[str, str]) -> dict[str, str] | None:
        """The mangled name of each kernel in a program's PTX; None where one is not there, or not the only one."""
        found = {one: _entries(ptx, lowered, one) for one in self.entries}
        return (
            {one: some[0].name for one, some in found.items()}
            if all(len(some) == 1 for some in found.values())
            else None
        )


def prepare(path: Path, options: CompileOptions, entries: Sequence[str], texts: Texts | None = None) -> Prepared:
    """Read a source, and compile it once to learn what it needs.

    Args:
        options: as its own program is compiled.
        entries: the kernels: names or name expressions; one that is empty for the only one.
        texts: of some of its files, by the path that messages show, in place of what the disk has.

    Raises:
        CompileError: it does not compile.
        ConfigurationError: it cannot be read, or has no such kernel.
    """
    tools = toolchain()
    tree = _tree(path, options, texts, tools)
    built = build(tree, options, tools)
    lowered = built.result.lowered
    found: dict[str, Entry] = {}
    for wanted in entries:
        named = _entries(built.result.ptx, lowered, wanted)
        if len(named) != 1:
            raise ConfigurationError(f"{tree.root.name}: no kernel {wanted!r}, or several")
        found[wanted] = named[0]
    kernels = {one.base_name for one in found.values()}
    symbols = {one.name for one in found.values()}
    expressions = tuple(one for one in built.expressions if lowered.get(one) in symbols)
    definition, whole = _definitions(built, *kernels) if len(found) == 1 else (None, None)
    return Prepared(
        _texts(tree),
        {file.name: _without_others(built, file.key, kernels) for file in tree.files()},
        {file.name: file.key for file in tree.files()},
        tuple((one.name_expression or one.demangled) if wanted else "" for wanted, one in found.items()),
        options.arch,
        tuple(flag for flag in nvrtc_options(options, tools, tree, built.standard) if flag != "-lineinfo"),
        expressions,
        tools,
        built.result,
        definition,
        whole,
        preamble(tree, lambda name: is_provided(name, tools)),
        unguarded(tree),
        built,
    )


def texts_of(path: Path, options: CompileOptions) -> Texts:
    """The user's files of a source as they are on the disk, as `Prepared.sources` has them.

    Raises:
        CompileError: one cannot be read.
        ConfigurationError: the same, or the target is not known.
    """
    return _texts(_tree(path, options, None, toolchain()))


def _texts(tree: SourceTree) -> Texts:
    return {file.name: file.data for file in tree.files()}


def _tree(path: Path, options: CompileOptions, texts: Texts | None, tools: Toolchain) -> SourceTree:
    check_arch(options.arch, tools)
    given = {
        Path(name).resolve().as_posix(): text.decode("utf-8", "surrogateescape") for name, text in (texts or {}).items()
    }
    own = path.resolve().as_posix()
    text = given.pop(own) if own in given else read_text(path)
    return source_tree(text, source_name(path), options, tools, given)


def _definitions(built: Built, kernel: str) -> tuple[Definition | None, Definition | None]:
    """Where the user's files define a kernel, if in one place, and if a copy of it is compiled as it is; the same with
    what stands before it."""
    named = [
        (key, one)
        for key in built.own.sources
        for one in built.own.declared[key].kernels()
        if one.name == kernel and (one.template is None or (one.template and built.expressions))
    ]
    if len(named) != 1:
        return None, None
    key, function = named[0]
    source = built.own.sources[key]
    definition = definition_of(source.name, built.texts.get(key, source.data), function)
    if definition is None:
        return None, None
    return definition, whole_of(definition, source, built.own.declared[key].kernels())


def _entries(ptx: str, lowered: Mapping[str, str], wanted: str) -> list[Entry]:
    expressions = {mangled: expression for expression, mangled in lowered.items()}
    names = ptx_scan.entry_names(ptx)
    entries = [Entry(name, demangle(name), base_name(name), expressions.get(name), None) for name in names]
    return find_entries(entries, wanted) if wanted else entries


def _without_others(built: Built, key: str, kernels: Set[str]) -> bytes:
    """A file with the bodies of other kernels blanked; as it is where some of those are not among the declarations."""
    source = built.own.sources[key]
    text = built.texts.get(key, source.data)
    if not kernels <= {one.name for declared in built.own.declared.values() for one in declared.kernels()}:
        return text
    for one in built.own.declared[key].kernels():
        if one.name not in kernels and one.body is not None:
            start, end = one.body.start_byte + 1, one.body.end_byte - 1
            text = text[:start] + blank(text[start:end]) + text[end:]
    return text
