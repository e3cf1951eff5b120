"""Stores in a loop to a place that is the same in every round: each round overwrites the one before.

Where part of an array was left unwritten, such a store is why: the index lacks the loop's variable. That a block has
too few warps, or that a tile is filled in part only, would show the same hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.source.model import Call, SourceModel, Span, Statement

_STORE = "store_matrix_sync"
_FILLS = frozenset({"fill_fragment", "load_matrix_sync"})
_CHANGES = frozenset({"=", "+=", "-=", "*=", "^=", "++", "--"})


@dataclass(frozen=True, slots=True)
class SamePlace:
    """A `store_matrix_sync` whose address is the same in every round of the loop around it.

    Attributes:
        call: the store; address: its first argument.
        loop, end: lines of the loop's head and end; variable: what it counts with.
    """

    call: Call
    address: Span
    loop: int
    end: int
    variable: str


def stored_to_one_place(model: SourceModel) -> Iterator[SamePlace]:
    """Stores of a sum that begins anew in each round, to an address that no round changes."""
    for call in model.wmma_calls:
        if call.name != _STORE or len(call.arguments) < 2 or not call.arguments[0]:
            continue
        at = model.statement_at(call.start)
        index = next((one for one in model.enclosing(at) if model.statements[one].loop), -1) if at >= 0 else -1
        loop = model.statements[index] if index >= 0 else None
        variable = _counter(model, loop) if loop is not None else ""
        if loop is None or not variable or not _begins_in(model, call.arguments[1], loop):
            continue
        if not _changes(model, call.arguments[0], loop, variable):
            yield SamePlace(call, call.arguments[0], loop.line, loop.last_line, variable)


def _counter(model: SourceModel, loop: Statement) -> str:
    """The one variable that a `for` declares in its head; "" where there is none, or several."""
    made = [v.name for v in model.variables if v.kind == "loop" and loop.start <= v.name_at < loop.head_end]
    return made[0] if len(made) == 1 else ""


def _begins_in(model: SourceModel, fragment: Span, loop: Statement) -> bool:
    """Whether a loop's body fills the fragment: each round has a sum of its own."""
    name = model.tokens[fragment.first].text
    return any(
        call.name in _FILLS and loop.head_end <= call.start < loop.end and call.arguments
        and model.tokens[call.arguments[0].first].text == name
        for call in model.wmma_calls
    )  # fmt: skip


def _changes(model: SourceModel, piece: Span, loop: Statement, counter: str) -> bool:
    """Whether an expression may have another value in each round."""
    waiting: list[Span] = [piece]
    seen: set[str] = set()
    while waiting:
        span = waiting.pop()
        for index in range(span.first, span.last):
            token = model.tokens[index]
            if token.kind != "id" or token.text in seen:
                continue
            if token.text == counter:
                return True
            seen.add(token.text)
            variable = model.variable(token.text, token.offset)
            if variable is None:
                continue
            if loop.start <= variable.name_at < loop.end:
                if variable.initial is None:
                    return True  # it is set somewhere in the round
                waiting.append(variable.initial)
            if not variable.dims and _assigned(model, variable.name, loop):
                return True
    return False


def _assigned(model: SourceModel, name: str, loop: Statement) -> bool:
    """Whether a loop's body changes a variable, its declaration left out."""
    for index in range(model.token_at(loop.head_end), model.token_at(loop.end)):
        token = model.tokens[index]
        if token.text != name or index + 1 >= len(model.tokens):
            continue
        changed = model.tokens[index + 1].text in _CHANGES or model.tokens[index - 1].text in ("++", "--")
        declared = model.variable(name, token.offset)
        if changed and (declared is None or declared.name_at != token.offset):
            return True
    return False
