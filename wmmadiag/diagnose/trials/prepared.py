"""A source made ready to be compiled again and again: what the compiler needs of it, and where each byte of it went.

Host code and the bodies of other kernels are blanked once, headers are read once; a changed text then goes straight to
the compiler. Changes speak of the user's files; `Prepared.moved` says the same of the prepared ones.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from wmmadiag.compile import ptx_scan
from wmmadiag.compile.build import Built, build, nvrtc_options
from wmmadiag.compile.driver import entries_of, source_tree, uses_nvcc
from wmmadiag.compile.model import Entry, find_entries, source_name
from wmmadiag.compile.names import base_name, demangle
from wmmadiag.compile.nvrtc import NvrtcResult
from wmmadiag.compile.options import CompileOptions
from wmmadiag.compile.sources import SourceFile, SourceTree, read_text
from wmmadiag.compile.toolchain import Toolchain, check_arch, toolchain
from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.lexical import blank
from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, Texts
from wmmadiag.errors import ConfigurationError, UnsupportedError

_Position = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source of one kernel, ready for the compiler.

    Attributes:
        sources: the user's files as they are, UTF-8, by the path that messages show; the source itself first.
        texts: the prepared ones, by the same paths.
        keys: path → the name under which the compiler gets a header; the source itself has none.
        entry: the kernel, as the card names it.
        arch: what it is compiled for, "sm_90".
        options: of the compiler, what changes from program to program left out.
        expressions: what is instantiated.
        further: headers that no change can be about.
        tools: the compiler.
        own: what the compiler made of the source as it is, optimised as the user's own program.
    """

    sources: Texts
    texts: Texts
    keys: Mapping[str, str]
    entry: str
    arch: str
    options: tuple[str, ...]
    expressions: tuple[str, ...]
    further: Mapping[str, str]
    tools: Toolchain
    own: NvrtcResult
    _positions: Mapping[str, _Position]

    @property
    def root(self) -> str:
        """Path of the source itself."""
        return next(iter(self.sources))

    def moved(self, change: Change) -> Change:
        """The same change of the prepared texts.

        Raises:
            ValueError: it is of a file that the source does not include.
        """
        edits = []
        for edit in change.edits:
            if edit.file not in self._positions:
                raise ValueError(f"{edit.file} is no file of {self.root}")
            at = self._positions[edit.file]
            edits.append(replace(edit, start=at(edit.start), end=at(edit.end)))
        return replace(change, edits=tuple(edits))

    def entry_of(self, ptx: str, lowered: Mapping[str, str]) -> Entry | None:
        """The kernel in a program's PTX."""
        expressions = {mangled: expression for expression, mangled in lowered.items()}
        names = ptx_scan.entry_names(ptx)
        entries = [Entry(name, demangle(name), base_name(name), expressions.get(name), None) for name in names]
        found = find_entries(entries, self.entry) if self.entry else entries
        return found[0] if len(found) == 1 else None


def prepare(
    path: Path,
    options: CompileOptions,
    entry: str,
    texts: Texts | None = None,
) -> Prepared:
    """Read a source, and compile it once to learn what it needs.

    Args:
        options: as its own program is compiled.
        entry: the kernel: a name or a name expression; empty for the only one.
        texts: of some of its files, by the path that messages show, in place of what the disk has.

    Raises:
        CompileError: it does not compile.
        ConfigurationError: it cannot be read, or has no such kernel.
        UnsupportedError: another compiler than NVRTC is asked for, or the preprocessor computes a header's name.
    """
    if uses_nvcc(options):
        raise UnsupportedError("changes are tried with NVRTC alone", hint="leave the choice of the compiler open")
    tools = toolchain()
    check_arch(options.arch, tools)
    given = {Path(name).resolve().as_posix(): _decoded(text) for name, text in (texts or {}).items()}
    own = path.resolve().as_posix()
    text = given.pop(own) if own in given else read_text(path)
    tree = source_tree(text, source_name(path), options, tools, given)
    if tree.computed:
        raise UnsupportedError(f"{tree.root.name} includes a header whose name a macro gives")
    built = build(tree, options, tools)
    made = entries_of(built.result.ptx, built.result.lowered, built.kernels)
    found = find_entries(made, entry) if entry else list(made)
    if len(found) != 1:
        raise ConfigurationError(f"{tree.root.name}: no kernel {entry!r}, or several")
    lowered = built.result.lowered
    wanted = tuple(one for one in built.expressions if lowered.get(one) == found[0].name)
    seen = {file.key: _encoded(_compiled(built, tree, file)) for file in tree.files()}
    return Prepared(
        {file.name: _encoded(file.text) for file in tree.files()},
        {file.name: _without_others(seen[file.key], found[0].base_name) for file in tree.files()},
        {file.name: file.key for file in tree.headers.values()},
        found[0].name_expression or found[0].demangled if entry else "",
        options.arch,
        tuple(flag for flag in nvrtc_options(options, tools, tree, built.standard) if flag != "-lineinfo"),
        wanted,
        {name: content for name, content in built.headers.items() if name not in tree.headers},
        tools,
        built.result,
        {file.name: _position(tree, file, seen[file.key]) for file in tree.files()},
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def _compiled(built: Built, tree: SourceTree, file: SourceFile) -> str:
    """A file as the compiler got it."""
    return built.root if file.key == tree.root.key else built.headers[file.key]


def _without_others(text: bytes, kernel: str) -> bytes:
    """The text with the bodies of other kernels blanked; as it is where the kernel is not among its declarations."""
    kernels = declarations(parse(text)).kernels()
    if kernel not in {one.name for one in kernels}:
        return text
    for one in kernels:
        if one.name != kernel and one.body is not None:
            start, end = one.body.start_byte + 1, one.body.end_byte - 1
            text = text[:start] + blank(text[start:end]) + text[end:]
    return text


def _position(tree: SourceTree, file: SourceFile, compiled: bytes) -> _Position:
    """From an offset in the user's text to one in the text that the compiler gets.

    That one has as many characters, but for a first line in a header, and for directives that were aimed.
    """
    starts, shifts = [0], [0 if file.key == tree.root.key else _decoded(compiled).index("\n") + 1]
    for token in file.tokens:
        target = tree.targets.get((file.key, token.start))
        if target is not None:
            aimed = len(f'#include "{target}"') + token.text.count("\n")
            starts.append(token.end)
            shifts.append(shifts[-1] + aimed - len(token.text))
    before, after = _offsets(file.text), _offsets(_decoded(compiled))

    def position(offset: int) -> int:
        character = bisect.bisect_left(before, offset)
        return after[character + shifts[bisect.bisect_right(starts, character) - 1]]

    return position


def _offsets(text: str) -> range | list[int]:
    """Byte offset of each character, and of the end."""
    if text.isascii():
        return range(len(text) + 1)
    return [0, *accumulate(len(_encoded(one)) for one in text)]
