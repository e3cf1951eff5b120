"""Places of an array that statements beside each other fill, counted along the other of two dimensions first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST, _MOST_TERMS = 16, 3


@operator
def transposed(program: Program) -> Iterator[Draft]:
    """`x[2 * i]` and `x[2 * i + 1]` for `x[i]` and `x[i + n]` of statements of one block; and back, where a loop counts
    `i` to `n`."""
    held: dict[tuple[int, str], list[Expression]] = defaultdict(list)
    for one in program.expressions:
        if one.kind == "subscript" and len(one.operands) == 2 and one.operands[1].type.whole and not one.fixed:
            held[id(one.statement.block), one.operands[0].text].append(one.operands[1])
    for indices in held.values():
        if 1 < len(indices) <= _MOST:
            yield from _by_rows(indices)
            yield from _by_columns(indices)


def _by_rows(indices: list[Expression]) -> Iterator[Draft]:
    """From `i + k * n` with k = 0, 1, … to `count * i + k`."""
    parts = [_names_and_number(one) for one in indices]
    found = [one for one in parts if one is not None]
    if len(found) != len(parts) or len({tuple(name.text for name in names) for names, _ in found}) != 1:
        return
    numbers = sorted({number for _, number in found})
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
    if step <= 1 or numbers != list(range(0, step * len(numbers), step)):
        return
    for at, counter in enumerate(found[0][0]):
        if counter.kind == "literal":
            continue
        pairs = []
        for one, (names, own) in zip(indices, found, strict=True):
            made = [binary(Text(str(len(numbers))), "*", text_of(names[at]))]
            made = [*map(text_of, names[:at]), *made, *map(text_of, names[at + 1 :])]
            made += [Text(str(own // step))] if own else []
            pairs.append((one, _sum(made)))
        yield several(pairs, f"{pairs[-1][1].text} for {indices[-1].text}, and those beside it")


def _sum(parts: list[Text]) -> Text:
    made = parts[0]
    for part in parts[1:]:
        made = binary(made, "+", part)
    return made


def _by_columns(indices: list[Expression]) -> Iterator[Draft]:
    """From `count * i + k` with k = 0, 1, … to `i + k * n`, where a loop counts `i` to `n`."""
    parts = [_scaled_and_number(one) for one in indices]
    found = [one for one in parts if one is not None]
    if len(found) != len(parts) or len({(name.text, factor) for name, factor, _ in found}) != 1:
        return
    numbers = sorted({number for _, _, number in found})
    name, factor, _ = found[0]
    rounds = _rounds(indices[0], name.text)
    if rounds is None or factor != len(numbers) or numbers != list(range(factor)):
        return
    pairs = []
    for one, (counter, _, number) in zip(indices, found, strict=True):
        made = text_of(counter)
        if number:
            by = Text(str(number * int(rounds.text))) if rounds.text.isdecimal() else None
            made = binary(made, "+", by or binary(Text(str(number)), "*", rounds))
        pairs.append((one, made))
    yield several(pairs, f"{pairs[-1][1].text} for {indices[-1].text}, and those beside it")


def _names_and_number(one: Expression) -> tuple[list[Expression], int] | None:
    """The terms of a sum, and what is added to them."""
    held = [part.expression for part in sums.terms(one) if not part.negative]
    numbers = [int(part.text) for part in held if part.text.isdecimal()]
    others = [part for part in held if not part.text.isdecimal()]
    if len(held) != len(sums.terms(one)) or not 0 < len(others) <= _MOST_TERMS or len(numbers) > 1:
        return None
    return others, sum(numbers)


def _scaled_and_number(one: Expression) -> tuple[Expression, int, int] | None:
    held = sums.terms(one)
    if any(part.negative for part in held) or not 0 < len(held) < 3 or len(held[0].factors) != 2:
        return None
    number = held[1].expression.text if len(held) == 2 else "0"
    for name, factor in (held[0].factors, held[0].factors[::-1]):
        if name.kind == "name" and factor.text.isdecimal() and number.isdecimal():
            return name, int(factor.text), int(number)
    return None


def _rounds(one: Expression, name: str) -> Text | None:
    """What the innermost loop that counts a name counts it to."""
    for loop in reversed(one.statement.loops):
        condition = loop.condition
        counts = any(variable.name == name for variable in loop.declares)
        if counts and condition is not None and condition.kind == "binary" and condition.operator == "<":
            return text_of(condition.operands[1])
    return None
