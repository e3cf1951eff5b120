"""What may stand in place of an expression: anything that can be named there, alone or two of it under an operator.

No operator of its own: these are all combinations of what the program says already, which the trial engine tries by the
thousand in one program (`trials.holes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.donors.other_expression import Shelf
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.trials.holes import ALONE, AND, OPERATORS, OR, Filling, Hole

_ATOMS, _NUMBERS, _DONORS, _COMPARED, _UNREAD = 20, 8, 16, 14, 12
_WHOLE = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")
_OPERATIONS = {
    "integer": _WHOLE, "byte": _WHOLE, "float": ("+", "-", "*", "/"),
    "half": ("+", "-", "*", "/"), "bool": (),
    # of a template's type, or one that only the compiler knows: it drops what is no number
    "named": ("+", "-", "*", "/"), "unknown": ("+", "-", "*", "/"),
}  # fmt: skip
_ORDERED = frozenset({"-", "/", "%", "<<", ">>"})
_BITS = frozenset({"<<", ">>", "&", "|"})
"""Operators whose second operand is a number that somebody wrote."""
_NOUGHT = re.compile(r"0*\.?0*[fF]?$")
_NUMBER = re.compile(r"[\d.]")
_SHAPE = re.compile(r"\s*[-+]\s*\d+\b|\b\d[\w.]*|\d+\b|(?<=\.)[A-Za-z_]\w*|(?<=->)[A-Za-z_]\w*|\s+")
_LANE = 5
"""Bits of a lane's number."""
_MOST_ALIKE = 8
"""Places that are filled alike at once."""
_COMPARISONS = ("<", "<=", "==", "!=")
_OF_TWO = ("+", "-", "*", "/", "%", "&", ">>")
_EVEN = {
    "integer": ("1", "2"), "byte": ("1", "2"), "float": ("2.0f", "0.5f"), "half": ("2.0f",), "bool": (),
    "named": ("1", "2"), "unknown": ("1", "2"),
}  # fmt: skip
_TOGETHER = "atomic", "__shfl", "__sync"
"""How calls begin that lanes make together, or that change something."""
_FROM_NUMBER = {code: symbol for symbol, code in OPERATORS.items()}


@dataclass(eq=False)
class Blank:
    """An expression with its slots; the first is its own text."""

    expression: Expression
    slots: tuple[Text, ...]
    donors: int  # the place of the first slot that is no name, number or part of it
    others: tuple[Expression, ...] = ()  # those that are filled as it is, at the same time

    @cached_property
    def holes(self) -> tuple[Hole, ...]:
        """What the trial engine makes of it."""
        return tuple(self._hole(one, slots) for one, slots in self._each())

    def _hole(self, one: Expression, slots: Sequence[Text]) -> Hole:
        start, end = one.whole
        half = one.type.kind == "half"
        texts = tuple(f"static_cast<float>({slot.text})" if half else slot.text for slot in slots)
        return Hole(one.unit.file, start + one.unit.base, end + one.unit.base, texts)

    def _each(self) -> Iterator[tuple[Expression, tuple[Text, ...]]]:
        yield self.expression, self.slots
        for other in self.others:
            yield other, (text_of(other), *self.slots[1:])

    def tiers(self) -> tuple[list[Filling], list[Filling]]:
        """Fillings that keep the expression or are one name, and those that are put together of two; what another
        place has is left out."""
        one, others = self.expression, range(1, len(self.slots))
        if one.type.kind == "bool" or one.role == "condition":
            return list(self._conditions(others)), []
        symbols = _OPERATIONS[one.type.kind]
        near = [(ALONE, slot, slot) for slot in others]
        near += [(OPERATORS["*"], 0, 0)] if "*" in symbols and one.kind != "literal" else []
        near += [filling for slot in others for filling in self._of_two(0, slot, symbols)]
        if one.type.kind != "integer" or self.others:
            return near, []
        simple = range(1, self.donors)
        far = [filling for first in simple for second in simple if first < second
               for filling in self._of_two(first, second, _OF_TWO)]  # fmt: skip
        return near, far

    def _of_two(self, first: int, second: int, symbols: Sequence[str]) -> Iterator[Filling]:
        """Two slots under each operator that makes sense of them."""
        for one, other in ((first, second), (second, first)):
            known = [_NUMBER.match(self.slots[at].text) is not None for at in (one, other)]
            for symbol in symbols:
                ordered = symbol in _ORDERED
                divides = symbol in ("/", "%")
                # Of several places each has a number of its own.
                fixed = known[0] and (divides or all(known)) and not (self.others and one == 0)
                idle = fixed or (divides and _NOUGHT.match(self.slots[other].text))
                if (one == first or ordered) and not idle and (known[1] or symbol not in _BITS):
                    yield OPERATORS[symbol], one, other

    def _conditions(self, others: Sequence[int]) -> Iterator[Filling]:
        """One comparison; and the condition with one comparison more, which alone is for several places."""
        for first in others:
            for second in others:
                for symbol in _COMPARISONS:
                    if first < second or (symbol in ("<", "<=") and first != second):
                        code = OPERATORS[symbol]
                        yield from ((code + further, first, second) for further in ((0, AND, OR)[bool(self.others) :]))

    def draft(self, filling: Filling) -> Draft:
        """A filling as a change of text."""
        return several([(one, _text(slots, filling)) for one, slots in self._each()])


def _text(slots: Sequence[Text], filling: Filling) -> Text:
    """What a filling puts in a place that has these slots."""
    code, first, second = filling
    if code == ALONE:
        return slots[first]
    joint = ""
    if code >= OPERATORS["<"] + AND:
        joint = "&&" if code < OPERATORS["<"] + OR else "||"
        code = OPERATORS["<"] + code % 4
    made = binary(slots[first], _FROM_NUMBER[code], slots[second])
    return binary(slots[0], joint, made) if joint else made


def alike(some: Sequence[Blank]) -> Iterator[Blank]:
    """Places that may be filled alike at once, with what can be named at all of them: a mistake that was made at each.

    Those that stand at the same place of statements of one block; those of one statement that are the same; and those
    of one block that differ in numbers and members alone (`x.x` and `x.y`, `s[i]` and `s[i + 32]`).
    """
    groups: dict[object, list[Blank]] = {}
    for one in some:
        block = id(one.expression.statement.block)
        groups.setdefault((block, _path(one.expression)), []).append(one)
        if target := _does(one.expression.statement):  # before a loop, and once more in it
            does = id(one.expression.statement.function), target, _path(one.expression), one.expression.text
            groups.setdefault(does, []).append(one)
        groups.setdefault((id(one.expression.statement), one.expression.text), []).append(one)
        if one.expression.kind != "literal":
            groups.setdefault((block, one.expression.type.kind, _shape(one.expression)), []).append(one)
    done: set[tuple[int, ...]] = set()
    for group in groups.values():
        members = tuple(id(one) for one in group)
        if not 1 < len(group) <= _MOST_ALIKE or members in done or _nested(group):
            continue
        done.add(members)
        common = set.intersection(*({slot.text for slot in one.slots[1:]} for one in group))
        slots = [slot for slot in group[0].slots[1:] if slot.text in common]
        if slots:
            yield Blank(group[0].expression, (group[0].slots[0], *slots), 1, tuple(one.expression for one in group[1:]))


def _does(one: Statement) -> str:
    """What a statement does to what, without what it does it with."""
    whole = one.expression
    if whole is None or whole.kind != "assignment" or not whole.operands:
        return ""
    value = whole.operands[-1]
    return f"{whole.operands[0].text} {whole.operator} {value.kind} {value.operator}"


def _path(one: Expression) -> tuple[object, ...]:
    """Where an expression stands in its statement: what is around it."""
    path: list[object] = [one.type.kind, one.statement.kind]
    while one.parent is not None:
        path.append((one.parent.kind, one.parent.operator, one.number))
        one = one.parent
    return tuple(path)


def _shape(one: Expression) -> str:
    """An expression with its numbers left out, those that are added to something, and the names of its members."""
    return _SHAPE.sub("", one.text)


def _nested(group: Sequence[Blank]) -> bool:
    spans = sorted((one.expression.unit.file, *one.expression.whole) for one in group)
    return any(first[0] == then[0] and then[1] < first[2] for first, then in pairwise(spans))


def places(program: Program) -> Iterator[Blank]:
    """Every place that can be a hole, with what can be named there."""
    shelf, numbers = Shelf(program), _numbers(program)
    for one in program.expressions:
        if not _fillable(one):
            continue
        named: dict[str, Text] = {}
        if one.type.kind == "bool" or one.role == "condition":
            for text in _compared(program, one):
                named.setdefault(text.text, text)
            if len(named) > 1:
                yield Blank(one, (text_of(one), *named.values()), len(named) + 1)
            continue
        kind = one.type.kind
        for part in one.under():
            if part is not one and (part.type.arithmetic or part.type.kind == kind) and _pure(part):
                named.setdefault(part.text, text_of(part))
        for atom in names_for(program, one, _ATOMS):
            named.setdefault(atom.text, Text(atom.text, precedence.POSTFIX))
        for text in (*_EVEN[kind], *numbers.get(kind, ())[:_NUMBERS]):
            named.setdefault(text, Text(text))
        if one.kind == "literal":  # a number rather than what happens to be one
            named = dict(sorted(named.items(), key=lambda item: _NUMBER.match(item[0]) is None))
        donors = len(named) + 1
        target = _target(one)
        if target is not None and kind == "float" and target.type.kind != "float":
            named.setdefault(f"(float){target.text}", Text(f"(float){target.text}", precedence.UNARY))
        found = [target] if target is not None and target.type.kind == kind else []
        likely = (other for other in shelf.likely(one) if _pure(other) and pools(program).visible(other, one))
        found += [other for other, _ in zip(likely, range(_DONORS), strict=False)]
        for other in found:
            named.setdefault(other.text, text_of(other))
        for text in _idle(program, one, target):
            named.setdefault(text.text, text)
        named.pop(one.text, None)
        yield Blank(one, (text_of(one), *named.values()), min(donors, len(named) + 1))


def _idle(program: Program, one: Expression, target: Expression | None) -> Iterator[Text]:
    """What nothing reads: elements of arrays, factors of what is assigned to; and other bits of a lane's number."""
    pool, reals = pools(program), ("float", "half")
    if target is not None and target.type.kind in reals and one.type.kind in reals:
        for atom in pool.at(one):
            if atom.type.kind in reals and atom.text == atom.root and atom.text not in pool.roles:
                yield binary(Text(atom.text, precedence.POSTFIX), "*", text_of(target))
    yield from (Text(text, precedence.POSTFIX) for text in _unread(program, one))
    if one.type.kind == "integer":
        yield from _of_lanes(one)


def _unread(program: Program, one: Expression) -> list[str]:
    """Elements of arrays that nothing reads, where others are read."""
    pool = pools(program)
    idle = [atom.text for atom in pool.at(one) if atom.type.address and atom.text not in pool.roles
            and atom.type.of is not None and atom.type.of.arithmetic]  # fmt: skip
    read = dict.fromkeys(
        other.operands[1].text for other in program.all_expressions() if idle and other.kind == "subscript"
        and len(other.operands) == 2 and _pure(other.operands[1]) and pool.visible(other.operands[1], one)
    )  # fmt: skip
    return [f"{name}[{index}]" for name in idle for index in read][:_UNREAD]


def _of_lanes(one: Expression) -> Iterator[Text]:
    """The bits of what an expression takes bits of, a few at a time: which lane holds what is made of these."""
    split = {part.operands[0].text: part for part in one.under() if _splits(part)}
    for part in split.values():
        lane = text_of(part.operands[0])
        shifts = part.operator in (">>", "&")
        for least in range(_LANE):
            for count in range(1, _LANE - least + 1):
                # from the lowest or up to the highest one, one alone, or two in the middle
                if least == 0 or count == 1 or least + count == _LANE or count == 2:
                    yield _bits_of(lane, least, count, shifts)


def _bits_of(lane: Text, least: int, count: int, shifts: bool) -> Text:
    """`lane >> least & (1 << count) - 1`, as the program writes it; the highest bits need no mask."""
    whole = lane
    if least:
        whole = binary(lane, ">>", Text(str(least))) if shifts else binary(lane, "/", Text(str(1 << least)))
    if least + count == _LANE:
        return whole
    return binary(whole, "&", Text(str((1 << count) - 1))) if shifts else binary(whole, "%", Text(str(1 << count)))


def _splits(one: Expression) -> bool:
    """Whether it is a part of a number's bits."""
    if one.kind != "binary" or one.operator not in ("/", "%", ">>", "&") or one.operands[0].kind != "name":
        return False
    by = one.operands[1]
    return by.kind == "literal" and by.text.isdecimal() and int(by.text) < 1 << _LANE


def _target(one: Expression) -> Expression | None:
    """What an expression is assigned to."""
    while one.parent is not None and one.parent.kind == "cast":
        one = one.parent
    around = one.parent
    return around.operands[0] if around is not None and around.kind == "assignment" and one.number == 1 else None


def _numbers(program: Program) -> dict[str, list[str]]:
    """The numbers of a program by their kind, the most frequent first."""
    counts: dict[str, dict[str, int]] = {}
    for one in program.all_expressions():
        if one.kind == "literal" and one.type.arithmetic:
            held = counts.setdefault(one.type.kind, {})
            held[one.text] = held.get(one.text, 0) + 1
    return {kind: sorted(held, key=lambda text: -held[text]) for kind, held in counts.items()}


def _compared(program: Program, one: Expression) -> list[Text]:
    """What a condition may compare: its own operands, what else is compared in the program, and names."""
    pool = pools(program)
    found: dict[str, Text] = {}
    own = [part for part in one.under() if part is not one and part.type.kind in ("integer", "float") and _pure(part)]
    others = [
        operand
        for other in program.all_expressions()
        if (other.kind == "binary" and other.operator in OPERATORS and OPERATORS[other.operator] >= OPERATORS["<"])
        or (other.kind == "binary" and other.operator in (">", ">="))
        for operand in other.operands
        if operand.type.kind in ("integer", "float") and _pure(operand) and pool.visible(operand, one)
    ]  # fmt: skip
    for part in (*own, *others):
        found.setdefault(part.text, text_of(part))
        if len(found) >= _COMPARED:
            break
    return list(found.values())


def _fillable(one: Expression) -> bool:
    if one.type.kind not in _OPERATIONS or one.fixed or one.assigned or one.unit.macro or not _pure(one):
        return False
    if (
        one.statement.kind == "other"
        or (one.parent is None and one.statement.kind == "expression")
        or (one.parent is not None and one.parent.kind in ("member", "list", "assembly"))
    ):
        return False
    condition = one.type.kind == "bool" or one.role == "condition"
    return not condition or one.parent is None or (one.parent.kind == "conditional" and one.number == 0)


def _pure(one: Expression) -> bool:
    """Whether it can be evaluated anywhere, any number of times."""
    return not any(
        part.kind in ("assignment", "list", "comma", "lambda", "assembly", "other") or part.assigned
        or (part.kind == "unary" and part.operator in ("++", "--", "&"))
        or (part.kind == "call" and (part.operator.startswith(_TOGETHER) or part.type.kind == "void"))
        for part in one.under()
    )  # fmt: skip
