"""Mend a loop's extent: a bound that drops the last tile, a start, an operator, a step.

Bad:
    for (int tile = 0; tile < K / 16; ++tile)            // drops the rest of K

Good:
    for (int tile = 0; tile < (K + 15) / 16; ++tile)
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement, Token

_KIND = "loops"
_ALL = (
    "loop-extent",
    "too-few-warps",
    "reduction",
    "launch-coverage",
    "tail-masking",
    "unwritten-output",
    "causal-mask",
)
_OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "!=": "<"}


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Heads of loops on wanted lines, and quotients that are rounded down."""
    model = view.model
    for statement in model.statements:
        if statement.loop and (view.wanted(statement.start, statement.head_end) or _heads_wanted(view, statement)):
            yield from _bound(view, statement)
            yield from _start(view, statement)
            yield from _step(view, statement)
        if statement.loop:
            yield from _definitions(view, statement)
        if statement.step is not None:
            yield from _same_unit(view, statement, _step_span(model, statement))
    yield from _quotients(view)


def _heads_wanted(view: View, statement: Statement) -> bool:
    return statement.kind == "do" and statement.condition is not None and view.wanted(statement.condition.start)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def _bound(view: View, statement: Statement) -> Iterator[Edit]:
    model, condition = view.model, statement.condition
    if condition is None:
        return
    for index in range(condition.first, condition.last):
        token = model.tokens[index]
        if token.text not in _OTHER or (token.text in ("<", ">") and model.tokens[index - 1].text.endswith("_cast")):
            continue
        other = _OTHER[token.text]
        yield from _each(view, token.line, f"loop while {other}, not {token.text}", (replaced(token, other),), 0.07)
        bound = model.span(index + 1, condition.last)
        if not bound:
            return
        left = model.span(condition.first, index)
        plus = next((i for i in range(left.first + 1, left.last) if model.tokens[i].text == "+"), -1)
        if plus > 0:
            name = model.span(left.first, plus).text
            change = Change(condition.start, token.end, f"{name} <")
            yield from _each(view, token.line, f"loop while {name} < {bound.text}", (change,), 0.05)
        for step in ("+ 1", "- 1"):
            yield from _each(
                view, token.line, f"end at {bound.text} {step}", (Change(bound.end, bound.end, f" {step}"),), 0.12
            )
        yield from _other_bounds(view, statement, bound)
        return


def _other_bounds(view: View, statement: Statement, bound: Span) -> Iterator[Edit]:
    """Other names for the bound: constants and parameters in scope, double and half of it."""
    model = view.model
    text = bracketed(bound.text)
    yield from _each(view, bound.line, f"end at 2 * {bound.text}", (replaced(bound, f"2 * {text}"),), 0.16)
    yield from _each(view, bound.line, f"end at {bound.text} / 2", (replaced(bound, f"{text} / 2"),), 0.18)
    yield from _whole_bound(view, bound)
    present = view.value(bound)
    choices: dict[str, float] = {}
    for variable in view.integers(statement.start):
        if variable.kind == "loop" or variable.name == bound.text or variable.pointer:
            continue
        if variable.const or variable.kind == "parameter":
            choices[variable.name] = 0.14 if variable.kind == "parameter" or variable.kind == "local" else 0.16
    variables = {v.name for v in model.variables}
    for name in model.constants:
        if name[:2] != "__" and name != bound.text and name not in variables:
            choices.setdefault(name, 0.17)
    for name, rank in choices.items():
        value = view.number(name)
        if value is not None and (value < 2 or value == present):
            continue
        yield from _each(view, bound.line, f"end at {name}", (replaced(bound, name),), rank)
        divisor = _divisor(model, bound)
        if divisor:
            rounded = f"({name} + {divisor} - 1) / {divisor}"
            yield from _each(view, bound.line, f"end at {rounded}", (replaced(bound, rounded),), rank + 0.03)


def _whole_bound(view: View, bound: Span) -> Iterator[Edit]:
    """The bound without its last term or divisor: `D - 16` and `ROWS / 2` as `D` and `ROWS`."""
    model = view.model
    depth_end = bound.first
    for index in range(bound.first, bound.last):
        if model.tokens[index].text in ("(", "[") and index < model.match[index] < bound.last:
            depth_end = max(depth_end, model.match[index])
        elif index > depth_end and model.tokens[index].text in ("+", "-", "/", "*"):
            rest = model.span(bound.first, index)
            gone = Change(rest.end, bound.end, "")
            yield from _each(view, bound.line, f"end at {rest.text}", (gone,), 0.08)


def _definitions(view: View, statement: Statement) -> Iterator[Edit]:
    """What a loop's start and end are defined as, without a term: `n = K / 16 - 1`, `first = max(0, t * T - 16)`."""
    model = view.model
    for piece in (statement.init, statement.condition):
        for token in model.tokens[piece.first : piece.last] if piece is not None else ():
            variable = model.variable(token.text, token.offset) if token.kind == "id" else None
            if variable is None or variable.kind != "local" or variable.pointer or variable.initial is None:
                continue
            initial = variable.initial
            if not view.wanted(variable.start, variable.end):
                continue
            for whole in (initial, *_arguments(model, initial)):
                for term in terms(model, whole)[1:]:
                    change = Change(model.tokens[term.first - 2].end, term.end, "")
                    sign = model.tokens[term.first - 1].text
                    summary = f"{variable.name} without {sign} {term.text}"
                    yield from _each(view, term.line, summary, (change,), 0.03 if sign == "-" else 0.1)


def _arguments(model: SourceModel, piece: Span) -> Iterator[Span]:
    """The arguments of the calls of min and max in an expression."""
    for call in model.calls:
        if call.name in ("min", "max") and piece.start <= call.start < piece.end:
            yield from call.arguments


def _divisor(model: SourceModel, bound: Span) -> str:
    for index in range(bound.first + 1, bound.last - 1):
        if model.tokens[index].text == "/" and index + 2 == bound.last:
            return model.tokens[index + 1].text
    return ""


def _start(view: View, statement: Statement) -> Iterator[Edit]:
    model, init = view.model, statement.init
    if init is None:
        return
    at = next((i for i in range(init.first, init.last) if model.tokens[i].text == "="), -1)
    if at < 0 or at + 1 >= init.last:
        return
    value = model.span(at + 1, init.last)
    step = _step_span(model, statement)
    for text, rank in (("0", 0.1), ("1", 0.17), (step.text if step else "", 0.16)):
        if text and text != value.text:
            yield from _each(view, value.line, f"start at {text}", (replaced(value, text),), rank)
    if value.text not in ("0", "1"):
        for move in ("+ 1", "- 1"):
            yield from _each(
                view, value.line, f"start at {value.text} {move}", (Change(value.end, value.end, f" {move}"),), 0.18
            )
    else:
        for variable in view.integers(statement.start):
            initial = variable.initial.text if variable.initial is not None else ""
            if variable.kind == "local" and ("threadIdx" in initial or "/" in initial or "%" in initial):
                yield from _each(view, value.line, f"start at {variable.name}", (replaced(value, variable.name),), 0.2)


def _step_span(model: SourceModel, statement: Statement) -> Span | None:
    step = statement.step
    if step is None:
        return None
    at = next((i for i in range(step.first, step.last) if model.tokens[i].text in ("+=", "-=", ">", "<<")), -1)
    return (
        model.span(at + 1, step.last) if at >= 0 and at + 1 < step.last and model.tokens[at].text[-1] == "=" else None
    )


def _step(view: View, statement: Statement) -> Iterator[Edit]:
    model, step = view.model, statement.step
    if step is None:
        return
    amount = _step_span(model, statement)
    if amount is None:
        name = next((t.text for t in model.tokens[step.first : step.last] if t.kind == "id"), "")
        if name and any(t.text == "++" for t in model.tokens[step.first : step.last]):
            for text in ("2", "16"):
                yield from _each(view, step.line, f"step by {text}", (replaced(step, f"{name} += {text}"),), 0.2)
            for candidate in _steps(view, statement):
                yield from _each(
                    view, step.line, f"step by {candidate}", (replaced(step, f"{name} += {candidate}"),), 0.19
                )
        return
    text, choices = bracketed(amount.text), [("1", 0.18), ("blockDim.x", 0.17)]
    if amount.text.isdigit():
        number = int(amount.text)
        choices += [(str(number * 2), 0.11), (str(number // 2), 0.1)] if number > 1 else [("2", 0.12)]
    else:
        choices += [(f"2 * {text}", 0.14), (f"{text} / 2", 0.12)]
    choices += [(size, 0.1) for size in _fragment_sizes(model)]
    choices += [(name, 0.14) for name in _steps(view, statement)]
    for text, rank in choices:
        if text not in (amount.text, "0"):
            yield from _each(view, amount.line, f"step by {text}", (replaced(amount, text),), rank)


def _same_unit(view: View, statement: Statement, amount: Span | None) -> Iterator[Edit]:
    """A loop that starts at a thread's index over 32 counts warps: a step that counts threads over 32 as well."""
    model, init = view.model, statement.init
    divisor = next((text for span in _sources(model, init) if (text := _per_thread(model, span))), "")
    if not divisor:
        return
    for span in _sources(model, amount):
        words = {token.text for token in model.tokens[span.first : span.last]}
        if "blockDim" in words and words.isdisjoint(("/", ">", ">>")):
            change = replaced(span, f"({span.text}) / {divisor}")
            yield from _each(view, span.line, f"step by ({span.text}) / {divisor}", (change,), 0.05)


def _sources(model: SourceModel, span: Span | None) -> Iterator[Span]:
    """An expression, and the initialisers of the variables in it."""
    if span is None:
        return
    yield span
    for token in model.tokens[span.first : span.last]:
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        if variable is not None and variable.initial is not None and variable.initial.first != span.first:
            yield variable.initial


def _per_thread(model: SourceModel, span: Span) -> str:
    """The divisor of an expression with `threadIdx` in it that ends with a division: "32", "warpSize"; "" else."""
    words = [token.text for token in model.tokens[span.first : span.last]]
    if "threadIdx" not in words or len(words) < 3:
        return ""
    if words[-2] == "/":
        return words[-1]
    return "32" if "".join(words[-3:]).endswith(">>5") else ""


def _fragment_sizes(model: SourceModel) -> list[str]:
    """What a step over fragments may be: their extents."""
    return sorted({text for fragment in model.fragments for text in fragment.shape if text.isdigit()})


def _steps(view: View, statement: Statement) -> list[str]:
    """Constants that may be a step."""
    model = view.model
    found = {}
    for variable in view.integers(statement.start):
        if variable.const and variable.kind != "loop":
            value = view.number(variable.name)
            if value is not None and 1 < value <= 1024:
                found[variable.name] = value
    for name, value in model.constants.items():
        if name[:2] != "__" and 1 < value <= 1024 and not any(v.name == name for v in model.variables):
            found[name] = value
    return list(found)[:12]


def _quotients(view: View) -> Iterator[Edit]:
    """`K / 16` that must be rounded up, and one rounded up that must not."""
    model = view.model
    for function in model.functions:
        body = model.statements[function.body]
        for index in range(body.first + 1, body.last - 1):
            token = model.tokens[index]
            if token.text != "/" or not view.wanted(token.offset):
                continue
            left, right = model.tokens[index - 1], model.tokens[index + 1]
            if right.kind not in ("id", "num") or "." in right.text:
                continue
            shared = _dividend(model, index)
            if shared is not None:
                yield from _shared_up(view, shared, right)
            if left.kind != "id":
                continue
            variable = model.variable(left.text, left.offset)
            if variable is None and view.number(left.text) is None:
                continue
            if variable is not None and (variable.pointer or variable.element in ("float", "double", "half")):
                continue
            statement = model.statement_at(token.offset)
            head = statement >= 0 and model.statements[statement].loop
            rank = 0.03 if head else 0.15
            if variable is not None and variable.kind in ("local", "loop") and not variable.const:
                rank += 0.1
            a, b = view.number(left.text), view.value(model.span(index + 1, index + 2))
            if a is not None and b:
                if a % b == 0:  # nothing to round
                    continue
                rank -= 0.01
            extra = str(int(right.text) - 1) if right.text.isdigit() else f"{right.text} - 1"
            start = index - 1
            if start > 0 and model.tokens[start - 1].text in (".", "::", "->", "*", "/"):
                continue
            summary = f"round {left.text} / {right.text} up"
            change = Change(left.offset, left.end, f"({left.text} + {extra})")
            yield from _each(view, token.line, summary, (change,), rank)


def _shared_up(view: View, dividend: Span, divisor: Token) -> Iterator[Edit]:
    """`K / 16 / PARTS` rounded up as a whole: what is left over when slices are shared out."""
    a, b = view.value(dividend), view.number(divisor.text)
    if a is not None and b and a % b == 0:
        return
    extra = str(int(divisor.text) - 1) if divisor.text.isdigit() else f"{divisor.text} - 1"
    change = Change(dividend.start, dividend.end, f"({dividend.text} + {extra})")
    summary = f"round {dividend.text} / {divisor.text} up"
    yield from _each(view, divisor.line, summary, (change,), 0.1)


def _dividend(model: SourceModel, slash: int) -> Span | None:
    """What a `/` divides where that is itself a quotient: `K / 16`, with or without brackets; None else."""
    first = slash - 1
    while first >= 0:
        token = model.tokens[first]
        if token.text == ")":
            first = model.match[first]
        elif token.kind not in ("id", "num"):
            return None
        if first <= 0 or model.tokens[first - 1].text not in ("*", "/"):
            break
        first -= 2
    dividend = model.span(first, slash) if first >= 0 else None
    if dividend is None or not any(model.tokens[i].text == "/" for i in range(first, slash)):
        return None
    before = model.tokens[first - 1].text if first > 0 else ""
    # What a call or a cast stands before is not known to be an integer.
    return dividend if before in ("=", "(", ",", "+", "-", "<", "<=", "return") else None
