"""The same change wherever a statement stands word by word: what was copied was copied with its mistake."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program

NAME = "copied"
"""What the ranking knows these changes by."""
_MOST, _SHORTEST = 4, 16
"""Places where a statement stands, and bytes of one."""
_HEADS = frozenset({"if", "loop", "switch"})
_WHOLE = frozenset({"expression", "declaration", "return"})

_Span = tuple[str, int, int]
"""A file, and byte offsets in it."""


class Copied:
    """The statements of a program, and the heads of its branches and loops, that stand several times."""

    def __init__(self, program: Program) -> None:
        alike: dict[bytes, dict[_Span, None]] = defaultdict(dict)
        for one in program.statements:
            span = _own(one)
            if span is not None and span[2] - span[1] >= _SHORTEST:
                alike[program.texts[span[0]][span[1] : span[2]]].setdefault(span)
        groups = [list(held) for held in alike.values() if 1 < len(held) <= _MOST]
        self._others = {span: [one for one in held if one != span] for held in groups for span in held}
        self._spans = sorted(self._others)

    def everywhere(self, draft: Draft) -> Iterator[Draft]:
        """A draft whose edits are of one such statement, of all of them at once."""
        if not self._spans or any(one.start == one.end for one in draft.edits):
            return
        first = draft.edits[0]
        at = bisect.bisect_right(self._spans, (first.file, first.start, 1 << 62)) - 1
        span = self._spans[at] if at >= 0 else None
        if span is None or not all(_holds(span, one) for one in draft.edits):
            return
        others = self._others[span]
        edits = [*draft.edits, *(_moved(one, span, other) for other in others for one in draft.edits)]
        yield replace(draft, edits=_ordered(edits), note=f"{draft.note}, in all {len(others) + 1} places")


def _own(one: Statement) -> _Span | None:
    """The text of a statement without those in it; None of a macro's."""
    if one.unit.macro or one.kind not in _HEADS | _WHOLE:
        return None
    end = one.children[0].start if one.kind in _HEADS and one.children else one.end
    return one.unit.file, one.start + one.unit.base, end + one.unit.base


def _holds(span: _Span, edit: TextEdit) -> bool:
    return span[0] == edit.file and span[1] <= edit.start and edit.end <= span[2]


def _moved(edit: TextEdit, span: _Span, other: _Span) -> TextEdit:
    away = other[1] - span[1]
    return TextEdit(other[0], edit.start + away, edit.end + away, edit.text)


def _ordered(edits: Sequence[TextEdit]) -> tuple[TextEdit, ...]:
    return tuple(sorted(edits, key=lambda one: (one.file, one.start)))
