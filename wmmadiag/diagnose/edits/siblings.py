"""Make a statement agree with its siblings: same array, same call, same divisor, mirrored guard.

Bad:
    int tm = wid / tiles_n, tn = wid % (M / 32);
    if (row + r < n && col + c < m) C[(row + r) * n + col + c] = x;

Good:
    int tm = wid / tiles_n, tn = wid % tiles_n;
    if (row + r < m && col + c < n) C[(row + r) * n + col + c] = x;
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from wmmadiag.diagnose.edits.building import bracketed, replaced
from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Span, Statement, Token, Variable

_KIND = "siblings"
_INDEX = (
    "index-arithmetic", "tensor-strides", "row-statistic", "stale-tile", "swizzle-mismatch",
    "ldmatrix-address", "guard-condition", "causal-mask", "out-of-bounds", "write-conflict", "loop-extent",
    "operand-order", "too-few-warps", "unwritten-output", "fragment-footprint", "async-copy-order", "tail-masking",
    "operand-layout", "partial-fill", "normalisation", "reduction", "fragment-map",
)  # fmt: skip
_LONGEST = 40  # tokens of an index that is compared with others


@generator(_KIND, *_INDEX, "leading-dimension")
def generate(view: View) -> Iterator[Edit]:
    """Pieces of other statements that differ little; names exchanged, or replaced everywhere in a statement."""
    yield from _same_divisor(view)
    if view.lines is None:
        return
    yield from _likewise(view)
    yield from _everywhere(view)
    yield from _exchanged_names(view)
    yield from _named_part(view)
    yield from _forgotten(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _INDEX, line, summary, changes, rank)


def _same_divisor(view: View) -> Iterator[Edit]:
    """`x / n` and `x % m`: quotient and remainder of one number are by the same divisor."""
    model = view.model
    found: list[tuple[Span, str, Span]] = []
    for index, token in enumerate(model.tokens):
        if token.text in ("/", "%") and 0 < index < len(model.tokens) - 1 and model.tokens[index - 1].kind == "id":
            last = model.match[index + 1] + 1 if model.tokens[index + 1].text == "(" else index + 2
            divisor = model.span(index + 1, last)
            if last < len(model.tokens) and model.tokens[last].text in ("(", ".", "::"):
                continue
            found.append((model.span(index - 1, index), token.text, divisor))
    for left, operator, divisor in found:
        if not view.wanted(left.start, divisor.end):
            continue
        for other, other_operator, right in found:
            near = left.text == other.text and operator != other_operator and abs(left.line - other.line) <= 8
            if near and "".join(right.text.split()) != "".join(divisor.text.split()):
                summary = f"{left.text} {operator} {right.text}, as at line {other.line}"
                text = bracketed(right.text)
                yield from _each(view, left.line, summary, (replaced(divisor, text),), 0.06)


def _pieces(view: View) -> list[tuple[str, Span]]:
    """What can be compared: indices of arrays, arguments of calls, terms of pointer sums; each with its role."""
    model = view.model
    found = [(f"[{p}/{len(s.indices)}]", i) for s in model.subscripts for p, i in enumerate(s.indices)]
    found += [(c.name, a) for c in model.calls for a in c.arguments if a]
    return [(role, piece) for role, piece in found if piece.last - piece.first <= _LONGEST]


def _likewise(view: View) -> Iterator[Edit]:
    """The same index, or argument of the same call, as another statement nearby has, where the two differ little."""
    model = view.model
    everything = _pieces(view)
    words = {(p.first, p.last): [t.text for t in model.tokens[p.first : p.last]] for _, p in everything}
    for role, piece in everything:
        own = words[piece.first, piece.last]
        if len(own) < 3 or not view.wanted(piece.start, piece.end):
            continue
        function = model.function_at(piece.start)
        for other_role, other in everything:
            text = words[other.first, other.last]
            if other_role[:1] != role[:1] or own == text or not len(own) // 2 <= len(text) <= 2 * len(own) + 6:
                continue
            if function is None or not function.start <= other.start < function.end:
                continue
            if len(set(own) & set(text)) * 2 < len(set(own)):
                continue
            alike = SequenceMatcher(None, own, text, autojunk=False).ratio()
            if alike < 0.55 or not _usable(view, other, piece.start):
                continue
            far = min(abs(other.line - piece.line), 40) * 0.001
            rank = 0.2 - 0.12 * (alike - 0.5) + far + (0.02 if other_role != role else 0.0)
            if role[:1] != "[":
                yield from _partly(view, piece, other, rank)
                continue
            summary = f"index {other.text}, as at line {other.line}"
            yield from _each(view, piece.line, summary, (replaced(piece, other.text),), rank)


def _partly(view: View, piece: Span, other: Span, rank: float) -> Iterator[Edit]:
    """The parts of an argument that differ, one at a time, and all but its first word (the array or the number)."""
    model = view.model
    a, b = ([t.text for t in model.tokens[p.first : p.last]] for p in (piece, other))
    changes = [op for op in SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if op[0] != "equal"]
    made = []
    for tag, a1, a2, b1, b2 in changes:
        if tag == "replace" and a1 == 0 and (a2, b2) == (1, 1):
            continue
        text = model.span(other.first + b1, other.first + b2).text if b2 > b1 else ""
        at = model.span(piece.first + a1, piece.first + a2)
        start = at.start if a2 > a1 else model.tokens[piece.first + a1 - 1].end if a1 else piece.start
        made.append(Change(start, at.end if a2 > a1 else start, text if a2 > a1 else f" {text}"))
    for change in made[:4]:
        yield from _each(view, piece.line, f"as at line {other.line}", (change,), rank + 0.05 + 0.01 * len(made))
    if 1 < len(made) <= 4:
        yield from _each(view, piece.line, f"as at line {other.line}", tuple(made), rank + 0.02)


def _usable(view: View, piece: Span, offset: int) -> bool:
    """Whether every name of a piece means the same at another place."""
    model = view.model
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if token.kind == "id" and (index == 0 or model.tokens[index - 1].text not in (".", "->", "::")):
            here, there = model.variable(token.text, token.offset), model.variable(token.text, offset)
            if here is not None and there is None:
                return False
    return True


def _statements(view: View) -> Iterator[Statement]:
    for statement in view.model.statements:
        head = statement.end if statement.simple else statement.head_end
        if statement.kind not in ("block", "label", "empty") and view.wanted(statement.start, max(head - 1, 0)):
            yield statement


def _names(view: View, statement: Statement) -> dict[str, list[Token]]:
    """Integers that a statement (or its head) reads, with where."""
    model = view.model
    last = statement.last if statement.simple else model.token_at(statement.head_end)
    found: dict[str, list[Token]] = {}
    for index in range(statement.first, last):
        token, before = model.tokens[index], model.tokens[index - 1].text if index else ""
        if token.kind != "id" or before in (".", "->") or model.tokens[index + 1].text in ("(", "."):
            continue
        variable = model.variable(token.text, token.offset)
        if variable is not None and variable.name_at == token.offset:
            continue
        known = variable is not None and is_integer(variable) and not variable.pointer and not variable.dims
        if known or (variable is None and token.text in model.constants):
            found.setdefault(token.text, []).append(token)
    return found


def _everywhere(view: View) -> Iterator[Edit]:
    """One name in place of another, wherever a statement has it; the other half of a double buffer."""
    model = view.model
    for statement in _statements(view):
        for name, tokens in _names(view, statement).items():
            if len(tokens) < 2:
                continue
            present = model.variable(name, tokens[0].offset)
            scope = model.tokens[model.token_at(tokens[0].offset) - 1].text
            if scope == "::":
                yield from _members(view, tokens)
                continue
            for other in view.integers(tokens[0].offset):
                steady = _steady(view, other) == (present is None or _steady(view, present))
                if other.name != name and steady and other.name_at not in range(statement.start, statement.end):
                    changes = tuple(replaced(token, other.name) for token in tokens)
                    yield from _each(view, tokens[0].line, f"{other.name} in place of {name}", changes, 0.19)
            if present is None or _steady(view, present):
                continue
            for text in (f"({name} ^ 1)", f"(1 - {name})"):
                inside = [t for t in tokens if model.tokens[model.token_at(t.offset) - 1].text == "["]
                changes = tuple(replaced(token, text[1:-1]) for token in inside)
                if changes:
                    faults, summary = ("stale-tile", "async-copy-order"), f"the other buffer, {text}"
                    yield from view.offer(_KIND, faults, tokens[0].line, summary, changes, 0.08)


def _members(view: View, tokens: list[Token]) -> Iterator[Edit]:
    """Another constant of the same class, wherever the statement has this one."""
    model = view.model
    scope = model.tokens[model.token_at(tokens[0].offset) - 2].text
    others = {
        model.tokens[i + 2].text
        for i in range(len(model.tokens) - 2)
        if model.tokens[i].text == scope and model.tokens[i + 1].text == "::"
    }
    for other in sorted(others - {tokens[0].text}):
        changes = tuple(replaced(token, other) for token in tokens)
        summary, faults = f"{scope}::{other} in place of {tokens[0].text}", ("leading-dimension", *_INDEX)
        yield from view.offer(_KIND, faults, tokens[0].line, summary, changes, 0.1)


def _steady(view: View, variable: Variable) -> bool:
    return variable.kind in ("parameter", "global") or variable.name in view.model.constants


def _exchanged_names(view: View) -> Iterator[Edit]:
    """Two names of one statement, each in the other's place: the guards of rows and columns."""
    model = view.model
    for statement in _statements(view):
        head = statement.end if statement.simple else statement.head_end
        condition = next((t.condition for t in model.ternaries if statement.start <= t.condition.start < head), None)
        condition = statement.condition if statement.kind == "if" else condition
        if condition is None:
            continue
        inside = range(condition.start, condition.end)
        names = {n: [t for t in ts if t.offset in inside] for n, ts in _names(view, statement).items()}
        single = [(n, ts[0]) for n, ts in names.items() if len(ts) == 1]
        for position, (a, one) in enumerate(single):
            for b, two in single[position + 1 :]:
                first, second = model.variable(a, one.offset), model.variable(b, two.offset)
                if first is None or second is None or first.kind != second.kind:
                    continue
                changes = (replaced(one, b), replaced(two, a))
                rank = 0.04 if first.kind == "parameter" else 0.14
                yield from _each(view, one.line, f"exchange {a} and {b}", changes, rank)


def _named_part(view: View) -> Iterator[Edit]:
    """Terms that a variable's definition has, among others: the variable was meant (its block's start is missing)."""
    model = view.model
    for piece in integer_expressions(view):
        own = terms(model, piece)
        texts = ["".join(term.text.split()) for term in own]
        for variable in view.integers(piece.start):
            if variable.initial is None or len(own) < 2 or variable.initial.start == piece.start:
                continue
            theirs = ["".join(t.text.split()) for t in terms(model, variable.initial)]
            common = [i for i, text in enumerate(texts) if text in theirs]
            if len(common) < 1 or len(theirs) < 2 or common != list(range(common[0], common[-1] + 1)):
                continue
            change = Change(own[common[0]].start, own[common[-1]].end, variable.name)
            rank = 0.07 if len(common) > 1 else 0.16
            yield from _each(view, piece.line, f"{variable.name} in place of its part", (change,), rank)
        for term in own:
            for part in factors(model, term):
                yield from _constants_for(view, part)


def _constants_for(view: View, part: Span) -> Iterator[Edit]:
    """A named constant in place of a computed factor: `blockIdx.z * (K / gridDim.z)`."""
    model = view.model
    if not part.text.startswith("(") or model.match[part.first] != part.last - 1 or "/" not in part.text:
        return
    for name, value in model.constants.items():
        if value > 1 and name[:2] != "__":
            yield from _each(view, part.line, f"{name} in place of {part.text}", (replaced(part, name),), 0.15)


def _forgotten(view: View) -> Iterator[Edit]:
    """A variable that is computed and never used: it was meant where a sibling stands, or is a term that is missing."""
    model = view.model
    counts: dict[str, int] = {}
    for token in model.tokens:
        if token.kind == "id":
            counts[token.text] = counts.get(token.text, 0) + 1
    unused = [v for v in model.variables if counts.get(v.name) == 1 and not v.pointer and not v.dims]
    for statement in _statements(view):
        for variable in unused:
            if not variable.visible[0] <= statement.start < variable.visible[1]:
                continue
            if "bool" in variable.element.split() and statement.condition is not None:
                change = replaced(statement.condition, variable.name)
                yield from _each(view, statement.line, f"where {variable.name}", (change,), 0.05)
            if not is_integer(variable):
                continue
            # A parameter that a kernel does not use says little.
            extra = 0.1 if variable.kind == "parameter" else 0.0
            for name, tokens in _names(view, statement).items():
                present = model.variable(name, tokens[0].offset)
                if (present is None or _steady(view, present)) != _steady(view, variable):
                    continue
                for token in tokens:
                    summary = f"{variable.name}, which nothing uses, in place of {name}"
                    yield from _each(view, token.line, summary, (replaced(token, variable.name),), 0.06 + extra)
                    change = Change(token.end, token.end, f" + {variable.name}")
                    summary = f"add {variable.name}, which nothing uses"
                    yield from _each(view, token.line, summary, (change,), 0.07 + extra)
