"""What a change adds where a value is used, added where the value is made: either may be what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from wmmadiag.csource.nodes import field, walk
from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.ranking import difference

_CAST = re.compile(r"\(\s*(?:float|int|unsigned|double|size_t|half)\s*\)")
_SIMPLE = re.compile(r"[\w.:\[\]]+")
_SUM = re.compile(r"[\w.:\[\]()*/+\s-]+")


def where_made(sources: Mapping[str, Source], change: Change) -> Iterator[Change]:
    """The same term or factor at the declaration of a name that a change adds it to.

    `x * s` for `x` becomes `int x = (…) * s`, and `x + y + t` for `x + y` becomes `int x = … + t` or `int y = … + t`.
    """
    edit, source = change.edits[0], sources[change.edits[0].file]
    old, new = (_CAST.sub("", text).strip() for text in (source.slice(edit.start, edit.end), edit.text))
    gone, come = difference(old, new[1:-1] if new.startswith("(") and new.endswith(")") else new)
    if len(change.edits) > 1 or change.kind != "expression" or gone or len(come) < 2 or come[0] not in "+-*/":
        return
    more, product = f" {come[0]} {' '.join(come[1:])}", come[0] in "*/"
    for name in [old] if product else re.split(r"\s*[+-]\s*", old):
        found = [
            one for one in walk(source.root)
            if one.type == "init_declarator" and one.end_byte <= edit.start and _declares(source, one, name)
        ]  # fmt: skip
        value = field(found[-1], "value") if found else None
        if value is not None:
            text = source.text(value)
            bare = (_SIMPLE if product else _SUM).fullmatch(text)
            made = TextEdit(edit.file, value.start_byte, value.end_byte, f"{text if bare else f'({text})'}{more}")
            yield Change(change.operator, (made,), "expression", change.role, f"{change.note}, where {name} is made")


def _declares(source: Source, node: object, name: str) -> bool:
    held = field(node, "declarator")  # type: ignore[arg-type]
    return held is not None and source.text(held) == name
