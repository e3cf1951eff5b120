"""Which register of a fragment goes where: operands of an mma, elements of an accumulator, what fills each register.

The registers of a fragment are used in ascending order nearly everywhere, and each once: what breaks the order, or
takes one twice and another never, is the likely mistake. Source of the element map: PTX ISA 9.0, "Matrix Fragments for
mma.m16n8k16": element e of an accumulator is in row lane / 4 + 8 (e / 2), column 2 (lane % 4) + e % 2.

Bad:
    mma(acc, a[0], a[2], a[1], a[3], b[0], b[1]);

Good:
    mma(acc, a[0], a[1], a[2], a[3], b[0], b[1]);
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.edits.building import children, exchanged, replaced, same_pieces
from wmmadiag.diagnose.edits.lane_functions import GROUP, TWICE, spelled
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.lanes import LANES
from wmmadiag.diagnose.source.model import Assignment, SourceModel, Span, Subscript, Variable

_KIND = "registers"
_MAP = (
    "fragment-map", "operand-order", "operand-layout", "unwritten-output", "write-conflict", "accumulator-init",
    "uninitialised-memory", "index-arithmetic",
)  # fmt: skip
_CONSTRAINTS = frozenset({'"r"', '"f"', '"+f"', '"=f"', '"+r"', '"=r"', '"d"', '"+d"'})
_ASSEMBLY = frozenset({"asm", "__asm__", "volatile", "__volatile__"})
_HALF = 8  # rows or k that the second register of a pair is further (PTX ISA, m16n8k16)
_HALVES = frozenset({"1", "2", "4", "16"})
_NEARBY = 24  # tokens between the two halves of a pair
_ELEMENTS = 4  # of a lane in a 16x8 accumulator


@generator(_KIND, *_MAP, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Registers in ascending order, each once; exchanged, filled from two addresses, stored by the real map."""
    if view.lines is None or not _MULTIPLIES.search(view.model.text):
        return
    for pieces in _lists(view):
        yield from _in_order(view, pieces)
        yield from _exchanged(view, pieces)
    yield from _of_runs(view)
    yield from _beside(view)
    yield from _element_map(view)
    yield from _second_rows(view)


_MULTIPLIES = re.compile(r"\bmma\.sync")


def _lists(view: View) -> Iterator[list[Span]]:
    """Operands of assembly, arguments of one call, elements of one list, on wanted lines."""
    model = view.model
    operands: list[Span] = []
    for index, token in enumerate(model.tokens):
        if token.kind == "str" and token.text in _CONSTRAINTS and model.tokens[index + 1].text == "(":
            if view.wanted(token.offset):
                operands.append(model.span(index + 2, model.match[index + 1]))
        elif token.text == ";" and operands:
            yield operands
            operands = []
        elif token.text == "{" and model.tokens[index - 1].text == "=" and model.match[index] > index:
            close = model.match[index]
            yield _listed(model, index, close) if view.wanted(token.offset, model.tokens[close].end) else []
    for call in model.calls:
        if len(call.arguments) > 1 and call.name not in _ASSEMBLY and view.wanted(call.start, call.end):
            yield [one for one in call.arguments if one]


def _listed(model: SourceModel, opened: int, close: int) -> list[Span]:
    found, start, index = [], opened + 1, opened + 1
    while index <= close:
        text = model.tokens[index].text
        if text in ("(", "[", "{"):
            index = model.match[index]
        elif text == "," or index == close:
            found.append(model.span(start, index))
            start = index + 1
        index += 1
    return [piece for piece in found if piece] if 2 <= len(found) <= 8 else []


def _element(model: SourceModel, piece: Span) -> tuple[str, Span] | None:
    """(everything but the last index, the last index) of `array[…][i]`."""
    last = piece.last - 1
    if last <= piece.first or model.tokens[last].text != "]" or model.tokens[piece.first].kind != "id":
        return None
    opened = model.match[last]
    inside = model.span(opened + 1, last)
    return (model.text[piece.start : model.tokens[opened].offset], inside) if inside else None


def _in_order(view: View, pieces: Sequence[Span]) -> Iterator[Edit]:
    """Runs of elements of one array: ascending, each once."""
    model = view.model
    known = [_element(model, piece) for piece in pieces]
    for base, run in itertools.groupby(known, key=lambda one: one[0] if one is not None else ""):
        indices = [one[1] for one in run if one is not None]
        yield from _ascending(view, base, indices)
        if len(indices) == 2 and base:
            yield from _strided(view, base, indices)


def _ascending(view: View, base: str, indices: Sequence[Span]) -> Iterator[Edit]:
    numbers = [int(one.text) if one.text.isdigit() else -1 for one in indices]
    count = len(numbers)
    if not base or count < 2 or min(numbers) < 0 or max(numbers) >= count or numbers == list(range(count)):
        return
    changes = tuple(
        replaced(one, str(wanted))
        for one, number, wanted in zip(indices, numbers, range(count), strict=True)
        if number != wanted
    )
    line = view.model.line_of(changes[0].start)
    listed = ", ".join(map(str, numbers))
    summary = f"take {base}[0] to [{count - 1}] in this order, not {listed}"
    cause = f"elements {listed} of {base} stand where 0 to {count - 1} belong, in this order"
    yield from view.offer(_KIND, _MAP, line, summary, changes, 0.02, cause)


def _strided(view: View, base: str, indices: Sequence[Span]) -> Iterator[Edit]:
    """`x[j]`, `x[j + 2]` as `x[j * 2]`, `x[j * 2 + 1]`: two registers of each multiplication lie side by side."""
    first, second = indices
    whole = re.sub(r"^\(([^()]*)\)", r"\1", second.text)
    tail = whole.removeprefix(first.text).strip() if whole.startswith(first.text) else ""
    if re.fullmatch(r"\+\s*\d+", tail) and tail.replace(" ", "") != "+1":
        inner = first.text if first.text.isidentifier() else f"({first.text})"
        changes = (replaced(first, f"{inner} * 2"), replaced(second, f"{inner} * 2 + 1"))
        summary = f"take {base}[{inner} * 2] and the one after it"
        yield from view.offer(_KIND, _MAP, first.line, summary, changes, 0.04)
    elif same_pieces(first.text, second.text):
        change = Change(second.end, second.end, " + 1")
        yield from view.offer(_KIND, _MAP, second.line, f"take {base}[{second.text} + 1]", (change,), 0.03)


def _exchanged(view: View, pieces: Sequence[Span]) -> Iterator[Edit]:
    """Two pieces of a list that are alike, each in the other's place; what ascends already last."""
    numbers = [int(found[1]) if (found := re.search(r"(\d+)\W*$", piece.text)) else -1 for piece in pieces]
    for position, a in enumerate(pieces):
        for gap, b in enumerate(pieces[position + 1 : position + 4]):
            alike = re.split(r"\W", a.text.strip("("))[0] == re.split(r"\W", b.text.strip("("))[0]
            if alike and a.text != b.text:
                plain = "(" not in a.text and "(" not in b.text
                ascends = plain and 0 <= numbers[position] < numbers[position + 1 + gap]
                ascends = ascends or (len(pieces) == 2 and b.text.count("+ 1") > a.text.count("+ 1"))
                # The second and third of four change places: the order by rows and the order by k.
                middle = len(pieces) == 4 and (position, gap) == (1, 0) and not ascends
                rank = 0.045 if middle else 0.06 + 0.01 * gap + 0.08 * ascends
                summary = f"exchange {a.text} and {b.text}"
                yield from view.offer(_KIND, _MAP[:3], a.line, summary, exchanged(a, b), rank)


# Statements side by side


def _beside(view: View) -> Iterator[Edit]:
    """Calls of one function side by side, in which one array goes on from element to element and another stays."""
    model = view.model
    # Calls in the arguments of another one are not beside it.
    outer = [call for call in model.calls if (at := model.statement_at(call.start)) >= 0
             and model.statements[at].start == call.start]  # fmt: skip
    for _, together in itertools.groupby(outer, key=lambda call: (call.name, len(call.arguments))):
        run = list(together)
        parents = {model.statements[model.statement_at(call.start)].parent for call in run}
        if len(run) < 2 or len(parents) != 1 or not view.wanted(run[0].start, run[-1].end):
            continue
        columns = [[_element(model, call.arguments[at]) for call in run] for at in range(len(run[0].arguments))]
        numbered = [
            [one[1] for one in column if one is not None and one[1].text.isdigit()]
            for column in columns
            if len({one[0] for one in column if one is not None}) == 1
        ]
        whole = [column for column in numbered if len(column) == len(run)]
        if any([one.text for one in column] == [str(i) for i in range(len(run))] for column in whole):
            for column in whole:
                yield from _ascending(view, model.tokens[column[0].first - 2].text, column)


def _of_runs(view: View) -> Iterator[Edit]:
    """Neighbouring statements that fill or store the registers of one fragment."""
    model = view.model
    for index, statement in enumerate(model.statements):
        if statement.kind != "block":
            continue
        inside = [model.statements[at] for at in children(model, index)]
        for kinds, run in itertools.groupby(inside, key=lambda s: s.kind in ("expression", "if")):
            span = list(run)
            if kinds and len(span) > 1 and view.wanted(span[0].start, span[-1].end):
                yield from _of_run(view, span[0].start, span[-1].end)
    for statement in model.statements:  # a loop's body without braces has one statement
        if statement.loop and statement.body >= 0 and model.statements[statement.body].kind == "if":
            yield from _of_run(view, statement.start, statement.end)


def _of_run(view: View, start: int, end: int) -> Iterator[Edit]:
    model = view.model
    assignments = [a for a in model.assignments if start <= a.target.start < end and a.operator.text == "="]
    targets = [a.target for a in assignments]
    read = [s for s in model.subscripts if start <= s.start < end and not any(_within(s, t) for t in targets)]
    by_base: dict[str, list[Span]] = {}
    for one in read:
        last = one.indices[-1]
        by_base.setdefault(model.text[one.start : last.start - 1], []).append(last)
    stored = len({"".join(t.text.split()) for t in targets}) == len(targets) > 1
    own = {model.text[t.start : t.end].split("[")[0] for t in targets}
    for base, indices in by_base.items() if stored else ():
        if base.split("[")[0] in own:  # brought up to date where it is
            continue
        each = sorted(one.text for one in indices) == [str(i) for i in range(len(indices))]
        if (each and len(indices) % len(targets) == 0) or len(indices) == len(targets) <= _ELEMENTS:
            yield from _ascending(view, base, indices)
        if len(indices) == len(targets) == 2:
            yield from _strided(view, base, indices)
    yield from _fills(view, assignments)


def _within(one: Subscript, piece: Span) -> bool:
    """Whether a subscript belongs to what is assigned to: `LDST(C[i])` as well as `C[i]`."""
    return piece.start <= one.start and one.end <= piece.end


def _fills(view: View, assignments: Sequence[Assignment]) -> Iterator[Edit]:
    """`a[1] = …; a[2] = …;`: exchanged, or both from one address."""
    model = view.model
    own = [(a, element) for a in assignments if (element := _element(model, a.target)) is not None]
    for position, (a, (base, first)) in enumerate(own):
        for b, (other, second) in own[position + 1 :]:
            if base != other or not (view.wanted(a.target.start, b.value.end)):
                continue
            if "(" not in a.value.text and "[" not in a.value.text:
                continue  # a number is no address
            if not (first.text.isdigit() and second.text.isdigit()):
                continue
            if not same_pieces(a.value.text, b.value.text):
                # The second and third of four change places: the order by rows and the order by k.
                middle = (first.text, second.text) == ("1", "2")
                rank = 0.055 if middle or len(own) == 2 else 0.12
                summary = f"exchange what fills {a.target.text} and {b.target.text}"
                yield from view.offer(_KIND, _MAP, a.line, summary, exchanged(a.value, b.value), rank)
                continue
            at = b.value.end - (b.value.text.endswith(")"))
            change = Change(at, at, f" + {_HALF}")
            summary = f"fill {b.target.text} from {_HALF} further than {a.target.text}"
            cause = f"{a.target.text} and {b.target.text} are filled with the same elements"
            yield from view.offer(_KIND, _MAP, b.line, summary, (change,), 0.03, cause)


# Where elements are stored


def _element_map(view: View) -> Iterator[Edit]:
    """Row and column of element e of a lane, in a loop over the elements, as the map has them."""
    model = view.model
    for index, statement in enumerate(model.statements):
        if statement.kind != "for" or statement.condition is None or not view.wanted(statement.start, statement.end):
            continue
        found = re.fullmatch(r"\s*(\w+)\s*<\s*(\w+)\s*", statement.condition.text)
        counter = model.variable(found[1], statement.condition.start) if found is not None else None
        if found is None or counter is None or counter.kind != "loop":
            continue
        limit = int(found[2]) if found[2].isdigit() else model.constants.get(found[2])
        elements = [s for s in model.subscripts if statement.start <= s.start < statement.end]
        targets = [one.target for one in model.assignments]
        read = [s for s in elements if not any(_within(s, target) for target in targets)]
        if limit != _ELEMENTS or not any(s.indices[-1].text.strip() == found[1] for s in read):
            continue
        body = [
            v
            for v in model.variables
            if statement.head_end <= v.name_at < statement.end and is_integer(v) and v.initial is not None
        ]
        yield from _mapped(view, index, found[1], body)


def _mapped(view: View, loop: int, e: str, body: Sequence[Variable]) -> Iterator[Edit]:
    model = view.model
    placed = [own for v in body if v.initial is not None and (own := _own_terms(model, v.initial, e))]
    if len(placed) != 2 or any(_hidden(model, v.initial, own) for v in body if v.initial for own in placed):
        return
    start = model.statements[loop].start
    group, twice = spelled(model, GROUP, start), spelled(model, TWICE, start)
    wanted = (
        f"{group} + {e} / 2 * 8",
        f"{twice} + {e} % 2",
    )
    have = [_values(model, own, e) for own in placed]
    if have in ([_meant(0), _meant(1)], [_meant(1), _meant(0)]):
        return
    for order, rank in (((0, 1), 0.03), ((1, 0), 0.07)):
        changes: list[Change] = []
        for own, which in zip(placed, order, strict=True):
            text = wanted[which]
            if _values(model, own, e) == _meant(which):
                continue
            changes.append(replaced(own[0], text))
            changes += [Change(model.tokens[one.first - 1].offset, one.end, "") for one in own[1:]]
        if changes:
            line = model.line_of(changes[0].start)
            summary = f"the map of an accumulator: {' and '.join(wanted[i] for i in order)}"
            cause = f"element {e} of a lane is taken for another row and column than {' and '.join(wanted)}"
            more = 0.002 * len(changes)
            yield from view.offer(_KIND, _MAP, line, summary, tuple(changes), rank + more, cause)


def _hidden(model: SourceModel, piece: Span, own: Sequence[Span]) -> bool:
    """Whether a term of a sum that is not among these depends on the lane through a name."""
    others = [term for term in terms(model, piece) if all(term.start != one.start for one in own)]
    inside = any(piece.start <= one.start < piece.end for one in own)
    return inside and any(model.lanes.atoms(term) for term in others)


def _meant(which: int) -> list[int]:
    """Row (0) or column (1), by lane and element."""
    every = [(lane, e) for lane in range(LANES) for e in range(_ELEMENTS)]
    return [lane // 4 + e // 2 * 8 if which == 0 else lane % 4 * 2 + e % 2 for lane, e in every]


def _own_terms(model: SourceModel, piece: Span, e: str) -> list[Span]:
    """The terms that depend on the lane or the element."""
    found = []
    for term in terms(model, piece):
        values = model.lanes.values(term)
        names = {t.text for t in model.tokens[term.first : term.last] if t.kind == "id"}
        if e in names or (values is not None and not model.lanes.steady(values)):
            found.append(term)
    return found


def _values(model: SourceModel, own: Sequence[Span], e: str) -> list[int] | None:
    """What the terms add up to, by lane and element."""
    table = [model.lanes.values_with(term, e, range(_ELEMENTS)) for term in own]
    if any(one is None for one in table):
        return None
    return [sum(one[i][lane] for one in table if one is not None) for lane in range(LANES) for i in range(_ELEMENTS)]


def _second_rows(view: View) -> Iterator[Edit]:
    """The second half of a lane's elements lies 8 rows further: `out + n`, `(row + 4) * n`."""
    model = view.model
    for call_or_index in _addresses(model):
        if not view.wanted(call_or_index.start, call_or_index.end):
            continue
        for term in terms(model, call_or_index):
            parts = factors(model, term)
            if len(parts) == 2 and parts[0].text in _HALVES and _beside_first(model, call_or_index, term):
                summary = f"{_HALF} rows further, not {parts[0].text}"
                change = replaced(parts[0], str(_HALF))
                yield from view.offer(_KIND, _MAP, term.line, summary, (change,), 0.03)
            for part in parts:
                opened = _bracketed(model, part)
                for one in terms(model, opened) if opened is not None and len(parts) > 1 else ():
                    if one.text in _HALVES:
                        summary = f"{_HALF} rows further, not {one.text}"
                        change = replaced(one, str(_HALF))
                        yield from view.offer(_KIND, _MAP, one.line, summary, (change,), 0.055)
        whole = terms(model, call_or_index)
        last = whole[-1]
        if len(whole) == 2 and last.text.isidentifier() and whole[0].text.isidentifier():
            variable = model.variable(last.text, last.start)
            pointer = model.variable(whole[0].text, whole[0].start)
            if variable is not None and variable.kind == "parameter" and pointer is not None and pointer.pointer:
                change = replaced(last, f"{_HALF} * {last.text}")
                yield from view.offer(_KIND, _MAP, last.line, f"{_HALF} rows further, not one", (change,), 0.05)


def _beside_first(model: SourceModel, piece: Span, term: Span) -> bool:
    """Whether the same address without a term is used nearby: `at(p)`, `at(p + 4 * ld)`."""
    if term.first <= piece.first or len(terms(model, piece)) != 2:
        return False
    words = [token.text for token in model.tokens[piece.first : term.first - 1]]
    nearby = range(max(piece.first - _NEARBY, 0), piece.first)
    return any([t.text for t in model.tokens[at : at + len(words) + 1]] == [*words, ")"] for at in nearby)


def _addresses(model: SourceModel) -> Iterator[Span]:
    for one in model.subscripts:
        yield from one.indices
    for call in model.calls:
        yield from (argument for argument in call.arguments if "+" in argument.text)


def _bracketed(model: SourceModel, piece: Span) -> Span | None:
    if model.tokens[piece.first].text == "(" and model.match[piece.first] == piece.last - 1:
        return model.span(piece.first + 1, piece.last - 1)
    return None
