"""Changes of a CUDA source: what operators yield, the trial engine tries, and the answer shows as a diff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Kind = Literal["expression", "statement", "insertion", "static"]
"""How a change can be tried. An edit with `start == end` is an insertion whatever the kind; the other edits are:

- `expression`: one whole expression for another of the same type, which has parentheses of its own where what is
  around it needs them: `(sel == 17 ? (new) : (old))`; of a place that is assigned to, another place.
- `statement`: one whole statement that declares nothing, for other text (empty: removed):
  `if (sel == 17) { new } else { old }`. A move is a removal and an insertion.
- `insertion`: there are none.
- `static`: anything that cannot hang on a value at run time (types, template arguments, layouts, sizes of arrays,
  immediates of inline assembly, declarations): compiled on its own.

The text of an insertion is whole statements that declare nothing used after them, put where a statement may begin or
end within braces. In every case the change *means* its text: the trial of it and the text with it give the same bits.
"""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Bytes `start` to `end` of a file, replaced."""

    file: str  # the path of the file as the compiler was given it: the kernel's own source, or a header of the user's
    # start, end: byte offsets in the file's UTF-8 text, end exclusive; equal: an insertion
    start: int
    end: int
    text: str  # what stands there instead


@dataclass(frozen=True, slots=True)
class Change:
    """One way in which a source might have been meant."""

    operator: str  # name of the operator that yielded it
    edits: tuple[TextEdit, ...]  # what changes in the text; no two of them overlap
    kind: Kind  # how it can be tried
    role: str  # what the first changed node is for, in the words of the ranking (`index`, `pitch`, `bound`, …)
    note: str  # the change in a few words, for the user


def together(one: Change, other: Change) -> Change:
    """Two changes as one, whose text is compiled on its own."""
    note = f"{one.note}; {other.note}"
    return Change("two changes", (*one.edits, *other.edits), "static", one.role, note)


def without(change: Change, earlier: Change) -> Change | None:
    """A change of what an earlier one made, as one of the text before that; None where both are of the same bytes."""
    made = []
    for edit in change.edits:
        moved = 0
        for one in sorted((one for one in earlier.edits if one.file == edit.file), key=lambda one: one.start):
            begin, length = one.start + moved, len(one.text.encode())  # in the text that it made
            if edit.start >= begin + length:
                moved += length - (one.end - one.start)
            elif edit.end > begin:
                return None
        made.append(replace(edit, start=edit.start - moved, end=edit.end - moved))
    return replace(change, edits=tuple(made))


Texts = Mapping[str, bytes]
"""The files that changes are about, UTF-8, by the path that `TextEdit.file` names."""


def applied(texts: Texts, changes: Sequence[Change]) -> dict[str, bytes]:
    """The files with all `changes` made.

    Raises:
        ValueError: two edits overlap, or one lies outside its file.
    """
    edits = [edit for change in changes for edit in change.edits]
    made = dict(texts)
    for file in {edit.file for edit in edits}:
        if file not in texts:
            raise ValueError(f"no text of {file}")
        made[file] = _edited(texts[file], [edit for edit in edits if edit.file == file])
    return made


def by_path(texts: Texts) -> dict[Path, str]:
    """Texts as a bench runs a source with them: by resolved path, with bytes that are no UTF-8 kept."""
    return {Path(file).resolve(): text.decode("utf-8", "surrogateescape") for file, text in texts.items()}


def _edited(text: bytes, edits: Sequence[TextEdit]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if not position <= edit.start <= edit.end <= len(text):
            raise ValueError(f"{edit.file}: bytes {edit.start} to {edit.end} overlap another edit or leave the file")
        parts += [text[position : edit.start], edit.text.encode()]
        position = edit.end
    return b"".join([*parts, text[position:]])


def alike_at_the_ends(old: Sequence[object], new: Sequence[object]) -> tuple[int, int]:
    """How many first ones of both are the same, and of the others how many last ones."""
    head, most = 0, min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def impossible(change: Change, texts: Texts) -> str:
    """Why a change cannot be made in texts, or ""."""
    end: dict[str, int] = {}
    for one in sorted(change.edits, key=lambda one: (one.file, one.start, one.end)):
        if one.file not in texts:
            return f"{one.file} is no file of {next(iter(texts))}"
        if not end.get(one.file, 0) <= one.start <= one.end <= len(texts[one.file]):
            return f"bytes {one.start} to {one.end} of {one.file} do not exist, or are changed twice"
        end[one.file] = one.end
    return "" if change.edits else "nothing is changed"
