"""Mend a boundary or mask condition: its operator, an end that is off by one, a guard that is missing.

Bad:
    if (row >= M && col >= N) return;

Good:
    if (row >= M || col >= N) return;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import mentions, replaced, same_pieces
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Token

_KIND = "conditions"
_ALL = ("guard-condition", "tail-masking", "causal-mask", "out-of-bounds", "masked-row")
_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_MIRROR = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
STRICT = "strict"
"""Name of the number that says, where it is 1, that < is known to stand for <=, or the reverse."""
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@generator(_KIND, *_ALL, "reduction", "partial-fill")
def generate(view: View) -> Iterator[Edit]:
    """Operators in conditions on wanted lines, then guards that are missing."""
    model = view.model
    for piece in conditions(model):
        if view.wanted(piece.start, piece.end):
            yield from _operators(view, piece)
            yield from _sibling_guards(view, piece)
    yield from _missing_guards(view)
    yield from _without_guard(view)


def _without_guard(view: View) -> Iterator[Edit]:
    """A condition that should not be there."""
    model = view.model
    for statement in model.statements:
        plain = statement.kind == "if" and statement.orelse < 0
        if plain and statement.condition is not None and view.wanted(statement.start, statement.head_end):
            change = Change(statement.start, statement.head_end, "")
            summary = f"without the condition {statement.condition.text}"
            faults = (*_ALL, "reduction", "partial-fill")
            yield from view.offer(_KIND, faults, statement.line, summary, (change,), 0.17)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def conditions(model: SourceModel) -> Iterator[Span]:
    """Conditions of `if`, of ternaries, and initialisers of boolean variables; heads of loops are none."""
    for statement in model.statements:
        if statement.kind == "if" and statement.condition is not None:
            yield statement.condition
    for ternary in model.ternaries:
        yield ternary.condition
    for variable in model.variables:
        if variable.initial is not None and "bool" in variable.element.split():
            yield variable.initial
    for one in model.assignments:
        target = model.variable(one.target.text, one.target.start)
        if target is not None and "bool" in target.element.split():
            yield one.value
    for statement in model.statements:
        if statement.kind == "return" and any(_comparison(model, i) for i in range(statement.first, statement.last)):
            yield model.span(statement.first + 1, statement.last - 1)


def _comparison(model: SourceModel, index: int) -> bool:
    """Whether a token compares two values: `<` and `>` of template lists do not."""
    token = model.tokens[index]
    if token.text not in _OTHER or index == 0 or index + 1 >= len(model.tokens):
        return False
    if token.text in ("<", ">"):
        before, following = model.tokens[index - 1], model.tokens[index + 1]
        if before.text.endswith("_cast") or (following.text in (">", "(") and token.text == ">"):
            return False
        if token.text == ">" and _closes_template(model, index):
            return False
        if token.text == "<" and _opens_template(model, index):
            return False
    return True


def _opens_template(model: SourceModel, index: int) -> bool:
    for at in range(index + 1, min(index + 12, len(model.tokens) - 1)):
        text = model.tokens[at].text
        if text == ">":
            return model.tokens[at + 1].text in ("(", "::") and model.tokens[index - 1].kind == "id"
        if text in (";", "&&", "||", ")", "{", "?"):
            return False
    return False


def _closes_template(model: SourceModel, index: int) -> bool:
    for at in range(index - 1, max(index - 12, 0), -1):
        if model.tokens[at].text == "<":
            return _opens_template(model, at)
        if model.tokens[at].text in (";", "&&", "||", "(", "{"):
            return False
    return False


def _operators(view: View, piece: Span) -> Iterator[Edit]:
    model = view.model
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if token.text in ("&&", "||"):
            other = "||" if token.text == "&&" else "&&"
            yield from _each(view, token.line, f"{other} in place of {token.text}", (replaced(token, other),), 0.03)
        elif token.text == "!" and index + 1 < piece.last:
            yield from _each(view, token.line, "without the negation", (Change(token.offset, token.end, ""),), 0.15)
        elif _comparison(model, index):
            yield from _compared(view, piece, index, token)
    yield from _all_compared(view, piece)
    whole = piece.text
    yield from _each(view, piece.line, "the opposite condition", (replaced(piece, f"!({whole})"),), 0.16)
    yield from _without_part(view, piece)


def _all_compared(view: View, piece: Span) -> Iterator[Edit]:
    """`row + 16 < M && col + 16 < N` becomes `row + 16 <= M && col + 16 <= N`: one thought, in every part."""
    found: dict[str, list[Token]] = {}
    for index in range(piece.first, piece.last):
        if _comparison(view.model, index):
            found.setdefault(view.model.tokens[index].text, []).append(view.model.tokens[index])
    for text, tokens in found.items():
        if len(tokens) > 1:
            changes = tuple(replaced(token, _OTHER[text]) for token in tokens)
            yield from _each(view, piece.line, f"{_OTHER[text]} in place of every {text}", changes, 0.06)


def _compared(view: View, piece: Span, index: int, token: Token) -> Iterator[Edit]:
    model = view.model
    other = _OTHER[token.text]
    where = f"{_around(model, index)}"
    rank = 0.0 if view.values.get(STRICT) and token.text in _NEGATED else 0.04
    yield from _each(view, token.line, f"{other} in place of {token.text}{where}", (replaced(token, other),), rank)
    if token.text in _NEGATED:
        mirrored = _MIRROR[token.text]
        yield from _each(
            view, token.line, f"{mirrored} in place of {token.text}{where}", (replaced(token, mirrored),), 0.05
        )
        opposite = _NEGATED[token.text]
        yield from _each(
            view, token.line, f"{opposite} in place of {token.text}{where}", (replaced(token, opposite),), 0.09
        )
    left, right = operand_before(model, index, piece.first), operand_after(model, index, piece.last)
    for side in (right, left):
        if not side:
            continue
        for step in ("+ 1", "- 1"):
            change = Change(side.end, side.end, f" {step}")
            yield from _each(view, token.line, f"compare with {side.text} {step}", (change,), 0.12)
    for side in (right, left):
        found = terms(model, side) if side else []
        if len(found) > 1:
            gone = Change(found[-2].end, found[-1].end, "")
            yield from _each(view, token.line, f"compare without {found[-1].text}", (gone,), 0.07)
        for variable in view.integers(token.offset) if side else ():
            steps = variable.kind in ("local", "loop", "parameter") and not mentions(model, side, variable.name)
            if steps and not mentions(model, piece, variable.name):
                change = Change(side.end, side.end, f" + {variable.name}")
                rank = 0.14 if variable.kind == "local" else 0.19
                yield from _each(view, token.line, f"compare {side.text} + {variable.name}", (change,), rank)
                change = Change(side.start, side.start, f"{variable.name} + ")
                yield from _each(view, token.line, f"compare {variable.name} + {side.text}", (change,), rank + 0.002)
    for side in (right, left):
        if side and side.last - side.first == 1 and model.tokens[side.first].kind == "id":
            present = model.variable(side.text, side.start)
            for variable in view.integers(side.start):
                if variable.name == side.text or present is None:
                    continue
                if variable.kind == present.kind or {variable.kind, present.kind} == {"local", "loop"}:
                    summary = f"compare {variable.name} in place of {side.text}"
                    yield from _each(view, token.line, summary, (replaced(side, variable.name),), 0.2)
    if right:
        offsets = [
            v for v in view.integers(right.start) if v.kind == "parameter" and v.name not in (right.text, left.text)
        ]
        for variable in offsets[:4]:
            base = right.text
            lengths = [v for v in view.integers(right.start) if v.kind == "parameter" and v.name != variable.name]
            for length in lengths[:4]:
                text = f"{base} + ({variable.name} - {length.name})"
                yield Edit(_KIND, "causal-mask", token.line, f"compare with {text}", (replaced(right, text),), 0.22)


def _around(model: SourceModel, index: int) -> str:
    return f" at {model.tokens[index - 1].text} {model.tokens[index].text} {model.tokens[index + 1].text}"


_ENDS = frozenset({"&&", "||", "?", ":", ",", ";", "(", "{", "=", "return", "!"})


def operand_before(model: SourceModel, index: int, first: int) -> Span:
    """The sum to the left of a comparison."""
    start = index
    while start > first and model.tokens[start - 1].text not in _ENDS:
        partner = model.match[start - 1]
        start = partner if first <= partner < start - 1 else start - 1
    return model.span(start, index)


def operand_after(model: SourceModel, index: int, last: int) -> Span:
    """The sum to the right of a comparison."""
    end = index + 1
    while end < last:
        text = model.tokens[end].text
        if text in _ENDS - {"("} or text in (")", "]", "}"):
            break
        partner = model.match[end]
        end = partner + 1 if end < partner < last else end + 1
    return model.span(index + 1, min(end, last))


def parts(model: SourceModel, piece: Span) -> list[tuple[Span, str]]:
    """The operands of the `&&` and `||` at the top level of a condition, each with the operator before it."""
    found, start, operator, index = [], piece.first, "", piece.first
    while index < piece.last:
        text = model.tokens[index].text
        if text in ("&&", "||"):
            found.append((model.span(start, index), operator))
            start, operator = index + 1, text
        elif text in ("(", "[", "{") and index < model.match[index] < piece.last:
            index = model.match[index]
        index += 1
    found.append((model.span(start, piece.last), operator))
    return [(span, operator) for span, operator in found if span]


def _without_part(view: View, piece: Span) -> Iterator[Edit]:
    model = view.model
    operands = parts(model, piece)
    if len(operands) < 2:
        return
    for position, (operand, _) in enumerate(operands):
        if position == 0:
            change = Change(operand.start, operands[1][0].start, "")
        else:
            change = Change(operands[position - 1][0].end, operand.end, "")
        yield from _each(view, operand.line, f"without the condition {operand.text}", (change,), 0.2)


def _sibling_guards(view: View, piece: Span) -> Iterator[Edit]:
    """Add a bound that other conditions of the same function have and this one lacks."""
    model = view.model
    function = model.function_at(piece.start)
    if function is None:
        return
    own = [span.text for span, _ in parts(model, piece)]
    seen = set()
    for other in conditions(model):
        if not function.start <= other.start < function.end or other.start == piece.start:
            continue
        for operand, _ in parts(model, other):
            key = "".join(operand.text.split())
            if key in seen or any(same_pieces(operand.text, text) for text in own) or "?" in operand.text:
                continue
            names = {t.text for t in model.tokens[operand.first : operand.last] if t.kind == "id"}
            if any(
                model.variable(n, piece.start) is None and n not in model.constants for n in names if n != "threadIdx"
            ):
                continue
            seen.add(key)
            text = (
                operand.text if operand.last - operand.first <= 3 or "||" not in operand.text else f"({operand.text})"
            )
            whole = f"({piece.text})" if "||" in piece.text or "?" in piece.text else piece.text
            summary = f"and only where {operand.text}"
            yield from _each(view, piece.line, summary, (replaced(piece, f"{whole} && {text}"),), 0.18)


def _missing_guards(view: View) -> Iterator[Edit]:
    """Guard an unguarded access: with a condition of the same function, or an index against a length."""
    model = view.model
    if view.lines is None:
        return
    for index, statement in enumerate(model.statements):
        if statement.kind != "expression" or not view.wanted(statement.start, statement.end):
            continue
        if any(call.start == statement.start for call in model.wmma_calls):
            continue
        names = {t.text for t in model.tokens[statement.first : statement.last] if t.kind == "id"}
        indices = [v for v in view.integers(statement.start) if v.name in names and v.kind in ("local", "loop")]
        lengths = [v for v in view.integers(statement.start) if v.kind == "parameter"]
        function = model.function_at(statement.start)
        known: list[tuple[str, float]] = []
        for other in conditions(model):
            if function is not None and function.start <= other.start < function.end and "?" not in other.text:
                wanted = {t.text for t in model.tokens[other.first : other.last] if t.kind == "id"}
                if all(model.variable(n, statement.start) is not None or n in model.constants for n in wanted):
                    known.append((other.text, 0.12))
        known += [(f"{i.name} < {n.name}", 0.16) for i in indices for n in lengths if is_integer(i)][:12]
        is_target = next((a for a in model.assignments if a.statement == index), None)
        for text, rank in known:
            if f"if ({text})" in model.text[max(statement.start - 200, 0) : statement.start]:
                continue
            at = statement.start
            yield from _each(view, statement.line, f"only where {text}", (Change(at, at, f"if ({text}) "),), rank)
            if is_target is not None and is_target.operator.text == "=":
                value = is_target.value
                zero = zero_of(model, is_target.target)
                changes = (replaced(value, f"({text}) ? {value.text} : {zero}"),)
                yield from _each(view, statement.line, f"{zero} except where {text}", changes, rank + 0.01)


def zero_of(model: SourceModel, target: Span) -> str:
    """A zero of the type that an assignment stores."""
    variable = model.variable(model.tokens[target.first].text, target.start)
    if variable is not None and variable.element in ("half", "__half"):
        return "__float2half(0.0f)"
    if variable is not None and variable.element in ("__nv_bfloat16", "nv_bfloat16"):
        return "__float2bfloat16(0.0f)"
    return "0.0f" if variable is not None and variable.element == "float" else f"decltype({target.text} + 0)(0)"
