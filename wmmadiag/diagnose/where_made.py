"""What a change adds where a value is used, added where the value is made: either may be what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.nodes import field, walk
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.ranking import difference

if TYPE_CHECKING:
    from tree_sitter import Node

_CAST = re.compile(r"(?<![\w)\]])\(\s*[A-Za-z_][\w:]*\s*\)\s*(?=[\w(])")
_SIMPLE = re.compile(r"[\w.:\[\]]+")
_SUM = re.compile(r"[\w.:\[\]()*/+\s-]+")


def where_made(sources: Mapping[str, Source], change: Change) -> Iterator[Change]:
    """The same term or factor at the declaration of a name that a change adds it to.

    `x * s` for `x` becomes `int x = (…) * s`, and `x + y + t` for `x + y` becomes `int x = … + t` or `int y = … + t`.
    """
    edit, source = change.edits[0], sources[change.edits[0].file]
    old, new = (_CAST.sub("", text).strip() for text in (source.slice(edit.start, edit.end), edit.text))
    gone, come = difference(old, new)
    if gone and new.startswith("("):
        gone, come = difference(old, new[1:-1])
    if len(change.edits) > 1 or change.kind != "expression" or gone or len(come) < 2 or come[0] not in "+-*/":
        return
    more, product = f" {come[0]} {' '.join(come[1:])}", come[0] in "*/"
    known = made_before(source, edit.start)
    for name in [old] if product else re.split(r"\s*[+-]\s*", old):
        if name in known:
            value, text = known[name], source.text(known[name])
            bare = (_SIMPLE if product else _SUM).fullmatch(text)
            made = TextEdit(edit.file, value.start_byte, value.end_byte, f"{text if bare else f'({text})'}{more}")
            yield Change(change.operator, (made,), "expression", change.role, f"{change.note}, where {name} is made")


def made_before(source: Source, offset: int) -> dict[str, Node]:
    """The initial values that the function around a byte has given by then, by name: of two the last one."""
    bodies = (one.body for one in declarations(source).functions if one.body is not None)
    body = next((one for one in bodies if one.start_byte <= offset < one.end_byte), None)
    made = {}
    for one in walk(body) if body is not None else ():
        if one.type == "init_declarator" and one.end_byte <= offset:
            name, value = field(one, "declarator"), field(one, "value")
            if name is not None and value is not None:
                made[source.text(name)] = value
    return made
