"""A backward slice as a tree, and the tree as short text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from wmmadiag.place import Place

ALIKE = "alike"
"""Note of a multiplication that the first element along k was followed through already."""
_NUMBER = re.compile(r"(?<![\w%.])-?\d+(?![\w.])")
_REGISTER = re.compile(r"%[A-Za-z]+\d+")


@dataclass(slots=True)
class SliceStep:
    """One step of a slice: what made a value, and what it was made of."""

    what: str  # words: "mma, row 3, column 5", "K[0, 1, 3, 5]", "sP, byte 1040"
    place: Place | None = None  # the user's line; None for an element of an argument
    # what it was made of; empty at arguments, constants, and where the slice was seen before
    children: list[SliceStep] = field(default_factory=list)
    note: str = ""  # "seen above", "not followed further", or ""

    def steps(self) -> Iterator[tuple[int, SliceStep]]:
        """(depth, step) of the whole tree, each step before its children."""
        stack = [(0, self)]
        while stack:
            depth, step = stack.pop()
            yield depth, step
            stack += [(depth + 1, child) for child in reversed(step.children)]

    def leaves(self) -> Iterator[SliceStep]:
        """Arguments, constants and cut branches."""
        return (step for _, step in self.steps() if not step.children)

    def render(self) -> str:
        """The tree as indented text."""
        lines = []
        for depth, step in self.steps():
            where = f"  ({Path(step.place.file).name}:{step.place.line})" if step.place else ""
            note = f"  [{step.note}]" if step.note else ""
            lines.append(f"{'  ' * depth}{step.what}{where}{note}")
        return "\n".join(lines)

    def as_data(self) -> dict[str, Any]:
        """Plain data: what, place, note, children."""
        data: dict[str, Any] = {"what": self.what}
        if self.place is not None:
            data["place"] = str(self.place)
        if self.note:
            data["note"] = self.note
        if self.children:
            data["children"] = [child.as_data() for child in self.children]
        return data


def compact(origin: SliceStep) -> SliceStep:
    """The same tree with neighbours that differ in indices alone drawn as one: `q[0, 0, 3, 0..15]`.

    What lies under the first multiplication of such a group stands for all of them.
    """
    children = _in_order(_flat(origin))
    children = [compact(child) for child in children]
    merged: list[SliceStep] = []
    group: list[SliceStep] = []
    for child in children:
        if group and _shape(group[0]) != _shape(child):
            merged.append(_together(group))
            group = []
        group.append(child)
    if group:
        merged.append(_together(group))
    return SliceStep(origin.what, origin.place, merged, "" if origin.note == ALIKE else origin.note)


def _flat(origin: SliceStep) -> Iterator[SliceStep]:
    """Its children, those of a chain of the same instruction (a sum over a loop, a multiplication's k-steps) as one."""
    stack = list(reversed(origin.children))
    while stack:
        child = stack.pop()
        inner = child
        if _multiplies(origin) and child.what.startswith("C:") and len(child.children) == 1:
            inner = child.children[0]
        if inner.children and (inner.what, inner.place) == (origin.what, origin.place):
            stack += reversed(inner.children)
        else:
            yield child


def _in_order(children: Iterable[SliceStep]) -> list[SliceStep]:
    """Operands of a chain of multiplications together; what was seen above once only."""
    seen: set[tuple[str, Place | None]] = set()
    kept = []
    for child in children:
        key = child.what, child.place
        if child.note == "seen above" and not child.children:
            if key in seen:
                continue
            seen.add(key)
        kept.append(child)
    return sorted(kept, key=lambda child: "CAB".find(child.what[0]) if child.what[1:2] in (":", ",") else 0)


def _multiplies(origin: SliceStep) -> bool:
    return "mma" in origin.what.split(" ")[0] and ", row " in origin.what


def _shape(origin: SliceStep) -> tuple[Any, ...]:
    """What neighbours must have in common."""
    words = _NUMBER.sub("#", _REGISTER.sub("%", re.sub(r"\d+\.\.\d+", "#", origin.what)))
    if _multiplies(origin):
        return words, origin.place
    return words, origin.place, tuple(_shape(child) for child in origin.children)


def _together(group: Sequence[SliceStep]) -> SliceStep:
    first = group[0]
    if len(group) == 1:
        return first
    what = _ranges([one.what for one in group])
    if _multiplies(first):
        return SliceStep(
            what, first.place, first.children, "below: the first of them" if first.children else first.note
        )
    parts = zip(*(one.children for one in group), strict=True)
    return SliceStep(what, first.place, [_together(list(part)) for part in parts], first.note)


def _ranges(texts: Sequence[str]) -> str:
    """The first text with every number that differs as a range."""
    columns = list(zip(*([int(n) for n in _NUMBER.findall(text)] for text in texts), strict=False))
    position = 0

    def shown(match: re.Match[str]) -> str:
        nonlocal position
        values = columns[position] if position < len(columns) else (int(match[0]),)
        position += 1
        low, high = min(values), max(values)
        if low == high:
            return match[0]
        distinct = sorted(set(values))
        if len(distinct) == high - low + 1:
            return f"{low}..{high}"
        if len(distinct) <= 4:
            return "|".join(map(str, distinct))
        step = distinct[1] - distinct[0]
        even = all(b - a == step for a, b in pairwise(distinct))
        return f"{low}..{high} by {step}" if even else f"{low}..{high} ({len(distinct)} of them)"

    names = [_REGISTER.findall(text) for text in texts]
    text = _NUMBER.sub(shown, texts[0])
    if any(name != names[0] for name in names):
        text = _REGISTER.sub(lambda match: match[0].rstrip("0123456789") + "…", text)
    return text
