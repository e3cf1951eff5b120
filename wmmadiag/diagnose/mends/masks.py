"""The changes that undo a known fault of a causal mask: strictness, corner, an index within its tile, no mask at all.

Bad:
    s = key > row ? -INFINITY : s;                    // row counts within the block

Good:
    s = key > row0 + row ? -INFINITY : s;
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wmmadiag.diagnose.edits import Change, Edit
from wmmadiag.diagnose.edits.building import bracketed, replaced
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.evaluate import evaluate
from wmmadiag.diagnose.source.model import SourceModel, Span, Token, Variable
from wmmadiag.diagnose.source.softmax import Softmax

_KIND = "causal-mask"
_STRICTNESS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ENDS = frozenset({"&&", "||", "?", ":", "=", ";", ",", "!", "return"})
_FEW = 4
_DEEP = 6
_INTEGERS = frozenset({"int", "unsigned", "long", "short", "size_t", "uint32_t", "int32_t", "int64_t"})


@dataclass(frozen=True, slots=True)
class _Comparison:
    """`left operator right`; `bound`: whether a side is a size alone."""

    left: Span
    operator: Token
    right: Span
    bound: bool


def causal_mends(model: SourceModel, parts: Softmax, fault: str, values: Mapping[str, float | int]) -> Iterator[Edit]:
    """Edits of the comparisons that mask scores, for a fault model of the causal mask ("" for none).

    Args:
        values: numbers of the case by the names that the source uses.
    """
    found = list(_comparisons(model, parts))
    for one in (one for one in found if not one.bound):
        if fault in ("causal-strict", "causal-offset", ""):
            text = _STRICTNESS[one.operator.text]
            yield _edit(one, f"{text} in place of {one.operator.text}", (replaced(one.operator, text),), 0.0)
            yield from _without_one(model, one)
        if fault in ("causal-inverted",):
            text = _TURNED[one.operator.text]
            for choice in (text, _STRICTNESS[text]):
                yield _edit(one, f"{choice} in place of {one.operator.text}", (replaced(one.operator, choice),), 0.0)
        if fault in ("causal-corner", "causal-offset"):
            yield from _moved(one, tuple(_shifts(model, one.left.start, values)))
        if fault == "causal-local":
            yield from _both_moved(model, one)
        if fault.startswith("causal-local"):
            yield from _made_elsewhere(model, one, parts)
        if fault.startswith(("causal-local", "causal-tile", "causal-corner")):
            yield from _moved(one, tuple(dict.fromkeys(_bases(model, one))))
    if fault in ("causal-missing", "causal-whole-tiles"):
        for one in found:
            if one.bound:
                yield from _masked_too(model, one)


def _edit(one: _Comparison, summary: str, changes: tuple[Change, ...], rank: float) -> Edit:
    return Edit(_KIND, "causal-mask", one.operator.line, summary, changes, rank)


def _comparisons(model: SourceModel, parts: Softmax) -> Iterator[_Comparison]:
    """Comparisons on the lines of masks, those of loops left out."""
    lines = set(parts.masks)
    for at, token in enumerate(model.tokens):
        if token.text not in _STRICTNESS or token.line not in lines:
            continue
        left, right = _side(model, at, -1), _side(model, at, 1)
        statement = model.statements[model.statement_at(token.offset)]
        if not left or not right or (statement.loop and token.offset < statement.head_end):
            continue
        yield _Comparison(left, token, right, _size(model, left) or _size(model, right))


def _side(model: SourceModel, at: int, step: int) -> Span:
    """The operand of a comparison on one side of its operator."""
    index = at + step
    while 0 <= index < len(model.tokens):
        text, partner = model.tokens[index].text, model.match[index]
        if (step > 0 and text in ("(", "[")) or (step < 0 and text in (")", "]")):
            index = partner
        elif text in _ENDS or text in _STRICTNESS or text in ("(", ")", "[", "]", "{", "}"):
            break
        index += step
    return model.span(index + 1, at) if step < 0 else model.span(at + 1, index)


def _variables(model: SourceModel, piece: Span) -> list[Variable]:
    tokens = model.tokens[piece.first : piece.last]
    found = (model.variable(token.text, token.offset) for token in tokens if token.kind == "id")
    return [variable for variable in found if variable is not None]


def _size(model: SourceModel, piece: Span) -> bool:
    """Whether an expression is a parameter or a constant: a number of keys or rows."""
    names = _variables(model, piece)
    return all(v.kind in ("parameter", "global") for v in names) and not any(
        model.tokens[at].text in ("threadIdx", "blockIdx") for at in range(piece.first, piece.last)
    )


def _without_one(model: SourceModel, one: _Comparison) -> Iterator[Edit]:
    for side in (one.left, one.right):
        for term in terms(model, side)[1:]:
            if term.text == "1":
                sign = model.tokens[term.first - 1]
                yield _edit(one, f"{side.text} without {sign.text} 1", (Change(sign.offset, term.end, ""),), 0.002)


def _moved(one: _Comparison, addends: tuple[str, ...]) -> Iterator[Edit]:
    """A term added to one side, that which has no such term yet."""
    for number, text in enumerate(addends[:_FEW]):
        for side, extra in ((one.right, 0.0), (one.left, 0.001)):
            change = replaced(side, f"{side.text} + {bracketed(text)}")
            yield _edit(one, f"compare with {change.text}", (change,), 0.004 * number + extra)


def _shifts(model: SourceModel, offset: int, values: Mapping[str, float | int]) -> Iterator[str]:
    """What separates the corners: a variable that is the difference of two sizes, or that difference."""
    visible = model.visible(offset)
    sizes = [
        v for v in visible if v.kind == "parameter" and not v.pointer and v.element in ("int", "size_t", "unsigned")
    ]
    names = {v.name for v in sizes}
    for variable in visible:
        words = [] if variable.initial is None else variable.initial.text.split()
        if len(words) == 3 and words[1] == "-" and {words[0], words[2]} <= names:
            yield variable.name
    known = [v for v in sizes if v.name in values]
    pairs = [(a.name, b.name) for a in known for b in known if values[a.name] != values[b.name]]
    yield from (f"{a} - {b}" for a, b in pairs)


def _bases(model: SourceModel, one: _Comparison) -> Iterator[str]:
    """Where a block's rows, or a tile's keys, begin: integers made of the block's index, variables of loops around."""
    yield from _first_rows(model, one)
    yield from _first_keys(model, one)
    yield from _all_sums(model, one)


def _first_rows(model: SourceModel, one: _Comparison) -> tuple[str, ...]:
    """Products that differ from block to block and not from thread to thread: variables, else terms of one.

    A tile's first row is the product of two; an offset into a tensor has more factors.
    """
    used = _used(model, one)
    found: list[tuple[int, str]] = []
    for variable in reversed(model.visible(one.left.start)):
        if not _whole(variable) or variable.name in used or variable.kind == "loop" or variable.initial is None:
            continue
        alone = "threadIdx" not in _made_of(model, variable.initial)
        split = terms(model, variable.initial)
        for term in split:
            made = _made_of(model, term)
            if "blockIdx" in made and "threadIdx" not in made and "*" in term.text:
                text = variable.name if alone and len(split) == 1 else term.text
                found.append((term.text.count("*") + 2 * ("(" in term.text) + (not alone), text))
    return tuple(dict.fromkeys(text for _, text in sorted(found, key=lambda pair: pair[0])))


def _first_keys(model: SourceModel, one: _Comparison) -> Iterator[str]:
    """Variables of the loops around that are no counters of elements, and products of these."""
    used = _used(model, one)
    visible = model.visible(one.left.start)
    loops = {v.name for v in visible if v.kind == "loop" and _whole(v) and v.name not in used and _over_keys(model, v)}
    for variable in reversed(model.visible(one.left.start)):
        if variable.name in used or not _whole(variable):
            continue
        initial = variable.initial
        product = initial is not None and "*" in initial.text and variable.kind != "loop"
        if variable.name in loops or (product and initial is not None and loops & _made_of(model, initial)):
            yield variable.name


def _over_keys(model: SourceModel, variable: Variable) -> bool:
    """Whether a loop's bound is no constant: a loop over what a tile holds has a constant one."""
    for statement in model.statements:
        if statement.kind == "for" and statement.start <= variable.name_at < statement.head_end and statement.condition:
            condition = statement.condition
            at = next((i for i in range(condition.first, condition.last) if model.tokens[i].text in _STRICTNESS), -1)
            return at < 0 or evaluate(model.tokens[at + 1 : condition.last], model.constants.get) is None
    return False


def _used(model: SourceModel, one: _Comparison) -> frozenset[str]:
    return frozenset(v.name for side in (one.left, one.right) for v in _variables(model, side))


def _whole(variable: Variable) -> bool:
    """Whether a variable is one integer."""
    return not variable.dims and not variable.pointer and bool(_INTEGERS & set(variable.element.split()))


def _made_of(model: SourceModel, piece: Span, depth: int = 0) -> frozenset[str]:
    """The names that an expression is made of, through the variables that it names."""
    words = {model.tokens[at].text for at in range(piece.first, piece.last)}
    for variable in _variables(model, piece):
        if variable.initial is not None and variable.kind != "loop" and depth < _DEEP:
            words |= _made_of(model, variable.initial, depth + 1)
    return frozenset(words)


def _both_moved(model: SourceModel, one: _Comparison) -> Iterator[Edit]:
    """`c <= r` becomes `c + k0 <= r + q0`: both count within their tiles."""
    rows = _first_rows(model, one)[:2]
    keys = [name for name in dict.fromkeys(_first_keys(model, one)) if name not in rows][:2]
    for number, (row, key) in enumerate((row, key) for row in rows for key in keys):
        for at, (left, right) in enumerate(((key, row), (row, key))):
            changes = tuple(
                replaced(side, f"{side.text} + {bracketed(base)}")
                for side, base in ((one.left, left), (one.right, right))
            )
            summary = f"compare {changes[0].text} with {changes[1].text}"
            yield _edit(one, summary, changes, 0.002 * number + 0.001 * at)


def _made_elsewhere(model: SourceModel, one: _Comparison, parts: Softmax) -> Iterator[Edit]:
    """A row that only masks use begins where its block does: added where the row is computed."""
    bases, keys = _first_rows(model, one)[:3], frozenset(_first_keys(model, one))
    for side in (one.left, one.right):
        row = model.variable(side.text, side.start)
        made = _made_of(model, side)
        if row is None or row.initial is None or row.kind == "loop" or "threadIdx" not in made or keys & made:
            continue
        uses = [t.line for t in model.tokens if t.text == row.name and row.visible[0] <= t.offset < row.visible[1]]
        if set(uses) <= {model.line_of(row.name_at), *parts.masks}:
            for number, base in enumerate(bases):
                change = replaced(row.initial, f"{row.initial.text} + {bracketed(base)}")
                line = model.line_of(row.name_at)
                summary = f"{row.name} begins at {base}"
                yield Edit(_KIND, "causal-mask", line, summary, (change,), 0.003 * number)


def _all_sums(model: SourceModel, one: _Comparison) -> Iterator[str]:
    """What is added elsewhere to a name that one side is: `m0` of `m0 + row`."""
    names = {side.text for side in (one.left, one.right) if side.last - side.first == 1}
    seen = set()
    for at in range(1, len(model.tokens) - 1):
        if model.tokens[at].text == "+" and model.tokens[at + 1].text in names:
            text = model.tokens[at - 1].text
            if model.variable(text, one.left.start) is not None and text not in seen:
                seen.add(text)
                yield text


def _masked_too(model: SourceModel, one: _Comparison) -> Iterator[Edit]:
    """`key < n` also `key <= row`, with a row that elsewhere is compared with a size."""
    key, positive = (one.left, one.operator.text in ("<", "<=")) if _size(model, one.right) else (one.right, False)
    flags = [v.name for v in model.visible(key.start) if v.kind == "parameter" and _decides(model, v)]
    flags += [name for function in model.functions for name in function.templates if _is_flag(model, name)]
    rows = dict.fromkeys(
        _side(model, at, -1).text
        for at, token in enumerate(model.tokens)
        if token.text == "<" and token.line != one.operator.line and _row(model, at, key)
    )
    whole = model.span(min(one.left.first, one.right.first), max(one.left.last, one.right.last))
    number = 0
    for row in list(rows)[:_FEW]:
        for flag in (*flags, ""):
            if positive:
                seen = f"(!{flag} || {key.text} <= {row})" if flag else f"{key.text} <= {row}"
                text = f"({whole.text} && {seen})"
            else:
                hidden = f"({flag} && {key.text} > {row})" if flag else f"{key.text} > {row}"
                text = f"({whole.text} || {hidden})"
            yield _edit(one, f"mask {key.text} after {row}", (replaced(whole, text),), 0.003 * number)
            number += 1


def _row(model: SourceModel, at: int, key: Span) -> bool:
    """Whether `row < size` stands at an operator, with a row that is known where the key is."""
    left, right = _side(model, at, -1), _side(model, at, 1)
    names = _variables(model, left)
    if not names or not right or not _size(model, right) or _size(model, left):
        return False
    loops = {v.name for v in names if v.kind == "loop"}
    return not loops and all(model.variable(v.name, key.start) is not None for v in names)


def _decides(model: SourceModel, parameter: Variable) -> bool:
    """Whether a parameter is a truth value: declared as one, or an integer that a choice is made by as it stands."""
    if parameter.element == "bool":
        return True
    pieces = [t.condition for t in model.ternaries]
    pieces += [s.condition for s in model.statements if s.kind == "if" and s.condition is not None]
    joined = (part.strip(" ()!") for piece in pieces for part in piece.text.replace("||", "&&").split("&&"))
    return _whole(parameter) and parameter.name in joined


def _is_flag(model: SourceModel, name: str) -> bool:
    return any(
        model.tokens[at].text == "bool" and model.tokens[at + 1].text == name for at in range(len(model.tokens) - 1)
    )
