"""A `Compilation` as plain data for the cache, and back."""

from __future__ import annotations

from typing import Any

from wmmadiag.compile.model import Compilation, CompileNote, Entry
from wmmadiag.compile.options import CompileOptions
from wmmadiag.place import Place


def to_record(compilation: Compilation) -> dict[str, Any]:
    """JSON data that `from_record` turns back; options, hash and times apart."""
    return {
        "ptx": compilation.ptx,
        "log": compilation.log,
        "entries": [
            [entry.name, entry.demangled, entry.base_name, entry.name_expression, _place(entry.place)]
            for entry in compilation.entries
        ],
        "templates": list(compilation.templates),
        "includes": list(compilation.includes),
        "compiler": compilation.compiler,
        "source": compilation.source,
        "notes": [[note.kind, note.message, _place(note.place)] for note in compilation.notes],
    }


def from_record(record: dict[str, Any], options: CompileOptions, key: str) -> Compilation | None:
    """The compilation that was stored, or None if the record is not one."""
    try:
        return Compilation(
            ptx=str(record["ptx"]),
            log=str(record["log"]),
            entries=tuple(
                Entry(name, demangled, base, expression, _to_place(place))
                for name, demangled, base, expression, place in record["entries"]
            ),
            templates=tuple(record["templates"]),
            includes=tuple(record["includes"]),
            options=options,
            compiler=str(record["compiler"]),
            source=str(record["source"]),
            source_hash=key,
            notes=tuple(CompileNote(kind, message, _to_place(place)) for kind, message, place in record["notes"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _place(place: Place | None) -> list[Any] | None:
    """Innermost frame first: [[file, line, column, function], …]."""
    if place is None:
        return None
    return [[frame.file, frame.line, frame.column, frame.function] for frame in place.frames()]


def _to_place(frames: list[Any] | None) -> Place | None:
    place: Place | None = None
    for file, line, column, function in reversed(frames or []):
        place = Place(str(file), int(line), int(column), str(function), place)
    return place
