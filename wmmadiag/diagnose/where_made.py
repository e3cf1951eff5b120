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
_LAST, _FIRST = re.compile(r"[*/]\s*([A-Za-z_]\w*)\s*$"), re.compile(r"\s*([A-Za-z_]\w*)")
_ONE = re.compile(r"1(\.0*)?[fF]?")
_SUM = re.compile(r"[\w.:\[\]()*/+\s-]+")


def where_made(sources: Mapping[str, Source], change: Change) -> Iterator[Change]:
    """The same term or factor at the declaration of a name that a change adds it to.

    `x * s` for `x` becomes `int x = (…) * s`, and `x + y + t` for `x + y` becomes `int x = … + t` or `int y = … + t`.
    """
    edit, source = change.edits[0], sources[change.edits[0].file]
    old, new = (_CAST.sub("", text).strip() for text in (source.slice(edit.start, edit.end), edit.text))
    gone, come = difference(old, new)
    if (gone, come) in ((["*"], ["/"]), (["/"], ["*"])) and len(change.edits) == 1:
        yield from _inverse(source, change)
        return
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


def _inverse(source: Source, change: Change) -> Iterator[Change]:
    """The inverse of what is made, for a division by it in place of a product, or the reverse."""
    edit = change.edits[0]
    around = source.data[edit.start :].decode(errors="replace")
    known = made_before(source, edit.start)
    named = _LAST.search(edit.text) or _FIRST.match(around[edit.end - edit.start :])
    if named is None or named[1] not in known:
        return
    value = known[named[1]]
    parts = [field(value, part) for part in ("left", "operator", "right")]
    left, divided, right = ("" if part is None else source.text(part) for part in parts)
    if divided == "/" and _ONE.fullmatch(left):
        text = right
    else:
        whole = source.text(value)
        text = f"1.0f / {whole}" if _SIMPLE.fullmatch(whole) else f"1.0f / ({whole})"
    made = TextEdit(edit.file, value.start_byte, value.end_byte, text)
    yield Change(change.operator, (made,), "expression", change.role, f"the inverse of {named[1]}, where it is made")


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
