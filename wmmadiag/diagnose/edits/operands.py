"""Take the operand that was meant: exchange A and B, or name another fragment, array or buffer of the same type.

Bad:
    wmma::load_matrix_sync(v_fragment, sK + k * LD, LD);
    wmma::mma_sync(acc, b, a, acc);

Good:
    wmma::load_matrix_sync(v_fragment, sV + k * LD, LD);
    wmma::mma_sync(acc, a, b, acc);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import exchanged, means_the_same, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import memory_arguments
from wmmadiag.diagnose.source.model import Call, Fragment, SourceModel, Span, Token, Variable

_KIND = "operands"


@generator(_KIND, "operand-order", "stale-tile", "tensor-strides", "row-statistic", "async-copy-order")
def generate(view: View) -> Iterator[Edit]:
    """Fragments of `mma_sync`, then pointers and arrays on wanted lines, then buffer indices."""
    model = view.model
    for call in model.wmma_calls:
        if call.name == "mma_sync" and len(call.arguments) == 4 and view.wanted(call.start, call.end):
            yield from _mma(model, call)
    yield from _fragment_loads(view)
    yield from _arrays(view)
    yield from _buffers(view)


def _mma(model: SourceModel, call: Call) -> Iterator[Edit]:
    destination, a, b, c = call.arguments
    uses = [f.use if f is not None else "" for f in (_fragment_of(model, piece) for piece in (a, b))]
    if uses != ["matrix_a", "matrix_b"]:  # otherwise the compiler would refuse it
        yield Edit(_KIND, "operand-order", call.line, "exchange the operands of mma_sync", exchanged(a, b), 0.05)
    yield from _loaded(model, call)
    for piece in (destination, a, b, c):
        token = model.tokens[piece.first]
        fragment = model.fragment(token.text, token.offset)
        if fragment is None:
            continue
        for other in model.fragments:
            if other.name == token.text or not other.visible[0] <= token.offset < other.visible[1]:
                continue
            if other.use == fragment.use and len(other.dims) == len(fragment.dims):
                changes: tuple[Change, ...] = (replaced(token, other.name),)
                summary = f"multiply {other.name} in place of {token.text}"
                if fragment.use == "accumulator" and destination.text == c.text:
                    changes = (
                        replaced(model.tokens[destination.first], other.name),
                        replaced(model.tokens[c.first], other.name),
                    )
                    summary = f"accumulate into {other.name} in place of {token.text}"
                yield Edit(_KIND, "operand-order", call.line, summary, changes, 0.14)
    if destination.text != c.text:
        summary = f"accumulate onto {destination.text}"
        yield Edit(_KIND, "operand-order", call.line, summary, (replaced(c, destination.text),), 0.08)
        summary = f"accumulate into {c.text}"
        yield Edit(_KIND, "operand-order", call.line, summary, (replaced(destination, c.text),), 0.2)


def _fragment_of(model: SourceModel, piece: Span) -> Fragment | None:
    token = model.tokens[piece.first]
    return model.fragment(token.text, token.offset)


def _loaded(model: SourceModel, call: Call) -> Iterator[Edit]:
    """Exchange what the loads of the two operands read."""
    loads = []
    for piece in call.arguments[1:3]:
        name = model.tokens[piece.first].text
        found = [
            c for c in model.wmma_calls
            if c.name == "load_matrix_sync" and c.start < call.start and len(c.arguments) >= 3
            and model.tokens[c.arguments[0].first].text == name
        ]  # fmt: skip
        if not found:
            return
        loads.append(found[-1])
    one, two = loads
    pieces = ((one.arguments[1], two.start), (two.arguments[1], one.start))
    if not all(means_the_same(model, piece, at) for piece, at in pieces):
        return
    pointers, strides = exchanged(one.arguments[1], two.arguments[1]), exchanged(one.arguments[2], two.arguments[2])
    summary = "exchange what is loaded as the two operands"
    yield Edit(_KIND, "operand-order", call.line, summary, (*pointers, *strides), 0.1)


def _fragment_loads(view: View) -> Iterator[Edit]:
    """Index of an array of fragments, and the fragment that a load fills or a store writes."""
    model = view.model
    for call in model.wmma_calls:
        if call.name == "mma_sync" or not view.wanted(call.start, call.end) or len(call.arguments) < 2:
            continue
        piece = call.arguments[1 if call.name == "store_matrix_sync" else 0]
        token = model.tokens[piece.first]
        fragment = model.fragment(token.text, token.offset)
        if fragment is None:
            continue
        for other in model.fragments:
            here = other.visible[0] <= token.offset < other.visible[1]
            if (
                here
                and other.name != token.text
                and other.use == fragment.use
                and len(other.dims) == len(fragment.dims)
            ):
                summary = f"name {other.name} in place of {token.text}"
                yield Edit(_KIND, "operand-order", call.line, summary, (replaced(token, other.name),), 0.2)


def _arrays(view: View) -> Iterator[Edit]:
    """Another array or pointer of the same type, on its own and everywhere on the line."""
    model = view.model
    calls = {a.first for c in model.wmma_calls for a in memory_arguments(c.name, c.arguments) if a is not None}
    for function in model.functions:
        body = model.statements[function.body]
        for index in range(body.first, body.last):
            token = model.tokens[index]
            if token.kind != "id" or not view.wanted(token.offset) or _member(model, index):
                continue
            variable = model.variable(token.text, token.offset)
            if variable is None or not _memory(variable) or variable.name_at == token.offset:
                continue
            near = 0.12 if index in calls else 0.18
            for other in model.visible(token.offset):
                if other.name != token.text and _memory(other) and _alike(variable, other):
                    penalty = 0.04 * (variable.sizes != other.sizes) + 0.06 * (variable.shared != other.shared)
                    summary = f"use {other.name} in place of {token.text}"
                    yield from _each(view, token, summary, replaced(token, other.name), near + penalty)


def _each(view: View, token: Token, summary: str, change: Change, rank: float) -> Iterator[Edit]:
    hypotheses = ("operand-order", "tensor-strides", "stale-tile", "row-statistic")
    return view.offer(_KIND, hypotheses, token.line, summary, (change,), rank)


def _memory(variable: Variable) -> bool:
    return variable.pointer or bool(variable.dims) or variable.external


def _alike(a: Variable, b: Variable) -> bool:
    return a.element == b.element and len(a.dims) == len(b.dims) and (a.const or not b.const or not a.pointer)


def _member(model: SourceModel, index: int) -> bool:
    return index > 0 and model.tokens[index - 1].text in (".", "->", "::")


def _buffers(view: View) -> Iterator[Edit]:
    """The other half of a double buffer: `buf` ↔ `buf ^ 1`, `stage` ↔ `(stage + 1) % 2`."""
    model = view.model
    for subscript in model.subscripts:
        if len(subscript.indices) < 2 or not view.wanted(subscript.start, subscript.end):
            continue
        variable = model.variable(subscript.name, subscript.start)
        stages = variable.sizes[0] if variable is not None and variable.sizes else None
        if stages is None or not 2 <= stages <= 4:
            continue
        index = subscript.indices[0]
        if index.text.replace(" ", "").endswith("^1"):
            choices = [index.text.rsplit("^", 1)[0].strip()]
        elif stages == 2:
            choices = [f"({index.text}) ^ 1" if index.last - index.first > 1 else f"{index.text} ^ 1"]
        else:
            choices = [f"({index.text} + {step}) % {stages}" for step in range(1, stages)]
        for text in choices:
            summary = f"take buffer {text} of {subscript.name}"
            faults = ("stale-tile", "operand-order", "async-copy-order")
            rank = 0.03 if "stage" in view.values else 0.1  # a stage was read that nothing had filled
            yield from view.offer(_KIND, faults, index.line, summary, (replaced(index, text),), rank)
