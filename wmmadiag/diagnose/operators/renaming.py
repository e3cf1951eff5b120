"""Names in terms of one another: `x_pitch` is to `x` what `y_pitch` is to `y`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+")


def difference(one: str, other: str) -> dict[str, str]:
    """Which parts of one name are otherwise in another one: all of both where they have none in common."""
    first, second = _PART.findall(one), _PART.findall(other)
    if len(first) != len(second) or not {part for part in first if part != "_"} & set(second):
        return {one: other} if one != other else {}
    return {a: b for a, b in zip(first, second, strict=True) if a != b}


def core(one: str, other: str) -> tuple[str, str]:
    """What is left of two names without what both begin and end with."""
    start = _shared(one, other)
    one, other = one[start:], other[start:]
    end = _shared(one[::-1], other[::-1])
    return one[: len(one) - end], other[: len(other) - end]


def _shared(one: str, other: str) -> int:
    """How many letters both begin with."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def with_parts(name: str, parts: Mapping[str, str]) -> str:
    """A name with its parts renamed, their case kept."""
    return parts.get(name) or "".join(_cased(part, parts) for part in _PART.findall(name))


def _cased(part: str, parts: Mapping[str, str]) -> str:
    if part in parts:
        return parts[part]
    for old, new in parts.items():
        if part.lower() == old.lower():
            return new.upper() if part.isupper() else new.lower() if part.islower() else new.capitalize()
    return part
