"""A `Compilation` as plain data for the cache, and back."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec

from wmmadiag.compile.model import Compilation
from wmmadiag.compile.options import CompileOptions

_APART = frozenset({"options", "source_hash", "cached", "seconds", "text"})
_Record = msgspec.defstruct("_Record", [one for one in get_type_hints(Compilation).items() if one[0] not in _APART])


def to_record(compilation: Compilation) -> dict[str, Any]:
    """JSON data that `from_record` turns back; options, hash, text and times apart."""
    return {name: msgspec.to_builtins(getattr(compilation, name)) for name in _Record.__struct_fields__}


def from_record(record: dict[str, Any], options: CompileOptions, key: str) -> Compilation | None:
    """The compilation that was stored, or None if the record is not one."""
    try:
        found = msgspec.convert(record, _Record)
    except (msgspec.ValidationError, RecursionError):
        return None
    return Compilation(**msgspec.structs.asdict(found), options=options, source_hash=key)
