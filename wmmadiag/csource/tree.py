"""CUDA C++ as a concrete syntax tree: every byte of a source belongs to a node, whatever the source holds.

The parser is tree-sitter with its CUDA grammar. It never fails: what it does not understand is an ERROR node, and
spoils its neighbourhood only. Node types are the grammar's: `function_definition`, `call_expression`, ….
"""

from __future__ import annotations

import bisect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from wmmadiag.csource.conditionals import Group, cutting, groups, resolved
from wmmadiag.csource.lexical import Code, Macro, code_of, spans
from wmmadiag.csource.prepare import prepared
from wmmadiag.place import Place

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_ROUNDS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One parsed file, or a fragment of one; equal to itself alone, so that what is read of it may be kept by it."""

    name: str  # the path to show
    data: bytes  # its bytes; offsets of nodes are offsets into it
    code: Code  # the same with everything blanked that is no code; with its macros
    root: Node  # of the tree
    lines: Sequence[int] = field(repr=False)  # offset of each line's first byte
    # the conditionals of which the tree holds one branch only
    chosen: tuple[Group, ...] = field(default=(), repr=False)

    def text(self, node: Node) -> str:
        """The source text of a node, as written."""
        return self.slice(node.start_byte, node.end_byte)

    def slice(self, start: int, end: int) -> str:
        """The source text between two offsets."""
        return self.data[start:end].decode("utf-8", "surrogateescape")

    def words(self, node: Node) -> str:
        """The node's text as `one_line` has it."""
        return self.one_line(node.start_byte, node.end_byte)

    def one_line(self, start: int, end: int) -> str:
        """The text between two offsets on one line: comments and the directives in it out, blanks and line ends
        single."""
        text = self.code_text(start, end)
        if "#" in text:
            held = text.encode("utf-8", "surrogateescape")
            part = bytearray(held)
            for span in spans(held):
                if span.kind == "directive" and span.start:
                    part[span.start : span.end] = b" " * (span.end - span.start)
            text = part.decode("utf-8", "surrogateescape")
        return " ".join(text.split())

    def code_text(self, start: int, end: int) -> str:
        """The text between two offsets without comments; literals stay."""
        part = bytearray(self.data[start:end])
        for span in spans(bytes(part)) if b"/" in part else ():
            if span.kind == "comment":
                part[span.start : span.end] = b" " * (span.end - span.start)
        return part.decode("utf-8", "surrogateescape")

    def place(self, node: Node) -> Place:
        """Where a node begins: line and column from 1."""
        return self.place_at(node.start_byte)

    def place_at(self, offset: int) -> Place:
        """The place of an offset."""
        line = self.line_at(offset)
        begin = self.lines[line - 1]
        return Place(self.name, line, len(self.data[begin:offset].decode("utf-8", "surrogateescape")) + 1)

    def line_at(self, offset: int) -> int:
        """The line of an offset, from 1."""
        return bisect.bisect_right(self.lines, offset)

    def line_span(self, line: int) -> tuple[int, int]:
        """(start, end) offsets of a line, from 1, its line end left out; (0, 0) for no such line."""
        if not 0 < line <= len(self.lines):
            return 0, 0
        end = self.lines[line] - 1 if line < len(self.lines) else len(self.data)
        return self.lines[line - 1], end

    def errors(self) -> list[Node]:
        """What the grammar did not understand, and what it missed."""
        return list(_errors(self.root))


def parse(text: str | bytes, name: str = "", macros: Mapping[str, Macro] = MappingProxyType({})) -> Source:
    """The tree of a source.

    Args:
        text: as read; bytes that are no UTF-8 as surrogates.
        name: the path to show.
        macros: of the headers that it includes (`lexical.macros`), beside its own.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    code = code_of(data, macros)
    every = groups(data, code.spans)
    chosen = cutting(code.code, every)
    root = _root(data, code, chosen)
    for _ in range(_ROUNDS):
        errors = [(error.start_byte, error.end_byte) for error in _errors(root)]
        spoiled = [group for group in every if group not in chosen and _meets(group, errors)]
        if not spoiled:
            break
        further = _root(data, code, [*chosen, *spoiled])
        if _count(further) >= _count(root):
            break
        chosen, root = [*chosen, *spoiled], further
    return Source(name, data, code, root, _lines(data), tuple(chosen))


def _root(data: bytes, code: Code, chosen: Sequence[Group]) -> Node:
    seen = data
    if chosen:
        seen = resolved(data, chosen, code.macros)
        code = code_of(seen, code.macros)
    return _parser().parse(prepared(seen, code)).root_node


def _meets(group: Group, errors: Sequence[tuple[int, int]]) -> bool:
    return any(start <= group.end and group.start <= end for start, end in errors)


def _count(root: Node) -> int:
    return sum(1 + (node.end_byte - node.start_byte) for node in _errors(root))


def _errors(node: Node) -> Iterator[Node]:
    open_ones = [node]
    while open_ones:
        one = open_ones.pop()
        if one.type == "ERROR" or one.is_missing:
            yield one
        elif one.has_error:
            open_ones.extend(reversed(one.children))


def _lines(data: bytes) -> list[int]:
    starts, at = [0], data.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = data.find(b"\n", at + 1)
    return starts


@cache
def _parser() -> Parser:
    import tree_sitter_cuda
    from tree_sitter import Language, Parser

    with warnings.catch_warnings():
        # Older grammars hand their language over as an integer, which the library has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        return Parser(Language(tree_sitter_cuda.language()))
