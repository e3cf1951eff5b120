"""A light scan of PTX text: kernels, functions, and each instruction with its place. No types, no verification.

`compile` must know a few facts about the PTX that it made; the full front end is `wmmadiag.ptx`, which stands above.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from wmmadiag.place import Place

# At a line's beginning; repetitions are bounded so that a text of nothing else is scanned once, too.
_FUNCTION = re.compile(
    r"^[ \t]*(?:\.(?:visible|weak|extern|common)\s+){0,4}"
    r"\.(entry|func)\s*(?:\([^(){};]*\)\s*)?([A-Za-z_$%][\w$]*)",
    re.MULTILINE,
)
_TARGET = re.compile(r"\.target\s+(sm_(\d+)[af]?)\b")
_OLDEST = 75  # the first architecture in emulator/limits.py
_HEAD = 1 << 16  # characters in which `.target` stands
_FILE = re.compile(r'^([ \t]*\.file[ \t]+(\d+)[ \t]+)"((?:\\.|[^"\\\n])*)"', re.MULTILINE)
# PTX ISA, "Debugging Directives: .loc":
# .loc file line column [, function_name label [+ n], inlined_at file line column]
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,\s*function_name\s+([^,\s]+)[^,]*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_OPCODE = re.compile(r"^\{?\s*(?:@!?%?[\w$]+\s+)?([a-z][\w.:]*)")


@dataclass(frozen=True, slots=True)
class ScannedInstruction:
    """One line of code: `opcode` with modifiers, the whole `text`, its function, place, and 1-based PTX line."""

    opcode: str
    text: str
    function: str
    place: Place | None
    line: int


@dataclass(slots=True)
class _LineTable:
    files: Mapping[int, str]
    known: dict[tuple[int, int, int], Place] = field(default_factory=dict)
    current: Place | None = None

    def take(self, match: re.Match[str]) -> None:
        file, line, column = int(match[1]), int(match[2]), int(match[3])
        caller: Place | None = None
        if match[4]:
            at = (int(match[5]), int(match[6]), int(match[7]))
            # The caller's own .loc came before and has its own chain.
            caller = self.known.get(at) or Place(self.files.get(at[0], f"file {at[0]}"), at[1], at[2])
        self.current = Place(self.files.get(file, f"file {file}"), line, column, inlined_at=caller)
        self.known[file, line, column] = self.current


def entry_names(ptx: str) -> list[str]:
    """Mangled names of the kernels defined in the PTX, in order."""
    return [match[2] for match in _FUNCTION.finditer(_without_comments(ptx)) if match[1] == "entry"]


def bodies(ptx: str) -> Iterator[tuple[str, str]]:
    """(kernel or function, text from its name to the next one), in order."""
    plain = _without_comments(ptx)
    found = list(_FUNCTION.finditer(plain))
    for one, following in zip(found, [*found[1:], None], strict=False):
        yield one[2], plain[one.end() : following.start() if following is not None else len(plain)]


def emulated_target(ptx: str) -> str:
    """What a PTX text runs as: its `.target`, or where that is older than all that is emulated, the oldest of these.

    PTX for one architecture is taken by every later one (PTX ISA, ".target"). Empty if the text names no target.
    """
    found = _TARGET.search(_without_comments(ptx[:_HEAD]))
    if found is None:
        return ""
    return found[1] if int(found[2]) >= _OLDEST else f"sm_{_OLDEST}"


def file_table(ptx: str) -> dict[int, str]:
    """The `.file` table: number → path."""
    return {int(match[2]): unescape(match[3]) for match in _FILE.finditer(ptx)}


def rename_files(ptx: str, names: Mapping[str, str]) -> str:
    """The PTX with each `.file` path that `names` knows replaced by its name."""

    def replace(match: re.Match[str]) -> str:
        path = unescape(match[3])
        if path not in names:
            return match[0]
        name = names[path].replace("\\", "\\\\").replace('"', '\\"')
        return f'{match[1]}"{name}"'

    return _FILE.sub(replace, ptx)


def mapped_columns(ptx: str, column: Callable[[str, int, int], int]) -> str:
    """The PTX with other columns in its places: `column(file, line, column)`."""
    files = file_table(ptx)

    def replace(match: re.Match[str]) -> str:
        text = match[0]
        for first in (5, 1):  # from behind, so that what stands before keeps its offsets
            if match[first]:
                file, line, at = (int(match[first + part]) for part in range(3))
                start, end = (offset - match.start() for offset in match.span(first + 2))
                text = f"{text[:start]}{column(files.get(file, ''), line, at)}{text[end:]}"
        return text

    return _LOC.sub(replace, ptx)


def unescape(text: str) -> str:
    r"""A PTX string's text: octal (`\303`) and backslash escapes resolved, as UTF-8."""
    data = re.sub(
        rb"\\([0-7]{3}|.)",
        lambda m: bytes([int(m[1], 8) & 255]) if len(m[1]) == 3 else m[1],
        text.encode("utf-8", "surrogateescape"),
    )
    return data.decode("utf-8", "surrogateescape")


def instructions(ptx: str) -> Iterator[ScannedInstruction]:
    """Each instruction inside a function body, with its place (the `inlined_at` chain included)."""
    locations = _LineTable(file_table(ptx))
    function, depth = "", 0
    for number, line in enumerate(ptx.split("\n"), 1):
        text = line.strip()
        if not text or text.startswith("//"):
            continue
        if depth == 0:
            match = _FUNCTION.match(line)
            if match:
                function = match[2]
                locations.known.clear()
                locations.current = None
            elif text.startswith(".section"):
                function = ""
        if text.startswith(".loc"):
            found = _LOC.match(text)
            if found:
                locations.take(found)
            continue
        if depth > 0 and function and not text.startswith("."):
            match = _OPCODE.match(text)
            if match and not text.endswith(":"):
                yield ScannedInstruction(match[1], text, function, locations.current, number)
        depth += text.count("{") - text.count("}")


def lines(ptx: str) -> set[tuple[str, int]]:
    """The lines that instructions were made of, those of inlined calls among them: file and 1-based line."""
    places = {one.place for one in instructions(ptx) if one.place is not None}
    return {(frame.file, frame.line) for place in places for frame in place.frames()}


def first_places(ptx: str) -> dict[str, Place]:
    """Function → the place of its first instruction that has one, without inlined calls: that of its definition."""
    places: dict[str, Place] = {}
    files = file_table(ptx)
    found = _FUNCTION.search(ptx)
    while found is not None:
        following = _FUNCTION.search(ptx, found.end())
        end = following.start() if following is not None else len(ptx)
        body = ptx.find("{", found.end(), end)
        place = _first_place(ptx, body, end, files) if body >= 0 else None
        if place is not None:
            places.setdefault(found[2], list(place.frames())[-1])
        found = following
    return places


def _first_place(ptx: str, position: int, end: int, files: Mapping[int, str]) -> Place | None:
    """The place of the first instruction of a body that has one."""
    locations = _LineTable(files)
    while position < end:
        stop = ptx.find("\n", position, end)
        stop = stop if stop >= 0 else end
        text = ptx[position:stop].strip()
        position = stop + 1
        if text.startswith(".loc"):
            match = _LOC.match(text)
            if match is not None:
                locations.take(match)
        elif locations.current is not None and not text.endswith(":") and _OPCODE.match(text) is not None:
            return locations.current
        elif text.startswith(".section"):
            break
    return locations.current


def _without_comments(ptx: str) -> str:
    if "/*" in ptx:
        ptx = re.sub(r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)", " ", ptx)
    return re.sub(r"//[^\n]*", "", ptx)


_GLOBAL = re.compile(r"^\s*(?:\.weak\s+)?\.(?:global|const)\s+(?:\.\w+\s+(?:\d+\s+)?)*([A-Za-z_$%][\w$]*)[^{};\n]*;$")


_LIBRARY = re.compile(r"_ZNK?(?:\d+_INTERNAL_\w*?)?(?:4cuda|3std|6nvcuda|18cooperative_groups)")


def drop_unused_globals(ptx: str) -> str:
    """The PTX without module variables that nothing refers to.

    Library headers leave hundreds of them (`cuda::std::integral_constant<…>::value`). Only those of CUDA's own
    namespaces go: a variable of the user's may be looked up by name.
    """
    if not re.search(r"^\s*(?:\.weak\s+)?\.(?:global|const)\s", ptx, re.MULTILINE):
        return ptx
    counts = Counter(re.findall(r"[A-Za-z_$%][\w$]*", _without_comments(ptx)))
    kept = []
    for line in ptx.split("\n"):
        match = _GLOBAL.match(line)
        if match is None or counts[match[1]] > 1 or not _LIBRARY.match(match[1]):
            kept.append(line)
    return "\n".join(kept)
