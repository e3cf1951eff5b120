"""Mend an index: quotient for remainder, row for column, warp for lane, a term or a factor that is missing or wrong.

Bad:
    int row = threadIdx.x % 16;
    int col = threadIdx.x / 16;

Good:
    int row = threadIdx.x / 16;
    int col = threadIdx.x % 16;
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, exchanged, replaced
from wmmadiag.diagnose.edits.leading_dimension import addresses
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Token, Variable

_KIND = "indices"
_ALL = (
    "index-arithmetic", "tensor-strides", "too-few-warps", "row-statistic", "write-conflict", "out-of-bounds",
    "unwritten-output", "fragment-footprint", "ldmatrix-address", "loop-extent", "fragment-map",
)  # fmt: skip
_BUILTIN = ("threadIdx", "blockIdx", "blockDim", "gridDim")


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Operators, names, literals and terms of integer expressions on wanted lines."""
    for piece in integer_expressions(view):
        yield from _quotients(view, piece)
        yield from _names(view, piece)
        yield from _literals(view, piece)
        yield from _axes(view, piece)
    yield from _pairs(view)
    yield from _missing_terms(view)
    yield from _strides(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def integer_expressions(view: View) -> Iterator[Span]:
    """Initialisers of integers, indices, pointer sums, on wanted lines; each once."""
    model = view.model
    seen: set[tuple[int, int]] = set()
    found: list[Span] = []
    for variable in model.variables:
        here = variable.initial is not None and variable.kind in ("local", "global", "loop")
        if here and variable.initial is not None and view.wanted(variable.start, variable.end):
            found += [variable.initial] if (is_integer(variable) and not variable.dims) or variable.pointer else []
    for subscript in model.subscripts:
        if view.wanted(subscript.start, subscript.end):
            found += subscript.indices
    found += [piece for piece, _ in addresses(view)]
    for one in model.assignments:
        target = model.variable(one.target.text, one.target.start)
        if target is not None and is_integer(target) and view.wanted(one.target.start, one.value.end):
            found.append(one.value)
    for call in model.calls:
        if view.wanted(call.start, call.end):
            found += [a for a in call.arguments if "*" in a.text and "+" in a.text]
    for piece in sorted(found, key=lambda p: p.first - p.last):
        key = (piece.first, piece.last)
        if not any(first <= key[0] and key[1] <= last for first, last in seen):
            seen.add(key)
            yield piece


def _quotients(view: View, piece: Span) -> Iterator[Edit]:
    model = view.model
    for index in range(piece.first + 1, piece.last - 1):
        token = model.tokens[index]
        if token.text in ("/", "%"):
            other = "%" if token.text == "/" else "/"
            around = f"{model.tokens[index - 1].text} {token.text} {model.tokens[index + 1].text}"
            yield from _each(
                view, token.line, f"{other} in place of {token.text} in {around}", (replaced(token, other),), 0.09
            )
        elif token.text in ("+", "-") and model.tokens[index - 1].kind in ("id", "num"):
            other = "-" if token.text == "+" else "+"
            yield from _each(view, token.line, f"{other} in place of {token.text}", (replaced(token, other),), 0.3)
        elif token.text in ("&", "|", "^", "<<") and model.tokens[index - 1].text not in ("(", ","):
            for other in {"&": ("%", "^"), "|": ("+",), "^": ("+",), "<<": ("*",)}[token.text]:
                summary = f"{other} in place of {token.text}"
                yield from _each(view, token.line, summary, (replaced(token, other),), 0.3)


def _plain(model: SourceModel, index: int) -> bool:
    """Whether a token is a variable's name on its own, neither a member nor a call."""
    tokens = model.tokens
    if tokens[index].kind != "id":
        return False
    before = tokens[index - 1].text if index else ""
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    return before not in (".", "->", "::") and following not in (".", "->", "::", "(", "<")


def _names(view: View, piece: Span) -> Iterator[Edit]:
    """Another integer of the same scope: those declared next to it, and of its kind, first."""
    model = view.model
    choices = [v for v in view.integers(piece.start) if not _declares(v, piece)]
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if not _plain(model, index):
            continue
        present = model.variable(token.text, token.offset)
        constant = present is None and token.text in model.constants
        if not constant and (present is None or not is_integer(present) or present.pointer or present.dims):
            continue
        for other in choices:
            if other.name != token.text:
                rank = _likeness(view, present, other, token)
                if rank < 0.42:
                    summary = f"{other.name} in place of {token.text}"
                    yield from _each(view, token.line, summary, (replaced(token, other.name),), rank)
        if constant or (present is not None and present.const and token.text in model.constants):
            known = model.constants[token.text]
            variables = {v.name for v in model.variables}
            for name, value in model.constants.items():
                if name[:2] != "__" and value != known and value > 1 and name not in variables:
                    change = replaced(token, name)
                    yield from _each(view, token.line, f"{name} in place of {token.text}", (change,), 0.2)


def _declares(variable: Variable, piece: Span) -> bool:
    return variable.initial is not None and variable.initial.start == piece.start


def _likeness(view: View, present: Variable | None, other: Variable, token: Token) -> float:
    """How plausible it is that one name was meant where another stands; names themselves say nothing."""
    steady = present is None or view.number(present.name) is not None or (present.const and _constant(view, present))
    other_steady = _constant(view, other)
    if steady != other_steady:
        return 0.45
    if steady:
        a, b = view.number(token.text), view.number(other.name)
        both = present is not None and present.kind == other.kind == "parameter"
        return 0.45 if a is not None and a == b else 0.12 if both else 0.18
    rank = 0.14
    if present is not None:
        if present.kind != other.kind:
            rank += 0.04
        gap = abs(view.model.line_of(other.name_at) - view.model.line_of(present.name_at))
        rank += min(gap, 20) * 0.004
        if _thread(present) != _thread(other):
            rank += 0.03
    return rank


def _constant(view: View, variable: Variable) -> bool:
    return view.model.constants.get(variable.name) is not None or variable.kind in ("parameter", "global")


def _thread(variable: Variable) -> bool:
    return variable.initial is not None and ("threadIdx" in variable.initial.text or "/" in variable.initial.text)


def _literals(view: View, piece: Span) -> Iterator[Edit]:
    model = view.model
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if token.kind != "num" or not token.text.isdigit():
            continue
        number = int(token.text)
        choices: dict[int, float] = {}
        for value, rank in (
            (number * 2, 0.13), (number // 2, 0.13), (number + 1, 0.22), (number - 1, 0.22), (number * 4, 0.24),
            (number // 4, 0.24), (number + 8, 0.25), (number - 8, 0.25), (number + 16, 0.27), (number - 16, 0.27),
        ):  # fmt: skip
            if value > 0 and value != number and rank < choices.get(value, 1.0):
                choices[value] = rank
        for value in (16, 32, 8, 4):
            if value != number:
                choices[value] = min(choices.get(value, 1.0), 0.16)
        for value, rank in choices.items():
            change = replaced(token, str(value))
            yield from _each(view, token.line, f"{value} in place of {number}", (change,), rank)


def _axes(view: View, piece: Span) -> Iterator[Edit]:
    """`blockIdx.x` for `blockIdx.y`, `threadIdx.x` for a warp or lane index."""
    model = view.model
    for index in range(piece.first, piece.last - 2):
        token = model.tokens[index]
        if token.text not in _BUILTIN or model.tokens[index + 1].text != ".":
            continue
        member = model.tokens[index + 2]
        for axis in "xyz":
            if axis != member.text:
                rank = 0.12 if token.text in ("blockIdx", "gridDim") else 0.2
                summary = f"{token.text}.{axis} in place of {token.text}.{member.text}"
                yield from _each(view, token.line, summary, (replaced(member, axis),), rank)
        if token.text == "threadIdx" and member.text == "x":
            whole = model.span(index, index + 3)
            for text in ("(threadIdx.x / 32)", "(threadIdx.x % 32)"):
                yield from _each(
                    view, token.line, f"{text[1:-1]} in place of threadIdx.x", (replaced(whole, text),), 0.15
                )
            for variable in view.integers(token.offset):
                if (
                    variable.initial is not None
                    and "threadIdx" in variable.initial.text
                    and not _declares(variable, piece)
                ):
                    summary = f"{variable.name} in place of threadIdx.x"
                    yield from _each(view, token.line, summary, (replaced(whole, variable.name),), 0.14)
    compact = re.sub(r"\s", "", piece.text)
    if re.search(r"threadIdx\.x\)?/32", compact) and "32" in piece.text:
        for index in range(piece.first, piece.last):
            if model.tokens[index].text == "32":
                yield from _each(
                    view, piece.line, "the lane, not the thread", (replaced(model.tokens[index], "1"),), 0.4
                )


def _pairs(view: View) -> Iterator[Edit]:
    """Exchange what two neighbouring integers are initialised with: row and column, warp row and warp column."""
    model = view.model
    local = [v for v in model.variables if v.kind == "local" and v.initial is not None and is_integer(v) and not v.dims]
    for position, a in enumerate(local):
        for b in local[position + 1 : position + 4]:
            if a.initial is None or b.initial is None or a.visible[1] != b.visible[1]:
                continue
            near = view.wanted(a.start, a.end) or view.wanted(b.start, b.end)
            alike = any(mark in a.initial.text and mark in b.initial.text for mark in ("threadIdx", "blockIdx"))
            one, two = a.initial.text, b.initial.text
            alike = alike or ("/" in one and "%" in two) or ("%" in one and "/" in two)
            if not near or a.initial.text == b.initial.text or not alike:
                continue
            if re.search(rf"\b{a.name}\b", b.initial.text) or re.search(rf"\b{b.name}\b", a.initial.text):
                continue
            line = a.line if view.wanted(a.start, a.end) else b.line
            summary = f"exchange the definitions of {a.name} and {b.name}"
            yield from _each(
                view, line, summary, exchanged(a.initial, b.initial), 0.08 if b.line - a.line < 3 else 0.13
            )


def _missing_terms(view: View) -> Iterator[Edit]:
    """An offset that is not there: `+ batch * heads`, the tile's start, another index of the scope."""
    model = view.model
    for piece, base in addresses(view):
        present = {t.text for t in model.tokens[piece.first : piece.last] if t.kind == "id"}
        found = terms(model, piece)
        for other, other_base in addresses(View(model, None, view.values)):
            if base is None or other_base is None or other.start == piece.start or other_base.name == base.name:
                continue
            if model.function_at(other.start) is not model.function_at(piece.start):
                continue
            for term in terms(model, other):
                text = term.text
                names = {t.text for t in model.tokens[term.first : term.last] if t.kind == "id"}
                if len(factors(model, term)) < 2 or not names or names <= present or other_base.name in names:
                    continue
                names -= {*_BUILTIN, *"xyz"}
                if all(model.variable(n, piece.start) is not None or n in model.constants for n in names):
                    change = Change(piece.end, piece.end, f" + {text}")
                    yield from _each(view, piece.line, f"add {text}", (change,), 0.24)
        for variable in view.integers(piece.start):
            if variable.kind in ("loop", "local") and variable.name not in present and not _constant(view, variable):
                change = Change(piece.end, piece.end, f" + {variable.name}")
                yield from _each(view, piece.line, f"add {variable.name}", (change,), 0.26)
        for term in found[1:] if len(found) > 1 else ():
            change = Change(model.tokens[term.first - 1].offset, term.end, "")
            yield from _each(view, term.line, f"without {term.text}", (change,), 0.25)


def _strides(view: View) -> Iterator[Edit]:
    """Exchange two strides or two indices of one address; a head that several query heads share."""
    model = view.model
    for piece in integer_expressions(view):
        products = [factors(model, term) for term in terms(model, piece)]
        pairs = [parts for parts in products if len(parts) >= 2]
        for position, a in enumerate(pairs):
            for b in pairs[position + 1 :]:
                for left, right, what in ((a[-1], b[-1], "strides"), (a[0], b[0], "indices")):
                    if left.text != right.text:
                        summary = f"exchange the {what} {left.text} and {right.text}"
                        yield from _each(view, piece.line, summary, exchanged(left, right), 0.13)
        plain = [parts[0] for parts in products if len(parts) == 1]
        for parts in pairs:
            for single in plain:
                if parts[0].text != single.text and _plain_name(model, parts[0]) and _plain_name(model, single):
                    summary = f"exchange {parts[0].text} and {single.text}"
                    yield from _each(view, piece.line, summary, exchanged(parts[0], single), 0.15)
            for part in parts:
                if _plain_name(model, part):
                    yield from _shared_heads(view, part)
            for part in parts:
                if _steady(view, part):
                    for text, rank in ((f"2 * {bracketed(part.text)}", 0.28), (f"{bracketed(part.text)} / 2", 0.28)):
                        summary = f"{text} in place of {part.text}"
                        yield from _each(view, part.line, summary, (replaced(part, f"({text})"),), rank)


def _plain_name(model: SourceModel, piece: Span) -> bool:
    if piece.last - piece.first != 1 or model.tokens[piece.first].kind != "id":
        return False
    variable = model.variable(piece.text, piece.start)
    return variable is None or (is_integer(variable) and not variable.pointer and not variable.dims)


def _steady(view: View, part: Span) -> bool:
    variable = view.model.variable(part.text, part.start)
    return part.last - part.first == 1 and variable is not None and _constant(view, variable)


def _shared_heads(view: View, part: Span) -> Iterator[Edit]:
    """`h / group` for `h`: a head of keys that several heads of queries share."""
    if _steady(view, part):
        return
    for variable in view.integers(part.start):
        if variable.name != part.text and (variable.kind == "parameter" or variable.name in view.model.constants):
            text = f"({part.text} / {variable.name})"
            faults = ("tensor-strides", "index-arithmetic")
            summary = f"{text[1:-1]} in place of {part.text}"
            yield from view.offer(_KIND, faults, part.line, summary, (replaced(part, text),), 0.3)
