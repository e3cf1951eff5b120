"""A statement made as another one is, where they differ in more than names: both are aligned, token by token."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from wmmadiag.csource import precedence
from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, statement_replaced
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.shapes import Token, Tokens, shapes

_LONGEST, _MOST_OTHERS = 64, 6
_ALIKE = 0.5
"""Share of a statement's tokens that must stand in the other one."""
_SAME, _RENAMED, _GAP = 3, 1, -0.25
_BETWEEN = frozenset({"+", "-", "*", "/", "%", "<", ">", "="})
_OPEN, _CLOSED = frozenset("([{"), frozenset(")]}")

_Step = tuple[Token | None, Token | None]
"""A token of the statement and of the other one, or one of them alone."""


def aligned_statements(program: Program, *, calls: bool) -> Iterator[Draft]:
    """What another statement of a function has more, less or otherwise than one, with this one's names.

    Args:
        calls: of what calls the same function alone; else of any two.
    """
    known = shapes(program)
    by_function: dict[int, list[Statement]] = defaultdict(list)
    for one in program.statements:
        if one.kind in ("expression", "declaration", "return") and 0 < len(known.tokens(one)) <= _LONGEST:
            by_function[id(one.function)].append(one)
    for group in by_function.values():
        counted = {id(one): Counter(token.text for token in known.tokens(one)) for one in group}
        for one in filter(program.may_be_changed, group):
            others = sorted(
                (
                    other for other in group
                    if other is not one and (calls or _shared(counted[id(one)], counted[id(other)]))
                    and (not calls or called_by(one, named=True) == called_by(other, named=True) != "")
                ),
                key=lambda other: abs(other.start - one.start),
            )  # fmt: skip
            for other in others[:_MOST_OTHERS]:
                line = other.unit.source.place(other.node).line
                for text in dict.fromkeys(_made(known.tokens(one), known.tokens(other))):
                    if _parses(one, text):
                        yield from _draft(one, text, f"as in line {line}")


def called_by(one: Statement, *, named: bool = False) -> str:
    """The function that a statement is a call of; "" of none.

    Args:
        named: whether the call may be the value of a variable that is declared.
    """
    alone = one.kind == "expression" or (named and one.kind == "declaration" and len(one.declares) == 1)
    whole = one.expressions[-1] if alone and one.expressions else None
    return whole.operator if whole is not None and whole.kind == "call" else ""


def _shared(own: Counter[str], other: Counter[str]) -> bool:
    return sum((own & other).values()) >= _ALIKE * own.total()


def _made(own: Tokens, other: Tokens) -> Iterator[str]:
    """The statement's text with what the other one has at one place, and at all places."""
    names = _called(_alignment(own, other, {}))
    yield from _filled(own, other, names)
    members = _members(own)
    if len(members) == 1:  # it is about one member of each, whatever the other one mixes
        yield from _filled(own, other, names | dict.fromkeys(_members(other), *members))


def _members(tokens: Tokens) -> set[str]:
    return {one.text for before, one in itertools.pairwise(tokens) if before.text in (".", "->")}


def _filled(own: Tokens, other: Tokens, names: Mapping[str, str]) -> Iterator[str]:
    """The same, with the other one's names called so."""
    steps = _alignment(own, other, names)
    gaps = _gaps(steps)
    if not gaps:
        return
    for chosen in (*([gap] for gap in gaps), gaps):
        text = _text(steps, {number for gap in chosen for number in gap}, names)
        if _balanced(text):
            yield text


def _called(steps: Sequence[_Step]) -> dict[str, str]:
    """What the other statement's names are called here, each of them one thing; the most frequent pairs first."""
    counted = Counter(
        (its.text, mine.text) for mine, its in steps if mine is not None and its is not None and its.kind == "name"
    )
    names: dict[str, str] = {}
    for (text, called), _ in counted.most_common():
        if text not in names and called not in names.values():
            names[text] = called
    return names


def _parses(one: Statement, text: str) -> bool:
    """Whether a text is a statement."""
    declared = "auto " if one.kind == "declaration" else ""
    return not parse(f"void m() {{ {declared}{text} }}".encode("utf-8", "surrogateescape")).errors()


def _gaps(steps: Sequence[_Step]) -> list[list[int]]:
    """The numbers of the steps at which one statement has something that the other one has not, those in a row
    together."""
    found: list[list[int]] = []
    for number, (mine, its) in enumerate(steps):
        if mine is None or its is None:
            if found and found[-1][-1] == number - 1:
                found[-1].append(number)
            else:
                found.append([number])
    return found


def _text(steps: Sequence[_Step], taken: set[int], names: Mapping[str, str]) -> str:
    parts = []
    for number, (mine, its) in enumerate(steps):
        if number not in taken or (mine is not None and its is not None):
            parts.append(mine.text if mine is not None else "")
        elif its is not None:
            parts.append(names.get(its.text, its.text))
    return _joined([part for part in parts if part])


def _joined(parts: Sequence[str]) -> str:
    """Tokens as text: those that would become another one stay apart."""
    made = ""
    for part in parts:
        word = made[-1:].isalnum() or made[-1:] == "_"
        apart = (word and (part[0].isalnum() or part[0] == "_")) or made[-1:] == ","
        between = part in _BETWEEN and (word or made[-1:] in (")", "]"))  # no sign, but what two operands stand around
        made += f" {part} " if between else f" {part}" if apart and not made.endswith(" ") else part
    return made


def _balanced(text: str) -> bool:
    depth = 0
    for sign in text:
        depth += (sign in _OPEN) - (sign in _CLOSED)
        if depth < 0:
            return False
    return depth == 0


def _alignment(own: Tokens, other: Tokens, names: Mapping[str, str]) -> list[_Step]:
    """Both statements side by side, such that as many tokens as can be are the same or stand for each other
    (Needleman and Wunsch 1970).

    Args:
        names: what the other one's names are likely called here.
    """
    rows, columns = len(own), len(other)
    of_own, of_other, known = _of_objects(own), _of_objects(other), {one.text for one in own}

    def worth(row: int, column: int) -> float:
        if of_own[row] != of_other[column]:  # a member stands for no variable
            return -100.0
        likely = _worth(own[row], other[column], names)
        # What both have is seldom called something else.
        return likely / 2 if likely == _RENAMED and other[column].text in known else likely

    best = [[_GAP * (row + column) for column in range(columns + 1)] for row in range(rows + 1)]
    for row in range(1, rows + 1):
        above, here = best[row - 1], best[row]
        for column in range(1, columns + 1):
            here[column] = max(
                above[column - 1] + worth(row - 1, column - 1),
                above[column] + _GAP,
                here[column - 1] + _GAP,
            )
    steps: list[_Step] = []
    row, column = rows, columns
    while row or column:
        if row and column and best[row][column] == best[row - 1][column - 1] + worth(row - 1, column - 1):
            row, column = row - 1, column - 1
            steps.append((own[row], other[column]))
        elif row and best[row][column] == best[row - 1][column] + _GAP:
            row -= 1
            steps.append((own[row], None))
        else:
            column -= 1
            steps.append((None, other[column]))
    return steps[::-1]


def _of_objects(tokens: Tokens) -> list[bool]:
    """Of each token, whether it is the name of a member."""
    return [
        one.kind == "name" and number > 0 and (tokens[number - 1].text == "." or _arrow(tokens, number))
        for number, one in enumerate(tokens)
    ]


def _arrow(tokens: Tokens, number: int) -> bool:
    return number > 1 and (tokens[number - 2].text, tokens[number - 1].text) == ("-", ">")


def _worth(mine: Token, its: Token, names: Mapping[str, str]) -> float:
    if mine.text == its.text:
        return _SAME
    if names.get(its.text) == mine.text:
        return _SAME - _RENAMED
    return _RENAMED if mine.kind == its.kind != "mark" else -100.0


def _draft(one: Statement, text: str, note: str) -> Iterator[Draft]:
    if one.kind != "declaration":
        yield statement_replaced(one, text, f"{text[:80]} {note}")
        return
    value = one.expressions[-1] if one.expressions and len(one.declares) == 1 else None
    head, equals, tail = text.partition("=")
    if value is not None and one.declares[0].value is not None and equals and head.strip() == one.declares[0].name:
        made = tail.rstrip(";").strip()
        yield replaced(value, Text(made, precedence.ASSIGNMENT), f"{made[:80]} {note}")
