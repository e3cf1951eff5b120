"""The changes that undo a known fault of a bias, a scale, an activation or another term, at the lines that it is about.

A fault model says what is computed instead: an index of the other axis, an activation before the bias. What undoes that
is written with what stands in the source already: other index expressions of the function, the same sum in another
order.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import is_integer
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Call, SourceModel, Span

_KIND = "terms"
_INDEX = (
    "-by-row", "-by-column", "-in-tile", "-of-other-in-tile", "-of-other-tile", "-in-part-of-tile", "-first",
    "-shifted", "-misread", "-slope-of-other", "lengths-of-other",
)  # fmt: skip
_MOST = 8
_RANK = 0.02


def term_mends(model: SourceModel, fault: str, hypothesis: str, lines: Collection[int]) -> Iterator[Edit]:
    """Edits for a fault model, the likeliest first; none for models that are about something else.

    Args:
        fault: its name. hypothesis: that it speaks for.
        lines: 1-based ones that the fault is about, the likeliest first.
    """
    found: Iterator[tuple[int, str, tuple[Change, ...]]] = iter(())
    if fault.endswith(_INDEX):
        found = _other_indices(model, lines)
    elif fault == "bias-after-activation":
        found = _into_call(model, lines)
    elif fault in ("bias-before-scale", "bias-times-beta"):
        found = _out_of_product(model, lines)
    elif fault in ("bias-subtracted", "alibi-sign"):
        found = _other_sign(model, lines)
    elif fault in ("alibi-scaled", "bias-twice", "alibi-twice"):
        found = _less_factor(model, lines)
    order = list(lines)
    for number, (line, summary, changes) in enumerate(sorted(found, key=lambda one: order.index(one[0]))):
        yield Edit(_KIND, hypothesis, line, summary, changes, _RANK + 0.004 * number)


def _other_indices(model: SourceModel, lines: Collection[int]) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """Another index in a subscript: what the same function's other subscripts are made of, and its integers."""
    for one in model.subscripts:
        if one.line not in lines or len(one.indices) != 1:
            continue
        index = one.indices[0]
        function = model.function_at(one.start)
        last = function.end if function is not None else one.end
        first = function.start if function is not None else one.start
        options: dict[str, None] = {}
        for other in model.subscripts:
            if not first <= other.start < last or other.start == one.start:
                continue
            for piece in other.indices:
                options.update(dict.fromkeys(_parts(model, piece)))
        own = [v.name for v in model.visible(one.start) if v.kind in ("local", "loop") and is_integer(v)]
        scalars = [name for name in own if not (v := model.variable(name, one.start)) or not (v.dims or v.pointer)]
        known = [text for text in options if _usable(model, text, one.start)]
        ordered = dict.fromkeys([*known, *reversed(scalars)])
        for text in [text for text in ordered if text != index.text][: 2 * _MOST]:
            yield one.line, f"{text} in place of {index.text}", (replaced(index, text),)


def _parts(model: SourceModel, piece: Span) -> Iterator[str]:
    """Sums of neighbouring terms of an index, and factors that are sums: of `(r0 + r) * n + c0 + c` c0 + c, r0 + r."""
    sums = terms(model, piece)
    plain = [one for one in sums if len(factors(model, one)) == 1]
    if len(plain) > 1:
        yield " + ".join(one.text for one in plain)
    for one in sums:
        for factor in factors(model, one):
            text = factor.text
            inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
            if "+" in inner and not inner.startswith("size_t"):
                yield inner.strip()


def _usable(model: SourceModel, text: str, offset: int) -> bool:
    """Whether every name of an expression can be used at an offset."""
    names = re.findall(r"[A-Za-z_]\w*", text)
    return bool(names) and all(
        name in ("x", "y", "z", "threadIdx", "blockIdx", "blockDim") or model.variable(name, offset) is not None
        or name in model.constants
        for name in names
    )  # fmt: skip


def _into_call(model: SourceModel, lines: Collection[int]) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """f(x) + b as f(x + b); max(x, 0) + b as max(x + b, 0)."""
    for call, added in _followed(model, lines):
        inner = call.arguments[0]
        changes = (Change(inner.end, inner.end, f" + {added.text}"), Change(call.end, added.end, ""))
        yield call.line, f"add {added.text} before {call.name}", changes


def _followed(model: SourceModel, lines: Collection[int]) -> Iterator[tuple[Call, Span]]:
    """Calls that are terms of a sum, with the term that follows."""
    for call in model.calls:
        if call.line not in lines or not call.arguments:
            continue
        plus = model.token_at(call.end)
        if plus + 1 >= len(model.tokens) or model.tokens[plus].text != "+":
            continue
        last = plus + 1
        while last < len(model.tokens) and model.tokens[last].text not in (";", ",", ")", "+", "-"):
            text = model.tokens[last].text
            last = model.match[last] + 1 if text in ("(", "[") and model.match[last] > last else last + 1
        if last > plus + 1:
            yield call, model.span(plus + 1, last)


def _out_of_product(model: SourceModel, lines: Collection[int]) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """A * (x + b) as a * x + b, (x + b) * a as x * a + b; a * b without a."""
    tokens = model.tokens
    for at, token in enumerate(tokens):
        if token.text != "(" or token.line not in lines or model.match[at] <= at or at == 0:
            continue
        close = model.match[at]
        inner = model.span(at + 1, close)
        parts = terms(model, inner)
        before, after = tokens[at - 1].text, tokens[close + 1].text if close + 1 < len(tokens) else ""
        if len(parts) != 2 or "*" not in (before, after) or tokens[at - 1].kind == "id":
            continue
        whole = Change(token.offset, tokens[close].end, "")
        if before == "*":
            text = f"{parts[0].text} + {parts[1].text}"
            yield token.line, "take the bias out of the product", (Change(whole.start, whole.end, text),)
        else:
            last = close + 2
            while last < len(tokens) and tokens[last].text not in (";", ",", ")", "+", "-"):
                last = model.match[last] + 1 if tokens[last].text in ("(", "[") else last + 1
            factor = model.span(close + 2, last)
            text = f"{parts[0].text} * {factor.text} + {parts[1].text}"
            yield token.line, "take the bias out of the product", (Change(whole.start, factor.end, text),)
    yield from _less_factor(model, lines)


def _less_factor(model: SourceModel, lines: Collection[int]) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """A product without its first factor, or its last."""
    tokens = model.tokens
    for at, token in enumerate(tokens):
        if token.text != "*" or token.line not in lines or at == 0 or at + 1 >= len(tokens):
            continue
        left, right = tokens[at - 1], tokens[at + 1]
        named = left.kind in ("id", "num") and tokens[at - 2].text in ("+", "-", "(", "=", ",")
        if named and not _is_type(model, left.text, left.offset):
            yield token.line, f"leave out the factor {left.text}", (Change(left.offset, right.offset, ""),)
        if right.kind in ("id", "num") and tokens[at + 2].text in (";", ")", ",", "+", "-") and left.kind != "punct":
            yield token.line, f"leave out the factor {right.text}", (Change(left.end, right.end, ""),)


def _is_type(model: SourceModel, name: str, offset: int) -> bool:
    return name in ("float", "half", "int", "const", "float2", "half2", "float4") or (
        model.variable(name, offset) is None and not name[0].isdigit()
    )


def _other_sign(model: SourceModel, lines: Collection[int]) -> Iterator[tuple[int, str, tuple[Change, ...]]]:
    """Another sign of a term outside of subscripts."""
    inside = [(index.start, index.end) for one in model.subscripts for index in one.indices]
    for at, token in enumerate(model.tokens):
        if token.text not in ("+", "-", "+=", "-=") or token.line not in lines or at == 0:
            continue
        operand = model.tokens[at - 1]
        binary = operand.kind in ("id", "num") or operand.text in (")", "]")
        if binary and not any(start <= token.offset < end for start, end in inside):
            other = token.text.replace("+", "\0").replace("-", "+").replace("\0", "-")
            yield token.line, f"{other} in place of {token.text}", (Change(token.offset, token.end, other),)
