"""Make a stride what the tensor's layout has, where it is known how far apart an access reads: add or drop an extent,
or take another. What is put there must be the layout's stride in the card's other cases, too.

Bad:
    const int row_stride = heads * 64;       // of packed [S][3][H][64]

Good:
    const int row_stride = 3 * heads * 64;
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import prod

from wmmadiag.diagnose.edits.building import means_the_same, mentions, replaced, same_pieces
from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.leading_dimension import addresses
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, origin, terms
from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.model import Number, SourceModel, Span, Variable

_KIND = "strides"
_ALL = ("tensor-strides", "leading-dimension", "index-arithmetic")
_DEEP = 5
_LARGEST_LITERAL = 4
_MOST_NAMES = 24
_OTHER_CASES = 4


@generator(_KIND, *_ALL, needs_lines=True)
def generate(view: View) -> Iterator[Edit]:
    """Expressions on wanted lines whose value is the stride that is read; where another pointer of the kind begins."""
    if "misread" in view.values:
        yield from _as_another(view)
    wanted = pairs(view)
    if wanted:
        for found in _by_statement(view, list(_pieces(view)), wanted).values():
            yield from _together(view, found)


def pairs(view: View) -> list[tuple[int, int]]:
    """(stride that is read, stride of the layout) as `values` has them: "read-0" and "lies-0", and so on."""
    found: list[tuple[int, int]] = []
    while f"read-{len(found)}" in view.values:
        number = len(found)
        found.append((int(view.values[f"read-{number}"]), int(view.values[f"lies-{number}"])))
    return found


def _pieces(view: View) -> Iterator[Span]:
    """Integer expressions on wanted lines, values in braces and arguments of calls among them; each once."""
    model = view.model
    found = list(integer_expressions(view))
    for variable in model.variables:
        if variable.initial is not None and not variable.pointer and view.wanted(variable.start, variable.end):
            found += _between_commas(model, variable.initial)
    for call in model.calls:
        if view.wanted(call.start, call.end):
            found += call.arguments
    seen: set[tuple[int, int]] = set()
    for piece in found:
        if piece and (piece.first, piece.last) not in seen:
            seen.add((piece.first, piece.last))
            yield piece


def _between_commas(model: SourceModel, piece: Span) -> list[Span]:
    first, last = piece.first, piece.last
    if model.tokens[first].text == "{" and model.match[first] == last - 1:
        first, last = first + 1, last - 1
    found, start, index = [], first, first
    while index <= last:
        text = model.tokens[index].text if index < last else ","
        if text in ("(", "[", "{") and model.match[index] > index:
            index = model.match[index]
        elif text == ",":
            found.append(model.span(start, index))
            start = index + 1
        index += 1
    return found


def _as_another(view: View) -> Iterator[Edit]:
    """`v = values + h * n` as another pointer is made: `k = keys + (b * heads + h) * n`."""
    model = view.model
    all_of_them = list(_starts(View(model, None, view.values)))
    for pointer, offset in _starts(view):
        for other, theirs in all_of_them:
            same = model.function_at(offset.start) is model.function_at(theirs.start)
            if _moves(model, offset) != _moves(model, theirs):  # where one begins is not how far another one is moved
                continue
            if same and other is not pointer and not same_pieces(offset.text, theirs.text):
                text = theirs.text
                if means_the_same(model, theirs, offset.start):
                    words = f"begin at {pointer.name} + {text}, as with {other.name}"
                    yield from view.offer(_KIND, _ALL, offset.line, words, (replaced(offset, text),), 0.02)


def _moves(model: SourceModel, offset: Span) -> bool:
    """Whether it is added to a pointer that goes on from there."""
    return offset.first > 0 and model.tokens[offset.first - 1].text == "+="


def _starts(view: View) -> Iterator[tuple[Variable, Span]]:
    """(pointer, offset) of the sums that other pointers begin with, and of what is added to a pointer."""
    model = view.model
    for piece, base in addresses(view):
        found = terms(model, piece)
        source = origin(model, base)
        if base is None or not base.pointer or not found or source is None or source.kind != "parameter":
            continue
        if found[0].text == base.name and len(found) > 1:
            yield base, model.span(found[1].first, piece.last)
        elif base.name not in {model.tokens[at].text for at in range(piece.first, piece.last)}:
            yield base, piece


# Values


def known(view: View, name: str, offset: int, case: str = "", depth: int = 0) -> Number | None:
    """What a name is worth at an offset: a constant, an argument of the launch, or a constant made of these.

    `case`: "" for the failing one, "@0" for the first of the others.
    """
    model = view.model
    variable = model.variable(name, offset) if "." not in name else None
    if variable is None or variable.kind == "parameter":
        return view.values.get(name + case, model.constants.get(name))
    if name in model.constants:
        return model.constants[name]
    if variable.initial is None or variable.pointer or variable.dims or depth > _DEEP or variable.kind == "loop":
        return None
    if not variable.const and _assigned(model, name, variable.visible):
        return None
    return value_of(view, variable.initial, case, depth + 1)


def _assigned(model: SourceModel, name: str, visible: tuple[int, int]) -> bool:
    return any(one.target.text == name and visible[0] <= one.target.start < visible[1] for one in model.assignments)


def value_of(view: View, piece: Span, case: str = "", depth: int = 0) -> Number | None:
    """The value of an expression, by what its names are worth where it stands."""
    tokens = view.model.tokens[piece.first : piece.last]
    return evaluate(tokens, lambda name: known(view, name, piece.start, case, depth))


def _names(view: View, offset: int) -> dict[str, int]:
    """Names that can be used at an offset, with their values above 1."""
    texts = [variable.name for variable in view.integers(offset)]
    texts += [name for name in view.model.constants if name[:2] != "__" and view.model.variable(name, offset) is None]
    for name in view.values:
        holder = name.partition(".")[0] if "." in name else ""
        if holder and view.model.variable(holder, offset) is not None:
            texts.append(name)
    found = {}
    for text in texts:
        value = known(view, text, offset)
        if isinstance(value, int) and value > 1:
            found[text] = value
    return found


# Expressions for a value


@dataclass(frozen=True, slots=True)
class _Swap:
    """One expression that is worth a stride that is read, and what would be worth the right one."""

    pair: int
    change: Change
    words: str
    rank: float
    line: int


def _by_statement(view: View, pieces: list[Span], wanted: list[tuple[int, int]]) -> dict[int, list[_Swap]]:
    found: dict[int, list[_Swap]] = {}
    for piece in pieces:
        for term in terms(view.model, piece):
            for swap in _swaps(view, term, wanted):
                found.setdefault(view.model.statement_at(piece.start), []).append(swap)
    return found


def _swaps(view: View, term: Span, wanted: list[tuple[int, int]]) -> Iterator[_Swap]:
    """For a term whose extents multiply to a stride that is read: ways to the right one."""
    parts = factors(view.model, term)
    values = [value_of(view, part) for part in parts]
    extents = [(part, value) for part, value in zip(parts, values, strict=True) if isinstance(value, int) and value > 0]
    whole = 1
    for _, value in extents:
        whole *= value
    names = _names(view, term.start)

    made: set[tuple[object, ...]] = set()

    def fits(number: int, gone: Span | None, texts: list[str], literal: int = 1) -> bool:
        """Whether the extents, one of them gone and others added, are the layout's stride in the other cases.

        The same extents in another order are no further change.
        """
        extent_texts = [part.text for part, _ in extents if part is not gone]
        key = (number, *sorted([*extent_texts, *texts, str(literal)]))
        if key in made:
            return False
        made.add(key)
        for case in _cases(view, number):
            kept = [value_of(view, part, case) for part, _ in extents if part is not gone]
            added = [known(view, text, term.start, case) for text in texts]
            if prod(value or 0 for value in (*kept, *added, literal)) != view.values[f"lies-{number}{case}"]:
                return False
        return True

    for number, (read, lies) in enumerate(wanted):
        if not extents or whole != read:
            continue
        if lies % read == 0:
            ratio = lies // read
            for text in [name for name, value in names.items() if value == ratio]:
                if fits(number, None, [text]):
                    change = Change(term.end, term.end, f" * {text}")
                    rank = 0.03 if mentions(view.model, term, text) else 0.01
                    yield _Swap(number, change, f"multiply {term.text} by {text}", rank, term.line)
            if ratio <= _LARGEST_LITERAL and fits(number, None, [], ratio):
                change = Change(term.start, term.start, f"{ratio} * ")
                yield _Swap(number, change, f"{ratio} * {term.text}", 0.012, term.line)
        for part, value in extents:
            other, rest = divmod(value * lies, read)
            if rest:
                continue
            if other == 1 and len(parts) > 1 and fits(number, part, []):
                yield _Swap(number, _without(parts, part), f"drop {part.text}", 0.011, term.line)
            for some in _worth(names, other):
                if len(some) > 1 and any(names[name] == value for name in some):
                    continue  # the same number under another name: what is meant is a factor more
                if fits(number, part, some):
                    text = " * ".join(some)
                    words = f"{text} in place of {part.text}"
                    rank = 0.009 + 0.001 * len(some) + 0.01 * any(mentions(view.model, term, name) for name in some)
                    yield _Swap(number, replaced(part, text), words, rank, part.line)


def _cases(view: View, number: int) -> list[str]:
    """The other cases in which a stride of the layout is known."""
    return [case for case in map("@{}".format, range(_OTHER_CASES)) if f"lies-{number}{case}" in view.values]


def _without(parts: list[Span], part: Span) -> Change:
    position = parts.index(part)
    if position:
        return Change(parts[position - 1].end, part.end, "")
    return Change(part.start, parts[1].start, "")


def _worth(names: dict[str, int], value: int) -> Iterator[list[str]]:
    """Up to three names whose product is a value, the fewest first."""
    few = sorted(names)[:_MOST_NAMES]
    for count in (1, 2, 3):
        for some in combinations(few, count):
            if prod(names[name] for name in some) == value:
                yield list(some)


def _together(view: View, found: list[_Swap]) -> Iterator[Edit]:
    """Each change alone, and those of several strides in one statement together."""
    for swap in found:
        yield from view.offer(_KIND, _ALL, swap.line, swap.words, (swap.change,), swap.rank)
    by_pair: dict[int, list[_Swap]] = {}
    for swap in found:
        by_pair.setdefault(swap.pair, []).append(swap)
    if len(by_pair) < 2:
        return
    best = [sorted(swaps, key=lambda swap: swap.rank)[:4] for swaps in by_pair.values()]
    for some in product(*best):
        changes = sorted((swap.change for swap in some), key=lambda change: change.start)
        if all(a.end <= b.start and a.start != b.start for a, b in pairwise(changes)):
            words = "; ".join(swap.words for swap in some)
            rank = max(swap.rank for swap in some) - 0.008
            yield from view.offer(_KIND, _ALL, some[0].line, words, tuple(changes), rank)
