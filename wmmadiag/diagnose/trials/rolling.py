"""Which loops of a program of trials stay loops, and which the compiler may unroll as in the user's own.

Alternatives in an unrolled loop are as many branches as it has rounds, and the compiler's time grows with all ways
through them, to minutes. Loops without one run three to nine times as many instructions where they are not unrolled:
arrays that could be registers lie in memory. So those stay loops that hold an alternative, or name what does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wmmadiag.csource.edits import ByteEdit
from wmmadiag.csource.nodes import ancestors, descendants, field, walk
from wmmadiag.csource.tree import Source, parse
from wmmadiag.diagnose.changes import Texts
from wmmadiag.diagnose.trials.schemata import SELECTOR

if TYPE_CHECKING:
    from tree_sitter import Node

_UNROLL = re.compile(rb"^([ \t]*#[ \t]*pragma[ \t]+unroll\b)[^\r\n\\]*$", re.MULTILINE)
_UNROLL_IN_MACRO = re.compile(rb'(_Pragma\(\s*"unroll)[^"]*"')
_LOOP = re.compile(rb'(?<![\w"\x01])for(?=\s*\()')
_ASKED = re.compile(rb'(?:#[ \t]*pragma[ \t]+(unroll)\b[^\r\n\\]*\r?\n|_Pragma\(\s*"(unroll)[^"]*"\s*\))\s*\Z')
_MARK = b"\x01"
"""Takes the place of the first byte of what is left as it is: every offset stays."""
_WORD = re.compile(rb"[A-Za-z_]\w*")
_FEW = 8
"""Alternatives in a loop that may be unrolled all the same."""
_DEPTH = 8
"""Calls within calls that are followed."""
_FOR = frozenset({"for_statement", "for_range_loop"})
_BODIES = frozenset({"function_definition", "lambda_expression"})
_CLASSES = frozenset({"class_specifier", "struct_specifier", "union_specifier"})


def rolled(text: bytes) -> bytes:
    """A text whose loops are not unrolled, neither for its asking nor because they are short; those that are marked are
    as they were. Each line stays where it is."""
    if b"unroll" in text:
        text = _UNROLL_IN_MACRO.sub(rb'\1 1"', _UNROLL.sub(rb"\1 1", text))
    text = _LOOP.sub(rb'_Pragma("unroll 1") for', text)
    return text.replace(_MARK + b"or", b"for").replace(_MARK + b"nroll", b"unroll") if _MARK in text else text


@dataclass(frozen=True, slots=True)
class _Part:
    """A loop, or the body of something that has a name."""

    file: str
    start: int
    end: int
    name: bytes  # of what has a body; empty where it is run without being named, as an operator is
    words: frozenset[bytes]  # that stand in it


class Loops:
    """The loops of some texts.

    Args:
        texts: by the path that messages show.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        sources = {file: parse(text, file) for file, text in texts.items() if _MARK not in text}
        self._loops = [one for source in sources.values() for one in _loops(source)]
        self._bodies = [one for source in sources.values() for one in _named(source)]
        self._runs: dict[bytes, frozenset[bytes]] = {}  # name → what it names, of bodies and macros
        for one in self._bodies:
            self._runs[one.name] = self._runs.get(one.name, frozenset()) | one.words
        for source in sources.values():
            for name, macro in source.code.macros.items():
                words = _WORD.findall(" ".join(macro.bodies).encode("utf-8", "surrogateescape"))
                self._runs[name.encode()] = self._runs.get(name.encode(), frozenset()) | frozenset(words)

    def spared(self, edits: Mapping[str, Sequence[ByteEdit]]) -> Texts:
        """The texts, in which those loops are marked that hold few alternatives of some edits, with those that are in
        what they name."""
        held = self._held(edits)
        if held is None:
            return self._texts
        wanted: dict[str, list[int]] = {}
        for loop in self._loops:
            own = _inside(loop, edits)
            if own is not None and own + sum(held.get(name, 0) for name in loop.words) <= _FEW:
                wanted.setdefault(loop.file, []).append(loop.start)
        return {file: _marked(text, wanted.get(file, [])) for file, text in self._texts.items()}

    def _held(self, edits: Mapping[str, Sequence[ByteEdit]]) -> dict[bytes, int] | None:
        """Alternatives of what is run by a name, with those of what it runs; None where not all of them have one."""
        own: dict[bytes, int] = {}
        for file, some in edits.items():
            for one in some:
                around = {body.name for body in self._bodies if _around(body, file, one)}
                if not around or b"" in around:
                    return None
                for name in around:
                    own[name] = own.get(name, 0) + _alternatives(one)
        held = dict(own)
        for _ in range(_DEPTH):
            further = {
                name: own.get(name, 0) + sum(held.get(one, 0) for one in words if one != name)
                for name, words in self._runs.items()
            }
            further = {name: min(count, _FEW + 1) for name, count in further.items() if count}
            if b"" in further:
                return None
            if further == held:
                break
            held = further
        return held


def _around(body: _Part, file: str, edit: ByteEdit) -> bool:
    return body.file == file and body.start <= edit.start and edit.end <= body.end


def _inside(loop: _Part, edits: Mapping[str, Sequence[ByteEdit]]) -> int | None:
    """Alternatives that stand in a loop; None where one stands for it, or for a part of it and more."""
    met = [one for one in edits.get(loop.file, ()) if one.start <= loop.end and loop.start <= one.end]
    if any(one.start <= loop.start or one.end >= loop.end for one in met):
        return None
    return sum(map(_alternatives, met))


def _alternatives(edit: ByteEdit) -> int:
    return max(1, edit.text.count(SELECTOR))


def _marked(text: bytes, loops: Sequence[int]) -> bytes:
    made = bytearray(text)
    for start in loops:
        made[start : start + 1] = _MARK
        before = text[text.rfind(b"\n", 0, max(0, text.rfind(b"\n", 0, start))) + 1 : start]
        if asked := _ASKED.search(before):
            at = start - len(before) + asked.start(asked.lastindex or 0)
            made[at : at + 1] = _MARK
    return bytes(made)


def _loops(source: Source) -> Iterator[_Part]:
    for node in walk(source.root):
        if node.type in _FOR and source.data.startswith(b"for", node.start_byte):
            yield _part(source, node.start_byte, node.end_byte)


def _named(source: Source) -> Iterator[_Part]:
    for node in walk(source.root):
        if node.type in _BODIES:
            yield _part(source, node.start_byte, node.end_byte, _name(source, node))


def _part(source: Source, start: int, end: int, name: bytes = b"") -> _Part:
    return _Part(source.name, start, end, name, frozenset(_WORD.findall(source.data, start, end)))


def _name(source: Source, node: Node) -> bytes:
    """The name by which a body is run, of an operator that of its class; empty where there is none, or it may be run
    without it."""
    around = list(ancestors(node))
    if node.type == "lambda_expression":
        declared = next((one for one in around if one.type in ("init_declarator", *_BODIES)), node)
        name = field(declared, "declarator") if declared.type == "init_declarator" else None
        plain = b"" if name is None else source.data[name.start_byte : name.end_byte]
        given = re.compile(rb"\b" + re.escape(plain) + rb"\b(?!\s*\()")  # besides where it is declared
        return plain if _WORD.fullmatch(plain) and len(given.findall(source.data)) == 1 else b""
    called = next(descendants(node, "function_declarator"), None)
    name = None if called is None else field(called, "declarator")
    plain = b"" if name is None else source.data[name.start_byte : name.end_byte].rpartition(b"::")[2]
    if _WORD.fullmatch(plain) and not plain.startswith(b"operator"):
        return plain
    held = next((field(one, "name") for one in around if one.type in _CLASSES), None)  # an operator's
    return b"" if held is None or held.text is None else held.text
