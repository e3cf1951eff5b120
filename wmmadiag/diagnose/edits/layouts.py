"""Make addresses, leading dimensions and strides say the same layout: one pitch, one order of dimensions.

Bad:
    wmma::load_matrix_sync(b, B + col * K + k, N);                    // N apart, or K apart?
    x[((b * heads + h) * len + s) * dim + d]                          // stored as b, s, h, d

Good:
    wmma::load_matrix_sync(b, B + k * N + col, N);
    x[((b * len + s) * heads + h) * dim + d]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from wmmadiag.diagnose.edits.building import bracketed, exchanged, mentions, replaced
from wmmadiag.diagnose.edits.indices import integer_expressions
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import base_of, factors, memory_arguments, origin, strides_of, terms
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "layouts"
_ALL = (
    "tensor-strides", "index-arithmetic", "leading-dimension", "operand-layout", "tail-masking", "guard-condition",
    "out-of-bounds",
)  # fmt: skip
_STRIDES = _ALL[:4]
_GUARDS = _ALL[4:]
_SUM_ENDS = frozenset({",", ";", ")", "]", "}", "?", ":", "<", ">", "=", "&&", "||"})


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Addresses against leading dimensions; the order of nested dimensions; lists of strides; steps of pointers."""
    yield from _against_pitch(view)
    yield from _nested(view)
    yield from _lists(view)
    yield from _steps(view)
    yield from _factors(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _STRIDES, line, summary, changes, rank)


def _against_pitch(view: View) -> Iterator[Edit]:
    """`p + row * X + col` read with leading dimension Y: the pitch of one is wrong in the other, or row and column."""
    model = view.model
    for call in model.calls:
        pointer, ldm = memory_arguments(call.name, call.arguments)
        if pointer is None and len(call.arguments) in (2, 3):  # a wrapper: tile.load(pointer, ld)
            pointer, ldm = call.arguments[-2:]
        if pointer is None or ldm is None or not ldm or not view.wanted(call.start, call.end):
            continue
        array = origin(model, base_of(model, pointer))
        if "misread" in view.values and array is not None and (array.shared or array.external):
            continue  # what is wrong are accesses to global memory
        sums = terms(model, pointer)
        if len(sums) < 2 or "&" in pointer.text:
            continue
        for position, term in enumerate(sums[1:], 1):
            parts = factors(model, term)
            for part in parts if len(parts) > 1 else ():
                if "".join(part.text.split()) != "".join(ldm.text.split()):
                    summary = f"pitch {ldm.text} in the address, too"
                    yield from _each(view, call.line, summary, (replaced(part, ldm.text),), 0.08)
                    if not part.text.isdigit():
                        summary = f"pass {part.text}, the pitch in the address"
                        yield from _each(view, call.line, summary, (replaced(ldm, part.text),), 0.04)
            for other in sums[1:]:
                row = parts[0] if len(parts) > 1 else term
                if other is term or len(parts) > 2:
                    continue
                low, high = sorted((term, other), key=lambda t: t.start)
                plain = other if len(factors(model, other)) == 1 else factors(model, other)[0]
                text = f"{bracketed(plain.text)} * {bracketed(ldm.text)} + {row.text}"
                if position and len(sums) == 3:
                    yield from _each(view, call.line, f"address {text}", (Change(low.start, high.end, text),), 0.07)


def levels(model: SourceModel, piece: Span) -> list[tuple[Span, Span]]:
    """`((a * B + b) * C + c) * D + d` as [(B, b), (C, c), (D, d)], extent and index; [] if it is no such sum."""
    found: list[tuple[Span, Span]] = []
    while True:
        sums = terms(model, piece)
        parts = factors(model, sums[0])
        if len(sums) < 2 or len(parts) != 2:
            return found[::-1] if len(found) > 1 else []
        index = model.span(sums[1].first, piece.last)
        found.append((parts[1], index))
        inner = parts[0]
        while model.tokens[inner.first].text == "(" and inner.last - inner.first > 2:
            close = model.match[inner.first]
            if close == inner.last - 1:
                inner = model.span(inner.first + 1, close)
            elif all(model.tokens[at].kind == "id" for at in range(inner.first + 1, close)):
                inner = model.span(close + 1, inner.last)  # a cast
            else:
                break
        piece = inner


def _nested(view: View) -> Iterator[Edit]:
    """Two dimensions of a nested sum exchanged; guards for an index against its own extent."""
    model = view.model
    seen = set()
    pieces = [s.indices[0] for s in model.subscripts if len(s.indices) == 1]
    for piece in [p for p in pieces if view.wanted(p.start, p.end)] + list(integer_expressions(view)):
        if piece.start in seen:
            continue
        seen.add(piece.start)
        found = levels(model, piece) or _inner_levels(model, piece)
        for a, (extent, index) in enumerate(found):
            yield from _guard(view, piece, extent, index)
            for other, other_index in found[a + 1 :]:
                changes = (*exchanged(extent, other), *exchanged(index, other_index))
                summary = f"{other_index.text} of {other.text} outside {index.text} of {extent.text}"
                yield from _each(view, piece.line, summary, changes, 0.004 if "read-1" in view.values else 0.08)


def _inner_levels(model: SourceModel, piece: Span) -> list[tuple[Span, Span]]:
    for term in terms(model, piece):
        for part in factors(model, term):
            if model.tokens[part.first].text == "(" and model.match[part.first] == part.last - 1:
                found = levels(model, model.span(part.first + 1, part.last - 1))
                if found:
                    return found
    return []


def _guard(view: View, piece: Span, extent: Span, index: Span) -> Iterator[Edit]:
    """`s < len ? x[(s) * dim + d] : 0` needs `d < dim`, too."""
    model = view.model
    bound = f"{bracketed(index.text)} < {extent.text}"
    for ternary in model.ternaries:
        if ternary.yes.start <= piece.start < ternary.yes.end and bound not in ternary.condition.text:
            condition = ternary.condition
            if mentions(model, condition, extent.text) and not extent.text.isdigit():
                continue
            change = Change(condition.end, condition.end, f" && {bound}")
            yield from view.offer(_KIND, _GUARDS, piece.line, f"and only where {bound}", (change,), 0.05)


def _lists(view: View) -> Iterator[Edit]:
    """Strides in braces or in the arguments of a call: products of the same extents, dealt out anew."""
    model = view.model
    for index, token in enumerate(model.tokens):
        if token.text not in ("{", "(") or not view.wanted(token.offset) or model.match[index] < 0:
            continue
        elements = _elements(model, index)
        if not 2 <= len(elements) <= 5 or any(";" in e.text or "?" in e.text for e in elements):
            continue
        parts = [[f.text for f in factors(model, e)] for e in elements]
        names = list(dict.fromkeys(name for part in parts for name in part if name.isidentifier() or "." in name))
        if not 2 <= len(names) <= 4 or not any(len(part) > 1 for part in parts):
            continue
        if not all(_integer(view, name, token.offset) for name in names):
            continue
        yield from _dealt(view, elements, parts, names)


def _elements(model: SourceModel, opened: int) -> list[Span]:
    found, start, index, close = [], opened + 1, opened + 1, model.match[opened]
    while index < close:
        text = model.tokens[index].text
        if text in ("(", "[", "{") and model.match[index] > index:
            index = model.match[index]
        elif text == ",":
            found.append(model.span(start, index))
            start = index + 1
        index += 1
    found.append(model.span(start, close))
    return [piece for piece in found if piece]


def _integer(view: View, name: str, offset: int) -> bool:
    variable = view.model.variable(name, offset)
    return "." in name or (is_integer(variable) if variable is not None else view.number(name) is not None)


def _dealt(view: View, elements: list[Span], parts: list[list[str]], names: list[str]) -> Iterator[Edit]:
    products = [p for size in range(1, len(names)) for p in combinations(names, size)]
    innermost = min(parts, key=len)[0]  # the extent that all strides have
    strides = [p for p in products if innermost in p]
    for a, one in enumerate(elements):
        for b in range(a + 1, len(elements)):
            for first in strides:
                for second in strides:
                    if first == second or (set(first) == set(parts[a]) and set(second) == set(parts[b])):
                        continue
                    same = set(first) == set(parts[a]) or set(second) == set(parts[b])
                    changes = (replaced(one, " * ".join(first)), replaced(elements[b], " * ".join(second)))
                    nested = set(first) < set(second) or set(second) < set(first)
                    rank = 0.12 - 0.02 * same + (0.0 if nested else 0.06)
                    turned = set(first) == set(parts[b]) and set(second) == set(parts[a])
                    summary = f"strides {changes[0].text} and {changes[1].text}"
                    yield from _each(view, one.line, summary, changes, 0.06 if turned else rank)


def _added(model: SourceModel, name: str) -> Iterator[str]:
    """The factors of what is added to a pointer wherever it is used: `p + row * pitch + column`."""
    for index in range(len(model.tokens) - 1):
        if model.tokens[index].text != name or model.tokens[index + 1].text != "+":
            continue
        last = index + 2
        while last < len(model.tokens) and model.tokens[last].text not in _SUM_ENDS:
            last = model.match[last] + 1 if model.tokens[last].text in ("(", "[") else last + 1
        for term in terms(model, model.span(index + 2, last)):
            parts = factors(model, term)
            yield from (part.text for part in parts if len(parts) > 1)


def _steps(view: View) -> Iterator[Edit]:
    """`b += 16` for a pointer whose rows are N apart."""
    model = view.model
    for index, token in enumerate(model.tokens):
        if token.text != "+=" or not view.wanted(token.offset) or index < 1:
            continue
        target = model.variable(model.tokens[index - 1].text, token.offset)
        if target is None or not target.pointer:
            continue
        last = index + 1
        while last < len(model.tokens) and model.tokens[last].text not in (",", ";", ")"):
            last = model.match[last] + 1 if model.tokens[last].text == "(" else last + 1
        step = model.span(index + 1, last)
        parts = factors(model, step)
        source = origin(model, target)
        own = {
            *strides_of(model, {one.name for one in (target, source) if one is not None}),
            *_added(model, target.name),
        }
        for variable in view.integers(token.offset):
            rank = 0.05 if variable.name in own else 0.08
            if variable.kind == "parameter" and not mentions(model, step, variable.name):
                change = Change(step.end, step.end, f" * {variable.name}")
                yield from _each(view, token.line, f"step by {step.text} * {variable.name}", (change,), rank - 0.01)
                for part in parts if len(parts) > 1 else ():
                    summary = f"step by rows of {variable.name}"
                    yield from _each(view, token.line, summary, (replaced(part, variable.name),), rank)
        for part in parts if len(parts) > 1 else ():
            if not part.text.isdigit():
                kept = " * ".join(p.text for p in parts if p is not part)
                yield from _each(view, token.line, f"step by {kept}", (replaced(step, kept),), 0.09)


def _factors(view: View) -> Iterator[Edit]:
    """A stride or an offset that lacks a factor: the three matrices of one tensor, a tile's extent."""
    model = view.model
    for variable in model.variables:
        initial = variable.initial
        if initial is None or not is_integer(variable) or not view.wanted(variable.start, variable.end):
            continue
        if variable.dims or len(terms(model, initial)) != 1 or "*" not in initial.text:
            continue
        for number, rank in (("3", 0.1), ("2", 0.12)):
            change = Change(initial.start, initial.start, f"{number} * ")
            yield from _each(view, initial.line, f"{number} * {initial.text}", (change,), rank)
    for piece in integer_expressions(view):
        if view.lines is None:
            return
        for term in terms(model, piece):
            name = model.variable(term.text, term.start)
            if name is None or name.kind not in ("loop", "local") or not is_integer(name):
                continue
            for size, rank in (("16", 0.15), ("8", 0.18), ("32", 0.19)):
                change = Change(term.end, term.end, f" * {size}")
                faults, summary = ("index-arithmetic", "tensor-strides"), f"{term.text} * {size}"
                yield from view.offer(_KIND, faults, term.line, summary, (change,), rank)
