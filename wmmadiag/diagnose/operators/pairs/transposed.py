"""Places that stand beside each other, counted along the other of two dimensions first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.extents import CounterExtents, extents
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST, _MOST_TERMS, _MOST_APART = 16, 4, 8

_Pairs: TypeAlias = list[tuple[Expression, Text]]
_Found: TypeAlias = Iterator[tuple[tuple[str, int], _Pairs]]
"""Of a counter and how many places it has in a row: the indices of one array, counted otherwise."""


@dataclass(frozen=True, slots=True)
class _Index:
    """An index as a sum."""

    whole: Expression
    array: str  # none of what a list has
    terms: tuple[Expression, ...]  # without the numbers
    number: int  # what these come to


@operator
def transposed(program: Program) -> Iterator[Draft]:
    """`x[2 * i]` and `x[2 * i + 1]` for `x[i]` and `x[i + n]` of statements of one block, and `{2 * i, 2 * i + 1}` for
    `{i, i + n}`; and back, where a loop counts `i` to `n`, or it is what is left by it. For one array, and for all that
    have it so at once."""
    blocks: dict[int, list[_Index]] = defaultdict(list)
    for one in program.expressions:
        element = one.parent is not None and one.parent.kind == "list"
        part = one.operands[1] if one.kind == "subscript" and len(one.operands) == 2 else one if element else None
        if part is not None and part.type.whole and not one.fixed:
            made = _index(part, one.operands[0].text if part is not one else "")
            blocks[id(one.statement.block)] += [made] if made is not None else []
    for indices in blocks.values():
        for found in (_by_rows(indices), _by_columns(indices, extents(program))):
            families: dict[tuple[str, int], list[_Pairs]] = defaultdict(list)
            for key, pairs in found:
                families[key].append(pairs)
            for listed in families.values():
                together = [pair for pairs in listed for pair in pairs]
                for pairs in (*listed, together)[: 1 + len(listed) if len(listed) > 1 else 1]:
                    yield several(pairs, f"{pairs[-1][1].text} for {pairs[-1][0].text}, and those beside it")


def _index(whole: Expression, array: str) -> _Index | None:
    held = sums.terms(whole)
    terms = tuple(part.expression for part in held if not part.expression.text.isdecimal())
    if any(part.negative for part in held) or not 0 < len(terms) <= _MOST_TERMS:
        return None
    numbers = (int(part.expression.text) for part in held if part.expression.text.isdecimal())
    return _Index(whole, array, terms, sum(numbers))


def _by_rows(indices: list[_Index]) -> _Found:
    """From `i + k * n` with k = 0, 1, … to `count * i + k`."""
    groups: dict[tuple[str, ...], list[_Index]] = defaultdict(list)
    for one in indices:
        varying = (term.text for term in one.terms if term.varying is not False)
        groups[(one.array, *varying)].append(one)
    for held in groups.values():
        least = min(held, key=lambda one: (len(one.terms), one.number))
        places = sorted({(_beyond(one, least), one.number - least.number) for one in held})
        steps = [number for beyond, number in places if not beyond]
        if len(places) > len(steps):  # `i` and `i + n`
            regular = len(places) == 2 and len(steps) == 1 and places[1] == (1, 0)
        else:
            regular = len(steps) > 1 and steps[1] > 1 and steps == list(range(0, steps[1] * len(steps), steps[1]))
        if not regular or len(held) > _MOST:
            continue
        for counter in [term for term in least.terms if term.varying is not False]:
            pairs = []
            for one in held:
                known = [_times(len(places), term) if term.text == counter.text else text_of(term)
                         for term in least.terms]  # fmt: skip
                place = places.index((_beyond(one, least), one.number - least.number))
                pairs.append((one.whole, _sum([*known, least.number + place])))
            yield (counter.text, len(places)), pairs


def _beyond(one: _Index, least: _Index) -> int:
    """How many terms it has that another index lacks."""
    return len({term.text for term in one.terms} - {term.text for term in least.terms})


def _by_columns(indices: list[_Index], known: CounterExtents) -> _Found:
    """From `count * i + k` with k = 0, 1, … to `i + k * n`, where `i` is counted to `n`, or what is left by it."""
    groups: dict[tuple[str, ...], list[tuple[_Index, Expression, Expression]]] = defaultdict(list)
    for one in indices:
        for term in one.terms:
            factors = sums.factors(term)
            for count, counter in (factors, factors[::-1]) if len(factors) == 2 else ():
                if count.text.isdecimal() and counter.kind == "name":
                    others = (other.text for other in one.terms if other is not term)
                    groups[(one.array, count.text, counter.text, *others)].append((one, term, counter))
    for (_, apart, *_), held in groups.items():
        many, name = int(apart), held[0][2]
        extent, base = known.of(name), min(one.number for one, _, _ in held)
        steps = sorted({one.number - base for one, _, _ in held})
        if extent is None or not 1 < len(steps) <= _MOST_APART or steps != list(range(many)):
            continue
        pairs = []
        for one, scaled, _ in held[:_MOST]:
            made: list[Text | int] = [text_of(name if term is scaled else term) for term in one.terms]
            step = one.number - base
            if extent.text.isdecimal():
                made.append(base + step * int(extent.text))
            else:
                made += [extent if step == 1 else binary(Text(str(step)), "*", extent) if step else 0, base]
            pairs.append((one.whole, _sum(made)))
        yield (name.text, many), pairs


def _times(count: int, counter: Expression) -> Text:
    return binary(Text(str(count)), "*", text_of(counter))


def _sum(parts: list[Text | int]) -> Text:
    """A sum; a number that is nought is left out."""
    texts = [Text(str(part)) if isinstance(part, int) else part for part in parts if part != 0]
    made = texts[0]
    for part in texts[1:]:
        made = binary(made, "+", part)
    return made
