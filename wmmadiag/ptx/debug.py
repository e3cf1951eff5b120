"""Debug information in PTX text: files, function names, and `.loc` chains.

NVRTC writes `.loc FILE LINE COLUMN, function_name LABEL, inlined_at FILE LINE COLUMN`. The position after
`inlined_at` is that of a `.loc` seen before in the same function, with a chain of its own: so a chain of any length is
resolved one level at a time. Labels of function names stand in `.section .debug_str`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from wmmadiag.compile.names import full_name
from wmmadiag.compile.ptx_scan import unescape
from wmmadiag.errors import PtxSyntaxError
from wmmadiag.place import Place
from wmmadiag.ptx.cursor import Cursor

_SECTION = re.compile(r"^[ \t]*\.section\b", re.MULTILINE)
_BRACE = re.compile(r"//[^\n]*|[{}]")
# `.file 1 "matmul.py"`, `.file 1 "/src" "matmul.py"`, `.file 1 "a.cu", 1234, 56`; some writers leave the quotes out.
_FILE = re.compile(
    r"""^[ \t]*\.file[ \t]+(?:(\d{1,9})[ \t]+)?
    (?:"((?:\\.|[^"\\\n])*)"(?:[ \t]+"((?:\\.|[^"\\\n])*)")?|([^\s",;{}]+))
    (?:\s*,\s*\w+)*""",
    re.MULTILINE | re.VERBOSE,
)
_STRING_LINE = re.compile(r"^[ \t]*(?:([\w$.]+):|\.b8[ \t]+([\d, \t]+))", re.MULTILINE)


_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """What a module says about its source."""

    files: Mapping[int, str]  # number → path
    functions: Mapping[str, str]  # label in `.debug_str`, or ".debug_str+offset" → demangled name


def extract(source: str, name: str = "<ptx>") -> tuple[str, DebugInfo]:
    """The PTX without debug sections and `.file` lines (line numbers kept), and what those said.

    Args:
        source: without comments that span lines.
        name: of the PTX, for messages.

    Raises:
        PtxSyntaxError: a section is not closed.
    """
    files: dict[int, str] = {}

    def note(match: re.Match[str]) -> str:
        number, first, second, plain = match.groups()
        if number is not None:
            path = unescape(first if first is not None else plain)
            files[int(number)] = path if second is None else str(PurePosixPath(path) / unescape(second))
        return "\n" * match[0].count("\n")

    source, functions = _without_sections(source, name)
    return _FILE.sub(note, source), DebugInfo(files, functions)


def _without_sections(source: str, name: str) -> tuple[str, dict[str, str]]:
    """The text without its sections, and the names that `.debug_str` holds."""
    functions: dict[str, str] = {}
    kept: list[str] = []
    position = 0
    while (found := _SECTION.search(source, position)) is not None:
        start, end = _braces(source, found.end())
        if end < 0:
            line = source.count("\n", 0, found.end()) + 1
            raise PtxSyntaxError(
                "a .section is not closed", place=Place(name, line), hint="the file seems to be cut off: '}' is missing"
            )
        kept += [source[position : found.start()], "\n" * source.count("\n", found.start(), end)]
        if source[found.end() : start].split()[:1] == [".debug_str"]:
            functions.update(_strings(source[start + 1 : end - 1]))
        position = end
    return ("".join([*kept, source[position:]]) if kept else source), functions


def _braces(source: str, position: int) -> tuple[int, int]:
    """Where the next braces open and where they end; (…, -1) if they do not."""
    start = -1
    for found in _BRACE.finditer(source, position):
        if found[0] == "{" and start < 0:
            start = found.start()
        elif found[0] == "}" and start >= 0:
            return start, found.end()
    return start, -1


def _strings(body: str) -> dict[str, str]:
    data = bytearray()
    labels: list[tuple[str, int]] = []
    for label, numbers in _STRING_LINE.findall(body):
        if label:
            labels.append((label, len(data)))
        else:
            data += bytes(int(number) & 255 for number in re.findall(r"\d{1,3}", numbers))
    result = {}
    data.append(0)
    for label, start in labels:
        name = full_name(data[start : data.index(0, start)].decode("utf-8", "replace"))
        result[label] = result[f".debug_str+{start}"] = name
    return result


class Locations:
    """The places of one function, as its `.loc` directives are met in order."""

    def __init__(self, info: DebugInfo, function: str) -> None:
        self._info = info
        self._function = function
        self._seen: dict[tuple[int, int, int], Place] = {}
        self._plain: dict[tuple[str, ...], tuple[tuple[int, int, int], Place]] = {}

    def parse(self, cursor: Cursor) -> Place:
        """Read what follows `.loc`."""
        text, index = cursor.text, cursor.index
        words = tuple(text[index : index + 3])
        plain = text[index + 3 : index + 4] != [","]
        known = self._plain.get(words) if plain else None
        if known is not None:
            cursor.index = index + 3
            self._seen[known[0]] = known[1]
            return known[1]
        position = self._position(cursor)
        if not (cursor.token == "," and cursor.text[cursor.index + 1] == "function_name"):
            place = Place(self._file(position[0]), position[1], position[2] if position[1] else 0, self._function)
        else:
            cursor.index += 2
            label = cursor.take().strip('"')
            if cursor.accept("+"):
                label += f"+{cursor.integer('an offset')}"
            cursor.expect(",")
            if cursor.take() != "inlined_at":
                raise cursor.error("expected 'inlined_at'", index=cursor.index - 1)
            at = self._position(cursor)
            caller = self._seen.get(at) or Place(self._file(at[0]), at[1], at[2], self._function)
            if sum(1 for _ in caller.frames()) > _MAX_DEPTH:  # a macro can expand two functions to one position
                caller = Place(caller.file, caller.line, caller.column, self._function)
            name = self._info.functions.get(label, "")
            place = Place(self._file(position[0]), position[1], position[2] if position[1] else 0, name, caller)
        self._seen[position] = place
        if plain:
            self._plain[words] = (position, place)
        return place

    def _file(self, number: int) -> str:
        return self._info.files.get(number, f"<file {number}>")

    @staticmethod
    def _position(cursor: Cursor) -> tuple[int, int, int]:
        high = 2**31 - 1
        return (
            cursor.integer("a file number", high=high),
            cursor.integer("a line number", high=high),
            cursor.integer("a column number", high=high),
        )
