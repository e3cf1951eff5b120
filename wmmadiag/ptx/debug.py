"""Debug information in PTX text: files, function names, and `.loc` chains.

NVRTC writes `.loc FILE LINE COLUMN, function_name LABEL, inlined_at FILE LINE COLUMN`. The position after
`inlined_at` is that of a `.loc` seen before in the same function, with a chain of its own: so a chain of any length is
resolved one level at a time. Labels of function names stand in `.section .debug_str`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wmmadiag.place import Place
from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.demangle import demangle

_SECTION = re.compile(r"^[ \t]*\.section[ \t]+([.\w]+)[^{\n]*\n?[ \t]*\{([^}]*)\}", re.MULTILINE)
_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d{1,9})[ \t]+"([^"\n]*)"[^\n]*', re.MULTILINE)
_STRING_LINE = re.compile(r"^[ \t]*(?:([\w$.]+):|\.b8[ \t]+([\d, \t]+))", re.MULTILINE)


_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """What a module says about its source.

    Attributes:
        files: number → path.
        functions: label in `.debug_str`, or ".debug_str+offset" → demangled name.
    """

    files: Mapping[int, str]
    functions: Mapping[str, str]


def extract(source: str) -> tuple[str, DebugInfo]:
    """The PTX without debug sections and `.file` lines (line numbers kept), and what those said."""
    functions: dict[str, str] = {}

    def drop(match: re.Match[str]) -> str:
        if match[1] == ".debug_str":
            functions.update(_strings(match[2]))
        return "\n" * match[0].count("\n")

    if ".section" in source:
        source = _SECTION.sub(drop, source)
    files = {int(number): path for number, path in _FILE.findall(source)}
    return _FILE.sub("", source), DebugInfo(files, functions)


def _strings(body: str) -> dict[str, str]:
    data = bytearray()
    labels: list[tuple[str, int]] = []
    for label, numbers in _STRING_LINE.findall(body):
        if label:
            labels.append((label, len(data)))
        else:
            data += bytes(int(number) & 255 for number in re.findall(r"\d{1,3}", numbers))
    result = {}
    for label, start in labels:
        name = demangle(bytes(data[start:]).split(b"\0", 1)[0].decode("utf-8", "replace"))
        result[label] = result[f".debug_str+{start}"] = name
    return result


class Locations:
    """The places of one function, as its `.loc` directives are met in order."""

    def __init__(self, info: DebugInfo, function: str) -> None:
        self._info = info
        self._function = function
        self._seen: dict[tuple[int, int, int], Place] = {}

    def parse(self, cursor: Cursor) -> Place:
        """Read what follows `.loc`."""
        position = self._position(cursor)
        if not (cursor.token == "," and cursor.text[cursor.index + 1] == "function_name"):
            place = Place(self._file(position[0]), position[1], position[2] if position[1] else 0, self._function)
        else:
            cursor.index += 2
            label = cursor.take()
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
