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
    """From `count * i + k` with k = 0, 1, … to `i + k * n`, where `i` is counted to `n`, or what is left by it."""
    parts = [_scaled_and_number(one, len(indices)) for one in indices]
    found = [one for one in parts if one is not None]
    known = {(name.text, tuple(one.text for one in others)) for name, others, _ in found}
    if len(found) != len(parts) or len(known) != 1:
        return
    counter = found[0][0]
    rounds = _rounds(indices[0], counter.text)
    if rounds is None or sorted({number for _, _, number in found}) != list(range(len(indices))):
        return
    pairs = []
    for one, (name, others, number) in zip(indices, found, strict=True):
        made = [*map(text_of, others), text_of(name)]
        if number:
            by = Text(str(number * int(rounds.text))) if rounds.text.isdecimal() else None
            plain = rounds if number == 1 else binary(Text(str(number)), "*", rounds)
            made.append(by or plain)
        pairs.append((one, _sum(made)))
    yield several(pairs, f"{pairs[-1][1].text} for {indices[-1].text}, and those beside it")


def _names_and_number(one: Expression) -> tuple[list[Expression], int] | None:
    """The terms of a sum, and what is added to them."""
    held = [part.expression for part in sums.terms(one) if not part.negative]
    numbers = [int(part.text) for part in held if part.text.isdecimal()]
    others = [part for part in held if not part.text.isdecimal()]
    if len(held) != len(sums.terms(one)) or not 0 < len(others) <= _MOST_TERMS or len(numbers) > 1:
        return None
    return others, sum(numbers)


def _scaled_and_number(one: Expression, count: int) -> tuple[Expression, list[Expression], int] | None:
    """What is counted in steps of `count` in a sum, the other terms, and the number that is added to them."""
    found = _names_and_number(one)
    for term in found[0] if found is not None else ():
        factors = sums.factors(term)
        scaled = [part for part in factors if part.text != str(count)]
        if found is not None and len(factors) == 2 and len(scaled) == 1 and scaled[0].kind == "name":
            return scaled[0], [part for part in found[0] if part is not term], found[1]
    return None


def _rounds(one: Expression, name: str) -> Text | None:
    """What the innermost loop that counts a name counts it to; or by what it is a remainder."""
    for loop in reversed(one.statement.loops):
        condition = loop.condition
        counts = any(variable.name == name for variable in loop.declares)
        if counts and condition is not None and condition.kind == "binary" and condition.operator == "<":
            return text_of(condition.operands[1])
    for statement in one.statement.function.statements:
        for variable in statement.declares:
            if variable.name == name and variable.value is not None:
                held = [whole for whole in statement.expressions if whole.kind == "binary" and whole.operator == "%"
                        and variable.value.start_byte <= whole.start < variable.value.end_byte]  # fmt: skip
                if held:
                    return text_of(held[0].operands[1])
    return None
