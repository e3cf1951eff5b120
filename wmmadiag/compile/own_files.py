"""The user's own files as trees, parsed once for one compilation, and the kernels that all files define."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from wmmadiag.compile.sources import SourceFile, SourceTree
from wmmadiag.csource.declarations import Declarations, Function, declarations
from wmmadiag.csource.lexical import Macro, joined, macros_at_line_starts
from wmmadiag.csource.tree import Source, parse
from wmmadiag.place import Place

_WORD = re.compile(rb"[A-Za-z_]\w*")
_SPACES = rb"__(?:device|global)__"
_ROUNDS = 8


@dataclass(frozen=True)
class OwnFiles:
    """The user's own files of one compilation."""

    tree: SourceTree  # all files, read
    defines: Mapping[str, str | None]  # macro → text, as options define them

    @cached_property
    def macros(self) -> dict[str, Macro]:
        """The macros of all files that the user's own may use, and of the options."""
        words = {word.decode() for word in {found for file in self.tree.files() for found in _WORD.findall(file.data)}}
        own = [macros_at_line_starts(file.data, words) for file in self.tree.files()]
        given = {name: Macro(name, None, text or "", 0, 0, 0) for name, text in self.defines.items()}
        found = joined(own)
        for _ in range(_ROUNDS):
            words |= {
                word for one in found.values() for body in one.bodies for word in re.findall(r"[A-Za-z_]\w*", body)
            }
            outer = joined(macros_at_line_starts(file.data, words) for file in self.tree.outside.values())
            more = joined((outer, *own))
            if len(more) == len(found):
                break
            found = more
        return joined((found, given))

    @cached_property
    def sources(self) -> dict[str, Source]:
        """The tree of each of the user's own files, by its key."""
        return {file.key: parse(file.data, file.name, self.macros) for file in self.tree.files()}

    def parsed(self, file: SourceFile) -> Source:
        """The tree of any file; a library's is parsed when it is first asked for."""
        if file.key in self.sources:
            return self.sources[file.key]
        if file.key not in self._others:
            self._others[file.key] = parse(file.data, file.name, joined((self.macros, self.space_macros)))
        return self._others[file.key]

    @cached_property
    def space_macros(self) -> dict[str, Macro]:
        """The macros of any file that stand for `__device__` or `__global__`, as libraries name them anew."""
        names: set[bytes] = set()
        for _ in range(_ROUNDS):
            meant = b"|".join([_SPACES, *(rb"\b" + name + rb"\b" for name in names)])
            defined = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t].*(?:" + meant + rb")", re.MULTILINE)
            found = {name for file in self.tree.every() for name in defined.findall(file.data)}
            if found == names:
                break
            names = found
        words = {name.decode() for name in names}
        return joined(macros_at_line_starts(file.data, words) for file in self.tree.every())

    @cached_property
    def _others(self) -> dict[str, Source]:
        return {}

    @cached_property
    def declared(self) -> dict[str, Declarations]:
        """What each of the user's own files declares, by its key."""
        return {key: declarations(source) for key, source in self.sources.items()}

    def kernels(self) -> Iterator[tuple[Source, Function]]:
        """The kernels that the user's own files define or declare, then those that the headers of libraries do."""
        for key, one in self.declared.items():
            yield from ((self.sources[key], function) for function in one.functions if function.kernel)
        yield from self._outside_kernels

    @cached_property
    def _outside_kernels(self) -> list[tuple[Source, Function]]:
        marked = (file for file in self.tree.outside.values() if b"__global__" in file.data)
        sources = [parse(file.data, file.name, self.macros) for file in marked]
        return [(source, one) for source in sources for one in declarations(source).functions if one.kernel]

    def kernel_places(self) -> tuple[tuple[str, Place], ...]:
        """(name, place of it) of each kernel that the user's own files define."""
        return tuple(
            (one.name, self.sources[key].place_at(_name_start(self.sources[key], one)))
            for key, declared in self.declared.items()
            for one in declared.kernels()
        )


def _name_start(source: Source, function: Function) -> int:
    head = source.code.code[function.start : function.body.start_byte if function.body else function.node.end_byte]
    found = list(re.finditer(rf"\b{re.escape(function.name)}\b".encode(), head))
    return function.start + (found[-1].start() if found else 0)
